"""One run of the command line, and the one place where errors become text and exit codes."""

import contextlib
import json
import os
import pathlib
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import click

from mvcs.addresses import without_secrets
from mvcs.cli.declaration import BROKEN_PIPE, FAILED, INTERRUPTED, STORAGE, USAGE
from mvcs.cli.group import OutputClosedError, root
from mvcs.cli.session import screen_for
from mvcs.errors import MvcsError, UsageError, denied
from mvcs.ui import printable

COMPLETION = "_MVCS_COMPLETE"  # a shell that sets it wants to complete a line
_DRAWS = "pip install 'mvcs[report]'; report.json needs nothing more, and is written"
_PACKAGES = {
    "torch": ("torch", "'pip install torch'; reading a history and restoring arrays need none"),
    "altair": ("altair", _DRAWS),
    "vl_convert": ("vl-convert-python", _DRAWS),
}
"""What commands say of packages that are not installed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process's own) and return its exit code; errors are printed."""
    if asked := os.environ.get(COMPLETION):
        return _complete(asked)
    words = list(sys.argv[1:] if arguments is None else arguments)
    _show_what_cannot_be_encoded()
    debug = "--debug" in words or bool(os.environ.get("MVCS_DEBUG"))
    reporter = Reporter(words, json=_asks_for_json(words), debug=debug)
    try:
        code = root.main(words, prog_name="mvcs", standalone_mode=False)
        sys.stdout.flush()
    except (BrokenPipeError, OutputClosedError):
        return _closed_pipe()
    except click.Abort:
        return reporter.interrupted()
    except Exception as error:  # noqa: BLE001  # the last place that can turn an error into one line and a code
        exit_code = reporter.report(error)
        _spare_the_last_flush()
        return exit_code
    return code if isinstance(code, int) else 0


def _complete(asked: str) -> int:
    """Tell a shell which words can stand where somebody is typing."""
    from mvcs.cli.completion import answer

    found = answer(root, asked)
    with contextlib.suppress(OSError):
        sys.stdout.buffer.write((found + "\n" if found else "").encode("utf-8", "replace"))
        sys.stdout.flush()
    return 0


def _asks_for_json(words: Sequence[str]) -> bool:
    """Tell whether errors are wanted as JSON, which must be known before the words are parsed."""
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options


def _show_what_cannot_be_encoded() -> None:
    """Let a terminal that knows no unicode get escapes instead of a crash."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _closed_pipe() -> int:
    """Whoever read our output has seen enough: end quietly, also in the interpreter's own last flush."""
    _discard_output()
    return BROKEN_PIPE


def _spare_the_last_flush() -> None:
    """Let the interpreter end with our exit code where output that is still buffered has nowhere to go."""
    try:
        sys.stdout.flush()
    except OSError:
        _discard_output()


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@dataclass(frozen=True)
class Reporter:
    """Says on stderr what went wrong: one line and a hint, or one JSON object."""

    words: Sequence[str]
    json: bool
    debug: bool

    def report(self, error: Exception) -> int:
        """Say what went wrong and return the exit code."""
        if self.debug and not isinstance(error, click.ClickException):
            import traceback

            click.echo(without_secrets("".join(traceback.format_exception(error))), err=True, nl=False)
        failure = Failure.of(_expected(error))
        if _lacks_message(error):
            failure = replace(failure, hint=f"say what for: {_with_message(self.words)}")
        if self.json:
            click.echo(json.dumps({"error": failure.fields}), err=True)
            return failure.exit_code
        paint = screen_for(sys.stderr).paint
        click.echo(f"{paint('mvcs: error:', 'bad')} {printable(failure.message)}", err=True)
        if failure.hint:
            click.echo(f"{paint('hint:', 'warn')} {printable(failure.hint)}", err=True)
        return failure.exit_code

    def interrupted(self) -> int:
        """Say that the user ended the run."""
        message = json.dumps({"error": Failure("interrupted", "interrupted", None, INTERRUPTED).fields})
        click.echo(
            message if self.json else "mvcs: interrupted; nothing half-done is visible to anyone", err=True
        )
        return INTERRUPTED


