"""Histories drawn as lanes."""

from hypothesis import given
from hypothesis import strategies as st

from mvcs.ui.log_graph import Graph
from mvcs.ui.text import Screen


def drawn(history, *, unicode=True):
    graph = Graph(Screen(unicode=unicode))
    return [line for name, *parents in history for line in graph.draw(name, parents, [name])]


def test_a_straight_line():
    assert drawn(["cb", "ba", "a"]) == ["* c", "* b", "* a"]


def test_two_branches_from_one_commit():
    assert drawn(["db", "cb", "ba", "a"]) == ["* d", "│ * c", "├─╯", "* b", "* a"]


def test_a_merge():
    assert drawn(["mab", "br", "ar", "r"]) == ["* m", "├─╮", "│ * b", "* │ a", "├─╯", "* r"]


def test_the_same_in_ascii():
    assert drawn(["mab", "br", "ar", "r"], unicode=False) == ["* m", "|-\\", "| * b", "* | a", "|-/", "* r"]


def test_three_branches_meet():
    assert drawn(["ar", "br", "cr", "r"]) == ["* a", "│ * b", "│ │ * c", "├─┴─╯", "* r"]


def test_a_merge_of_three():
    assert drawn(["mabc", "c", "b", "a"]) == ["* m", "├─┬─╮", "│ │ * c", "│ * b", "* a"]


def test_a_line_crosses_another():
    assert drawn(["ar", "bs", "cr", "r", "s"]) == ["* a", "│ * b", "│ │ * c", "├─┼─╯", "* │ r", "  * s"]


def test_a_merge_with_a_line_already_there_joins_it_below():
    assert drawn(["ms", "bca", "sa", "ca", "a"])[-2:] == ["├─┴─╯", "* a"]


def test_a_history_that_stops_early_leaves_its_lines_open():
    assert drawn(["db", "cb"]) == ["* d", "│ * c"]


def test_several_lines_of_text_have_lanes_beside_them():
    graph = Graph(Screen())
    assert list(graph.draw("m", ["a", "b"], ["one", "two", "", "four"])) == [
        "* one",
        "├─╮ two",
        "│ │",
        "│ │ four",
    ]


def test_a_parent_that_came_first_by_the_clock_is_not_drawn_twice():
    assert drawn(["cp", "p", "bp"]) == ["* c", "* p", "* b"]


@given(st.data())
def test_any_history_is_drawn_once_each_and_aligned(data):
    """Each commit has one node, every row fits, and a lane is never left open after the roots."""
    count = data.draw(st.integers(1, 25))
    history = [
        (str(index), *map(str, sorted(data.draw(st.sets(st.integers(index + 1, count), max_size=3)))))
        for index in range(count)
    ] + [(str(count),)]
    graph = Graph(Screen())
    rows = [line for name, *parents in history for line in graph.draw(name, parents, [f"#{name}"])]
    assert [line.partition("#")[2] for line in rows if "#" in line] == [
        str(index) for index in range(count + 1)
    ]
    assert sum(line.count("*") for line in rows) == count + 1
    assert "│" not in rows[-1]


def test_text_beside_the_lanes_is_left_what_they_do_not_take():
    graph = Graph(Screen(width=40))
    list(graph.draw("c", ["a", "b"], ["merge"]))
    assert graph.beside().width == 34
    assert Graph(Screen()).beside().width is None
