"""Objects as outlines."""

from mvcs.ui.details import outline


def test_pairs_are_labelled_and_nested():
    value = [
        ["tree", "ab"],
        ["parents", ["cd", "ef"]],
        ["metrics", [["loss", 1.5]]],
        ["step", None],
        ["notes", []],
    ]
    assert list(outline(value)) == [
        "tree: ab",
        "parents: cd, ef",
        "metrics:",
        "  loss: 1.5",
        "step: -",
        "notes: -",
    ]


def test_lists_without_names_have_dashes():
    assert list(outline([1, [2, 3], [[4], 5]])) == ["- 1", "- 2, 3", "-", "  - 4", "  - 5"]


def test_nothing_has_no_lines():
    assert list(outline(None)) == []


def test_foreign_text_is_escaped():
    assert list(outline([["message", "\x1b[2J"]])) == ["message: \\x1b[2J"]
