"""The mark of a lossily restored safetensors file: put into any header, and taken out without a trace."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvcs.checkpoint.formats.safetensors_file import (
    FIELD,
    MAX_HEADER,
    METADATA_KEY,
    marked,
    parse_header,
    unmarked,
)

COMMIT, OTHER = "ab" * 32, "cd" * 32
TENSOR = '"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
SPACES = st.text(" \t\n\r", max_size=3)
TEXTS = st.dictionaries(st.text(max_size=4).filter(lambda key: key != FIELD), st.text(max_size=6), max_size=3)


@st.composite
def headers(draw: st.DrawFn) -> bytes:
    """Headers as careless writers lay them out."""
    one, two, three, four = (draw(SPACES) for _ in range(4))
    indent, ascii_only = draw(st.sampled_from([None, 1])), draw(st.booleans())
    text = json.dumps(draw(TEXTS), indent=indent, ensure_ascii=ascii_only)
    metadata = f'"{METADATA_KEY}"{one}:{two}{draw(st.sampled_from([text, text, "{}", "{  }"]))}'
    parts = draw(st.permutations([TENSOR, metadata])) if draw(st.booleans()) else [TENSOR]
    return ("{" + one + f"{three},{two}".join(parts) + four + "}" + " " * draw(st.integers(0, 9))).encode()


@given(header=headers())
def test_a_mark_is_taken_out_without_a_trace(header: bytes) -> None:
    found = marked(header, COMMIT)
    assert unmarked(found) == (header, COMMIT)
    assert unmarked(header) == (header, None)
    assert parse_header(found) == parse_header(header)
    assert (len(found) - len(header)) % 8 == 0
    assert marked(found, OTHER) == marked(header, OTHER)


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" , ", " : ")])
@pytest.mark.parametrize(
    "metadata",
    [
        {FIELD: f"{COMMIT} value"},
        {"x": "y", FIELD: f"{COMMIT} value"},
        {FIELD: f"{COMMIT} value   ", "x": "y"},
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_mark_that_other_programs_copied_is_found(
    metadata: dict[str, str], separators: tuple[str, str], first: bool
) -> None:
    tensor = {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
    parts = [{METADATA_KEY: metadata}, tensor] if first else [tensor, {METADATA_KEY: metadata}]
    header, commit = unmarked(json.dumps(parts[0] | parts[1], separators=separators).encode())
    assert commit == COMMIT
    left = json.loads(header)
    assert left.pop(METADATA_KEY, {}) == {name: text for name, text in metadata.items() if name != FIELD}
    assert left == tensor


@pytest.mark.parametrize(
    "value", ["", "value", f"{COMMIT}", f"{COMMIT} exact", f"{COMMIT[1:]} value", "\\u0000"]
)
def test_what_is_no_mark_is_the_users(value: str) -> None:
    header = f'{{"{METADATA_KEY}":{{"{FIELD}":"{value}"}},{TENSOR}}}'.encode()
    assert unmarked(header) == (header, None)


@pytest.mark.parametrize(
    "header", [b"{}", b'{"__metadata__":{}}', b'{"__metadata__":null,%s}' % TENSOR.encode()]
)
def test_a_header_without_a_place_stays_as_it_is(header: bytes) -> None:
    assert marked(header, COMMIT) == header
    assert unmarked(header) == (header, None)


def test_a_header_is_not_made_longer_than_readers_take() -> None:
    header = f"{{{TENSOR}}}".encode().ljust(MAX_HEADER - 8)
    assert marked(header, COMMIT) is header
