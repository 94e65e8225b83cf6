"""Foreign text cannot command a terminal, and columns line up."""

from hypothesis import given
from hypothesis import strategies as st

from mvcs.ui.screen import Screen
from mvcs.ui.text import bar, first_line, lines, printable, table, width

ASCII = Screen(unicode=False)


def test_escape_sequences_are_shown_not_obeyed():
    assert printable("\x1b[2Jgone\x07") == "\\x1b[2Jgone\\x07"


def test_a_line_cannot_be_reordered():
    assert printable("model\u202etxt.tp") == "model\\u202etxt.tp"


def test_names_in_any_script_stay():
    assert printable("größe 模型 🚀") == "größe 模型 🚀"


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
