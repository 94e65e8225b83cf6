"""What the commands say about themselves: help, the page docs/commands.md, completion, the version."""

import importlib.metadata
import os
import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest

from mvcs.cli.declaration import MEANINGS
from mvcs.cli.group import root
from tests.cli.page import MARK, commands, help_text, sections, write_behind

HERE = Path(__file__).parent
GOLDEN = HERE / "help.txt"
PAGE = HERE.parent.parent / "docs" / "commands.md"
ALL = [pytest.param(context, id=context.command_path) for context, _ in commands()]


@pytest.fixture(autouse=True)
def regenerated(request):
    if request.config.getoption("--regenerate", default=False):
        GOLDEN.write_text(help_text())
        write_behind(PAGE, MARK, sections())


def test_help_of_every_command_is_as_reviewed():
    """Regenerate with `pytest tests/cli --regenerate` and read the difference."""
    assert GOLDEN.read_text() == help_text()


def test_the_page_of_commands_is_the_help():
    assert PAGE.read_text().partition(MARK)[2] == "\n\n" + sections()


def test_the_page_of_commands_begins_with_what_people_wrote():
    before = PAGE.read_text().partition(MARK)[0]
    assert re.findall(r"^## (.*)$", before, re.MULTILINE)[:3] == ["On a terminal", "Completion", "Revisions"]


def test_writing_a_page_anew_keeps_its_beginning(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\n{MARK}\n\nold\n")
    write_behind(page, MARK, "new\n")
    assert page.read_text() == f"# Title\n\n{MARK}\n\nnew\n"
    assert [path.name for path in tmp_path.iterdir()] == ["page.md"]


@pytest.mark.parametrize("text", ["", "# Title without a mark\n", f"{MARK}\n\nold\n"])
def test_a_page_that_lost_its_beginning_is_not_written(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match="has lost what stood before its mark"):
        write_behind(page, MARK, "new\n")
    assert page.read_text() == text


@pytest.mark.parametrize("context", ALL)
def test_every_help_ends_with_an_example_and_exit_codes(context):
    text = context.command.get_help(context)
    example, _, codes = text.partition("Example:")[2].partition("Exit codes:")
    assert re.search(rf"^ *\$ {context.command_path}\b", example, re.MULTILINE)
    found = re.findall(r"(\d+) ([a-z ]+)", codes)
    assert found
    assert all(MEANINGS[int(code)] == meaning for code, meaning in found)


@pytest.mark.parametrize("context", ALL[1:])
def test_every_command_answers_in_json(context):
    assert "--json" in [name for param in context.command.params for name in param.opts]


@pytest.mark.parametrize("context", ALL)
def test_examples_are_command_lines_that_parse(context):
    for line in re.findall(r"^  \$ (.*)$", context.command.epilog, re.MULTILINE):
        command, parent = root, None
        words = shlex.split(line.partition(" >")[0])[1:]
        while isinstance(command, click.Group) and words:
            parent = click.Context(command, parent=parent)
            command = command.get_command(parent, words.pop(0))
        assert command.make_context(command.name, words, parent=parent)


def test_version(console):
    assert console("--version").out == f"mvcs {importlib.metadata.version('mvcs')}\n"


def test_no_command_shows_help_and_fails(console):
    result = console(code=2)
    assert result.raw == b""
    assert "Look back:" in result.err


def test_short_and_long_help_agree(console):
    assert console("log", "-h").out == console("log", "--help").out


def test_shell_completion_knows_commands_and_options(python, tmp_path):
    environment = {
        **os.environ,
        "_MVCS_COMPLETE": "bash_complete",
        "COMP_WORDS": "mvcs che",
        "COMP_CWORD": "1",
    }
    program = "from mvcs.cli import main; raise SystemExit(main())"
    found = subprocess.run(
        [python, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert found.stdout == "plain,checkout\n"
