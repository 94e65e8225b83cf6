"""What a user and a script see when something goes wrong."""

import os
import subprocess
from pathlib import Path

import pytest

from mvcs import Repository, errors
from mvcs.cli.run import Failure
from mvcs.errors import NotFoundError

PROGRAM = "from mvcs.cli import main; raise SystemExit(main())"


def test_an_error_is_one_line_and_a_hint(console):
    result = console("log", code=3)
    assert result.raw == b""
    error, hint = result.err.splitlines()
    assert error.startswith("mvcs: error: ")
    assert "not in an mvcs repository" in error
    assert hint == "hint: 'mvcs init' makes one"


def test_a_folder_that_is_not_there_is_not_looked_for_above(console, tmp_path):
    console("init")
    with pytest.raises(NotFoundError, match="there is no folder") as caught:
        Repository.open(tmp_path / "rum")
    assert f"mvcs init {tmp_path / 'rum'}" in caught.value.hint


def test_an_error_in_json_leaves_stdout_empty(console):
    error = console("log", "--json", code=3).error
    assert error["kind"] == "not_found"
    assert error["hint"] == "'mvcs init' makes one"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("frobnicate",), "there is no command 'frobnicate'"),
        (("chekout", "main"), "there is no command 'chekout'; did you mean 'checkout'?"),
        (("log", "--xyzzy"), "no such option '--xyzzy'"),
        (("log", "-n", "many"), "--number takes a whole number (at least 0), not 'many'"),
        (("-C", "nowhere", "log"), "invalid value for -C: cannot go to 'nowhere': No such file or directory"),
    ],
)
def test_usage_errors_are_one_line_and_point_to_help(console, words, message):
    error, hint = console(*words, code=2).err.splitlines()
    assert error == f"mvcs: error: {message}"
    assert hint.startswith("hint: ")
    assert "see 'mvcs" in hint.lower()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("commit", "model.safetensors"), "mvcs commit model.safetensors -m MESSAGE"),
        (("rm", "--cached", "my file.pt"), "mvcs rm --cached 'my file.pt' -m MESSAGE"),
        (("mv", "--", "a.pt", "-b.pt"), "mvcs mv -m MESSAGE -- a.pt -b.pt"),
    ],
)
def test_a_missing_message_shows_the_whole_line(console, words, line):
    error, hint = console(*words, code=2).err.splitlines()
    assert error == "mvcs: error: missing option '-m' / '--message'"
    assert hint == f"hint: say what for: {line}"


def test_usage_errors_in_json(console):
    error = console("log", "--xyzzy", "--json", code=2).error
    assert error == {"kind": "usage", "message": "no such option '--xyzzy'", "hint": "see 'mvcs log --help'"}


def test_a_file_called_json_is_not_the_option(console):
    assert console("cat-file", "--", "--json", code=3).err.startswith("mvcs: error: ")


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (errors.MvcsError("x"), "mvcs", 1),
        (errors.StateError("x"), "state", 1),
        (errors.FileFormatError("x"), "file_format", 1),
        (errors.UnsafeFileError("x"), "unsafe_file", 1),
        (errors.UsageError("x"), "usage", 2),
        (errors.NotFoundError("x"), "not_found", 3),
        (errors.ConflictError("x"), "conflict", 4),
        (errors.CorruptionError("x"), "corruption", 5),
        (errors.UnsupportedFormatError("x"), "unsupported_format", 6),
        (errors.StorageError("x"), "storage", 7),
        (OSError(28, "No space left on device", "/data/x"), "storage", 7),
        (ValueError("x"), "unexpected", 1),
    ],
)
def test_every_error_has_its_kind_and_code(error, kind, code):
    failure = Failure.of(error)
    assert (failure.kind, failure.exit_code) == (kind, code)
    assert "\n" not in failure.message


def test_an_unexpected_error_says_how_to_see_more():
    failure = Failure.of(KeyError("a\nb"))
    assert failure.message == "unexpected KeyError: 'a\\nb'"
    assert "--debug" in failure.hint


def test_where_a_lost_race_was_kept_is_in_the_json():
    error = errors.ConflictError("lost")
    error.branch = "main.conflict-01234567"
    assert Failure.of(error).fields["branch"] == "main.conflict-01234567"


def test_debug_shows_where_it_happened(console):
    assert "Traceback" not in console("log", code=3).err
    assert "Traceback" in console("--debug", "log", code=3).err


def test_debug_by_environment(console, monkeypatch):
    monkeypatch.setenv("MVCS_DEBUG", "1")
    assert "Traceback" in console("log", code=3).err


def test_a_hostile_name_cannot_command_the_terminal(mvcs):
    assert "\x1b" not in mvcs("log", "\x1b[2J", code=3).err


def test_a_pipe_that_closes_is_quiet(history, python):
    with subprocess.Popen(
        [python, "-c", PROGRAM, "log"], cwd=history.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_stdout_is_a_storage_error(history, python, unbuffered):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [python, "-c", PROGRAM, "log"],
            cwd=history.folder,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 7
    assert "no space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupt_is_130_and_one_line(tmp_path, python):
    """The command interrupts itself while it waits."""
    program = """
import os, signal, threading
import mvcs.cli.commands.log as log
from mvcs.cli import main
# A run started in the background inherits that interrupts are ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
def wait(*args, **options):
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait()
log.command.callback = wait
raise SystemExit(main(["log"]))
"""
    done = subprocess.run([python, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr.strip() == "mvcs: interrupted; nothing half-done is visible to anyone"


def test_a_terminal_without_unicode_gets_ascii(history, python):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [python, "-c", PROGRAM, "log", "--graph", "--all"],
        cwd=history.folder,
        env=environment,
        capture_output=True,
        check=True,
    )
    assert b"|-/" in done.stdout
    done.stdout.decode("ascii")
