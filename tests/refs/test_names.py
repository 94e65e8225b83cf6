"""Names of refs become path segments that every disk and bucket keeps apart, and come back."""

import re
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mvcs.errors import CorruptionError, MvcsError, UsageError
from mvcs.refs.names import MAX_NEW, MAX_SEGMENT, check_name, decode_name, encode_name, is_segment

NAMES = st.one_of(
    st.text(min_size=1, max_size=25),
    st.text("abAB./%-_ñ", min_size=1, max_size=12),
    st.sampled_from(
        ["main", "Main", "MAIN", "a/b", "a%2Fb", "con", "CON", "con.txt", "nul", ".x", "x.", "..."]
    ),
)


@given(NAMES)
@example("naïve/ünïcödé")
def test_names_come_back(name):
    segment = encode_name(name)
    assert decode_name(segment) == name
    assert is_segment(segment)
    assert re.fullmatch(r"[a-z0-9._%A-F-]{1,255}", segment)
    assert not segment.startswith(".")
    assert not segment.endswith(".")


@given(NAMES, NAMES)
@example("Main", "main")
@example("%4dain", "Main")
def test_different_names_stay_apart_where_case_does_not_count(left, right):
    assert (left == right) == (encode_name(left).casefold() == encode_name(right).casefold())


@given(st.text(max_size=20))
@example("%6Dain")  # a byte that needs no escape
@example("%4dain")  # a lower-case escape
@example("%zz")
@example("%ff")
@example("a/b")
@example("")
@example("٣")
def test_other_segments_are_not_names(segment):
    try:
        name = decode_name(segment)
    except CorruptionError:
        assert not is_segment(segment)
    else:
        assert encode_name(name) == segment
        assert unquote(segment) == name


@pytest.mark.parametrize("device", ["con", "prn", "aux", "nul", "com1", "lpt9", "con.txt", "aux.a.b"])
def test_names_of_devices_are_written_otherwise(device):
    assert encode_name(device) == f"%{ord(device[0]):02X}{device[1:]}"
    assert encode_name(f"x{device}") == f"x{device}"


@pytest.mark.parametrize(
    "name", ["main", "feature/a", "v1.0", "run_3", "naïve", "50%", "a-b", "x.conflict-0a"]
)
def test_good_names_are_kept(name):
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "HEAD",
        "@",
        "-x",
        ".x",
        "/x",
        "x/",
        "x.",
        "a..b",
        "a//b",
        "a b",
        "a\nb",
        "a\n",
        "a~1",
        "a^",
        "a:b",
        "a?",
        "a*",
        "a[0]",
        "a\\b",
        "a@{1}",
        "{a}",
        "\0",
        "\x7f",
        "\ud800",
        "é" * 40,
        "x" * (MAX_NEW + 1),
    ],
)
def test_names_that_mean_something_in_a_revision_are_refused(name):
    with pytest.raises(UsageError) as caught:
        check_name(name)
    assert len(str(caught.value)) < 200


def test_a_name_at_its_limit_leaves_room_for_what_is_put_around_it():
    longest = check_name("x" * MAX_NEW)
    assert len(encode_name(f"origin/{longest}.conflict-01234567")) <= MAX_SEGMENT
    with pytest.raises(MvcsError):
        encode_name("x" * (MAX_SEGMENT + 1))
