"""What counts as a sentence, and what does not."""

import ast

import pytest

from tests.prose import complaints, docstrings, of_public_names, sentences

LONG = "Word " + " ".join(["word"] * 45)
SHORT = " ".join(["word"] * 20)


def test_a_long_sentence_is_shown_with_its_words() -> None:
    assert complaints(f"Some words. {LONG}.\n\nMore. Of them. Short. Each.") == [f"46 words: {LONG}."]


def test_long_sentences_on_average() -> None:
    assert complaints(f"{SHORT} {' '.join(['more'] * 6)}.") == ["26.0 words a sentence on average"]


@pytest.mark.parametrize(
    "aside",
    [
        f"Some:\n\n```\n{LONG}\n```\n",
        f"- item\n\n  ```text\n  {LONG}\n  ```\n",
        f"Some:\n\n    {LONG}\n",
        f"| a | b |\n|---|---|\n| {LONG} | b |\n",
        f"Say `{LONG}` once.",
        f"<!-- {LONG} -->",
        f"A [page](https://example.com/{LONG.replace(' ', '-')}).",
        f"# {SHORT}\n{SHORT}\n\n## {SHORT}\n",
        f"- {SHORT}\n- {SHORT}\n  - {SHORT}\n",
        f"1. {SHORT}\n2. {SHORT}\n3. {SHORT}\n",
        f"*{SHORT}.* {SHORT.title()}. `code` {SHORT}.",
    ],
)
def test_what_does_not_run_together(aside: str) -> None:
    assert complaints(aside) == []


def test_a_line_that_begins_with_a_magnitude_is_no_row_of_a_table() -> None:
    assert [count for count, _ in sentences("Codes with\n|r| above 0.25 move.")] == [6]


def test_entries_of_a_docstring_do_not_run_together() -> None:
    entries = f"Args:\n    one: {SHORT}\n    other: {SHORT}\n\nRaises:\n    ValueError: {SHORT}"
    assert of_public_names(f'"""Do it.\n\n{entries}\n"""') == []


def test_a_long_sentence_in_a_docstring_is_shown() -> None:
    source = f'class Public:\n    def run(self):\n        """Short. {LONG}. Short. So. It. Is."""'
    assert of_public_names(source) == [f"46 words: {LONG}."]


def test_docstrings_are_those_of_public_names() -> None:
    source = '"""M."""\nclass A:\n "A."\n def f(self): "F."\n def _g(self): "G."\ndef _h(): "H."\n'
    assert list(docstrings(ast.parse(source))) == ["M.", "A.", "F."]
