"""Tables and lists fit the terminal they are printed on, whatever is in them."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from mvcs.ui.text import Screen, printable, shortened, shortened_alike, table, width, wrapped

LAYER = "base_model.model.transformer.h.{}.attention.self.query_key_value.projection.weight"
ANY = st.text(st.one_of(st.characters(), st.sampled_from("模é長🚀❤\ufe0f\u0301\u093fமabc./")), max_size=60)
CELLS = st.lists(st.tuples(ANY, ANY, ANY, ANY), min_size=1, max_size=5)


def test_no_sign_is_wider_than_it_is_taken_for():
    """Measured against another implementation's table; beyond the second plane blocks are alike."""
    for code in (*range(0x20000), *range(0x20000, sys.maxunicode, 997)):
        sign = chr(code)
        if not sign.isascii() and printable(sign) == sign:
            assert width(sign) >= cell_len(sign), f"{code:x}"


@given(
    CELLS,
    st.text("<>~", min_size=4, max_size=4),
    st.integers(1, 130),
    st.booleans(),
    st.permutations(range(4)),
    st.booleans(),
)
def test_no_line_of_a_table_is_wider_than_the_terminal(rows, align, columns, signs, optional, header):
    shown = [[printable(cell) for cell in row] for row in rows]
    screen = Screen(unicode=signs, width=columns)
    lines = table(shown, align, screen, optional=optional[:2], header=header)
    assert len(lines) == len(rows)
    assert all(width(line) <= columns and cell_len(line) <= columns for line in lines)


@given(CELLS, st.text("<>~", min_size=4, max_size=4), st.permutations(range(4)))
def test_what_fits_is_shown_whole(rows, align, optional):
    shown = [[printable(cell) for cell in row] for row in rows]
    whole = table(shown, align, Screen())
    widest = max(map(width, whole)) + 200
    assert table(shown, align, Screen(width=widest), optional=optional) == whole


@given(ANY, st.integers(0, 70), st.sampled_from(["…", ".."]))
def test_a_shortened_text_begins_and_ends_as_the_whole(text, columns, mark):
    found = shortened(text, columns, mark)
    assert width(found) <= columns
    if found != text and columns > width(mark):
        head, _, tail = found.partition(mark)
        assert text.startswith(head)
        assert text.endswith(found[len(head) + len(mark) :] or tail)


def test_names_are_shortened_in_the_middle_the_longest_alone():
    rows = [("tensor", "size"), ("lm_head.weight", "1 kB"), (LAYER.format(0), "2 kB")]
    assert table(rows, "~>", Screen(width=50)) == [
        "tensor                                        size",
        "lm_head.weight                                1 kB",
        "base_model.model.tran…alue.projection.weight  2 kB",
    ]


@pytest.mark.parametrize("columns", [24, 34, 40, 60])
def test_layers_stay_apart_when_their_names_are_shortened(columns):
    names = ["a_name_of_another_kind.that.is.long_too.too.too", *(LAYER.format(layer) for layer in range(12))]
    found = shortened_alike(names, columns, "…")
    assert len(set(found)) == 13
    assert max(map(width, found)) <= columns


def test_columns_that_say_least_go_before_names_are_illegible():
    rows = [("tensor", "encoding", "size"), (LAYER.format(1), "rans_residual", "2.7 kB")]
    assert "encoding" in table(rows, "~<>", Screen(width=80), optional=[1])[0]
    narrow = table(rows, "~<>", Screen(width=50), optional=[1])
    assert "encoding" not in narrow[0]
    assert all(width(line) <= 50 for line in narrow)


def test_colours_take_no_room():
    painted = Screen(paint=lambda text, _style: f"<{text}>", width=13)
    assert table([("a" * 40, "1")], "~>", painted, header=False, styles=("id",)) == ["<aaaa…aaaaa>  1"]


def test_a_list_is_wrapped_under_its_label():
    files = ["model-00001.safetensors", "model-00002.safetensors", "config.json"]
    assert wrapped("Files:  ", files, Screen(width=60)) == [
        "Files:  model-00001.safetensors  model-00002.safetensors",
        "        config.json",
    ]
    assert wrapped("Worst:  ", ["one", "two"], Screen(width=12), ", ") == ["Worst:  one,", "        two"]
    assert wrapped("Files:  ", files, Screen()) == ["Files:  " + "  ".join(files)]
    assert wrapped("Files:  ", ["x" * 90], Screen(width=60)) == ["Files:  " + "x" * 90]
