"""Foreign text cannot command a terminal, and columns line up."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvcs.ui.text import Screen, bar, first_line, lines, printable, table, width

ASCII = Screen(unicode=False)


def test_escape_sequences_are_shown_not_obeyed():
    assert printable("\x1b[2Jgone\x07") == "\\x1b[2Jgone\\x07"


def test_a_line_cannot_be_reordered():
    assert printable("model\u202etxt.tp") == "model\\u202etxt.tp"


def test_names_in_any_script_stay():
    shown = "größe 模型 🚀 ❤\ufe0f مدل मॉडल 모델 e\u0301"
    assert printable(shown) == shown


@pytest.mark.parametrize("category", ["Cc", "Cf", "Cs", "Co", "Zl", "Zp"])
def test_what_nobody_sees_is_shown_as_an_escape(category):
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)) == category and not 0xF0100 < code < 0x10FFF0:
            assert printable(f"a{chr(code)}b").isprintable()
            assert printable(f"a{chr(code)}b") not in (f"a{chr(code)}b", "ab")


@pytest.mark.parametrize(
    "sign",
    [
        "\u061c",  # Arabic letter mark
        "\u200b",
        "\u200d",
        "\u2060",
        "\ufeff",
        "\u00ad",
        "\u034f",
        "\u115f",
        "\u3164",
        "\u180e",
        "\ufe00",
        "\ufe0f",
        "\U000e0001",
        "\U000e0061",
        "\U000e01ef",
        "\U000e0fff",
        "\u2800",
    ],
)
def test_a_name_cannot_pass_for_another(sign):
    assert printable(f"mo{sign}del") == f"mo{sign.encode('unicode_escape').decode()}del"


def test_bytes_that_are_no_text_are_escaped():
    assert printable("caf\udce9") == "caf\\udce9"


@given(st.text())
def test_nothing_printable_moves_the_cursor(text):
    shown = printable(text)
    assert shown.encode().decode() == shown
    assert not any(ord(sign) < 32 or 127 <= ord(sign) < 160 for sign in shown)


def test_a_message_keeps_its_lines():
    assert lines("one\n\ttwo\r") == ["one", "\ttwo\\r"]
    assert first_line("\n\none\ntwo") == "one"


def test_columns_line_up_across_scripts():
    found = table([("name", "size"), ("模型", "12"), ("a", "7")], "<>", Screen())
    assert found == ["name  size", "模型    12", "a        7"]
    assert {width(line) for line in found} == {10}


def test_an_empty_table_has_no_lines():
    assert table([], "<<", Screen()) == []


def test_columns_are_painted_after_they_are_padded():
    screen = Screen(paint=lambda text, style: f"<{style}:{text}>")
    assert table([("a", "1"), ("bbb", "2")], "<<", screen, styles=("id",), header=False) == [
        "<id:a  >  1",
        "<id:bbb>  2",
    ]


def test_bars_are_as_long_as_their_share():
    assert [bar(value, 4, Screen()) for value in (0.0, 0.25, 0.5, 1.0, 9.0)] == [
        "",
        "█",
        "██",
        "████",
        "████",
    ]
    assert [bar(value, 4, ASCII) for value in (0.0, 0.25, 1.0)] == ["", "#", "####"]


def test_the_smallest_change_is_visible():
    assert bar(1e-9, 10, Screen()) == "▏"
    assert bar(1e-9, 10, ASCII) == "#"


def test_a_bar_of_nothing_known_is_empty():
    assert bar(float("nan"), 10, Screen()) == ""
