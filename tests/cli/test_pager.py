"""Long answers go through a pager on a terminal, and only there."""

import contextlib
import io
import itertools
import os
import shlex
import sys

import pytest

from mvcs.cli import main, pager

KEEPS = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"


class Terminal(io.TextIOWrapper):
    """A stdout that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def terminal(mvcs, tmp_path, monkeypatch):
    """Run commands on a terminal, with a pager that keeps what it is given; return both outputs."""
    kept = tmp_path / "paged"
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("MVCS_PAGER", shlex.join([sys.executable, "-c", KEEPS, str(kept)]))
    mvcs("commit", mvcs.model(), "-m", "first")

    def run(*words):
        kept.unlink(missing_ok=True)
        stream = Terminal(io.BytesIO(), "utf-8")
        with contextlib.chdir(mvcs.folder), contextlib.redirect_stdout(stream):
            assert main([*words]) == 0
        return (kept.read_text() if kept.exists() else None), stream.buffer.getvalue().decode()

    return run


@pytest.mark.parametrize("words", [["log"], ["show"], ["diff"], ["reflog"], ["branch"]])
def test_what_may_be_long_is_paged_with_its_colours(terminal, words):
    paged, printed = terminal(*words)
    assert printed == ""
    assert paged
    if words != ["diff"]:
        assert "\x1b[33m" in paged


def test_nothing_is_paged_where_nobody_reads_or_asks(terminal, mvcs, monkeypatch):
    assert terminal("--no-pager", "log") == (None, terminal("log")[0])
    assert terminal("log", "--json")[0] is None
    assert terminal("status")[0] is None
    assert terminal("tag") == (None, "")
    assert "first" in mvcs("log").out
    for nothing in ("", "cat"):
        monkeypatch.setenv("MVCS_PAGER", nothing)
        assert terminal("log")[0] is None


def test_the_pager_is_that_of_mvcs_else_the_usual_one_else_less():
    said = {"TERM": "xterm", "PAGER": "more -d"}
    assert pager.pager(said, pytest.fail) == ["more", "-d"]
    assert pager.pager(said | {"MVCS_PAGER": "less '-P my prompt'"}, pytest.fail) == ["less", "-P my prompt"]
    assert pager.pager({"TERM": "xterm"}, pytest.fail) == ["less", "-FRX"]
    assert pager.pager({"TERM": "dumb"}, pytest.fail) is None


def test_no_shell_sees_what_the_variable_says(terminal, mvcs, monkeypatch):
    monkeypatch.setenv(
        "MVCS_PAGER", os.environ["MVCS_PAGER"] + " $(touch sprung) ; touch sprung `touch sprung`"
    )
    assert "first" in terminal("log")[0]
    assert not (mvcs.folder / "sprung").exists()


@pytest.mark.parametrize("command", ["no-such-pager-anywhere", "'unbalanced", "''"])
def test_an_answer_is_printed_where_its_pager_cannot_run(terminal, monkeypatch, capsys, command):
    monkeypatch.setenv("MVCS_PAGER", command)
    paged, printed = terminal("log")
    assert paged is None
    assert "first" in printed
    assert "pager" in capsys.readouterr().err.lower()


def test_a_pager_that_is_left_early_ends_the_answer(monkeypatch):
    monkeypatch.setenv("MVCS_PAGER", shlex.join([sys.executable, "-c", "input()"]))
    asked = itertools.count()
    pager.show((f"line {number}" for number in asked), pytest.fail)
    assert next(asked) > 1
