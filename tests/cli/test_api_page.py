"""The page of the Python calls is what their docstrings say."""

import inspect
import re
from pathlib import Path

import pytest

import mvcs
from tests.cli.api_page import MARK, sections
from tests.cli.page import write_behind

PAGE = Path(__file__).parent.parent.parent / "docs" / "api.md"


@pytest.fixture(autouse=True)
def regenerated(request):
    if request.config.getoption("--regenerate", default=False):
        write_behind(PAGE, MARK, sections())


def test_the_page_of_calls_is_the_docstrings():
    """Regenerate with `pytest tests/cli --regenerate` and read the difference."""
    assert PAGE.read_text().partition(MARK)[2] == "\n\n" + sections()


def test_every_public_name_and_verb_stands_on_the_page():
    text = PAGE.read_text()
    assert all(f"mvcs.{name}" in text for name in mvcs.__all__)
    verbs = [name for name, _ in inspect.getmembers(mvcs.Repository, callable) if not name.startswith("_")]
    assert all(re.search(rf"`(repo|mvcs\.Repository)\.{verb}\(", text) for verb in verbs)
    assert " object at 0x" not in text