@dataclass(frozen=True)
class Failure:
    """An error as it is shown.

    Attributes:
        kind: what a script may ask for: "usage", "not_found", "conflict", …
        message: one line.
        hint: what to do next.
        exit_code: as in `exits`.
        more: further fields for JSON.
    """

    kind: str
    message: str
    hint: str | None
    exit_code: int
    more: tuple[tuple[str, object], ...] = ()

    @property
    def fields(self) -> dict[str, object]:
        """The JSON form."""
        return {"kind": self.kind, "message": self.message, "hint": self.hint, **dict(self.more)}

    @classmethod
    def of(cls, error: Exception) -> "Failure":
        """Return how `error` is shown."""
        match error:
            case MvcsError():
                hint = error.hint or _access_hint(error)
                return cls(_kind(error), error.message, hint, error.exit_code, _kept(error))
            case click.UsageError():
                return cls(
                    "usage",
                    without_secrets(_sentence(error.format_message())),
                    _usage_hint(error),
                    USAGE,
                )
            case click.ClickException():
                return cls("failed", _sentence(error.format_message()), None, error.exit_code)
            case OSError():
                where = f": '{error.filename}'" if error.filename else ""
                reason = without_secrets(f"{(error.strerror or str(error)).lower()}{where}")
                return cls("storage", reason, _access_hint(error), STORAGE)
            case MemoryError():
                hint = "run it on a machine with more memory, or on less at a time"
                return cls("failed", "this machine's memory is not enough", hint, FAILED)
        text = " ".join(f"{type(error).__name__}: {error}".split())
        hint = "this is a bug in mvcs; 'mvcs --debug COMMAND' shows where it happened"
        return cls("unexpected", without_secrets(f"unexpected {text}"), hint, FAILED)


def _access_hint(error: Exception) -> str | None:
    """Return whose the path is that permissions keep from us; None where they are not the reason."""
    cause = denied(error)
    if cause is None or not isinstance(cause.filename, str):
        return None
    from mvcs.local_files import permission_hint

    return permission_hint(pathlib.Path(cause.filename))


def _expected(error: Exception) -> Exception:
    """Return what a command means that trains or draws, where there is nothing to do it with."""
    if isinstance(error, ModuleNotFoundError) and error.name in _PACKAGES:
        name, hint = _PACKAGES[error.name]
        return UsageError(f"this command needs {name}, which is not installed", hint=hint)
    return error


def _kind(error: MvcsError) -> str:
    """Return "not_found" for NotFoundError."""
    name = type(error).__name__.removesuffix("Error")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _kept(error: MvcsError) -> tuple[tuple[str, object], ...]:
    """Return where a commit that lost a race was kept."""
    commit, branch = getattr(error, "commit", None), getattr(error, "branch", None)
    found = {"branch": branch, "commit": getattr(commit, "id", None)}
    return tuple((name, value) for name, value in found.items() if value is not None)


def _sentence(text: str) -> str:
    """Return click's sentence in our form: lower case, no full stop, one line."""
    line = " ".join(text.split()).removesuffix(".")
    return line[:1].lower() + line[1:]


def _lacks_message(error: Exception) -> bool:
    if not isinstance(error, click.MissingParameter):
        return False
    return "-m" in error.param.opts if error.param else "-m" in str(error.param_hint)


def _with_message(words: Sequence[str]) -> str:
    """Return a command line with a message, which stands before `--`."""
    cut = words.index("--") if "--" in words else len(words)
    line = f"{shlex.join(words[:cut])} -m MESSAGE {shlex.join(words[cut:])}".rstrip()
    return f"mvcs {without_secrets(line)}"


def _usage_hint(error: click.UsageError) -> str:
    context = error.ctx
    return f"see '{context.command_path if context else 'mvcs'} --help'"
