"""Long answers on a terminal, through the pager of the user's choice. Honours MVCS_PAGER and PAGER."""

import io
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from itertools import chain, islice
from typing import IO, cast

import click

VARIABLES = ("MVCS_PAGER", "PAGER")
DEFAULT = ("less", "-FRX")
_NONE = ("", "cat")
# As git sets them for a pager that is not told otherwise: colours pass, what fits a screen is just printed.
_USUAL = {"LESS": "FRX", "LV": "-c"}

Tell = Callable[[str], None]


class _ClosedError(Exception):
    """The pager has seen enough."""


def show(lines: Iterable[str], tell: Tell) -> None:
    """Print lines on the terminal that stdout is, through the pager where one is wanted.

    A user who leaves the pager early ends the command quietly.

    Args:
        lines: are asked for as they are shown.
        tell: is told that a pager cannot be run.
    """
    ahead = iter(lines)
    first = list(islice(ahead, 1))
    words = pager(os.environ, tell) if first else None
    process = None if words is None else _started(words, tell)
    if process is None:
        for line in chain(first, ahead):
            click.echo(line)
        return
    with suppress(_ClosedError), _feeding(process) as write:
        for line in chain(first, ahead):
            write(line)


def pager(environment: Mapping[str, str], tell: Tell) -> list[str] | None:
    """Return the words of the pager's command line, which no shell sees; None for no pager.

    Args:
        environment: of the process.
        tell: is told that what is set is no command line.
    """
    name = next((name for name in VARIABLES if name in environment), None)
    if name is None:
        return None if environment.get("TERM", "dumb") == "dumb" else list(DEFAULT)
    said = environment[name].strip()
    try:
        return None if said in _NONE else shlex.split(said)
    except ValueError as error:
        tell(f"{name} is no command line: {str(error).lower()}")
        return None


def _started(words: list[str], tell: Tell) -> "subprocess.Popen[bytes] | None":
    try:
        return subprocess.Popen(  # noqa: S603  # what the user asks for, and no shell
            words, stdin=subprocess.PIPE, env=_USUAL | dict(os.environ)
        )
    except (OSError, ValueError) as error:
        if tuple(words) != DEFAULT:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            tell(f"the pager '{words[0]}' cannot be run: {reason}")
        return None


@contextmanager
def _feeding(process: "subprocess.Popen[bytes]") -> Generator[Callable[[str], None]]:
    """Give what writes a line to a pager; at the end, wait until the user has left it."""
    pipe = cast("IO[bytes]", process.stdin)  # asked for where it was started
    stream = io.TextIOWrapper(pipe, sys.stdout.encoding, errors="backslashreplace", line_buffering=True)

    def write(line: str) -> None:
        try:
            stream.write(f"{line}\n")
        except BrokenPipeError as error:
            raise _ClosedError from error

    try:
        yield write
    finally:
        with suppress(BrokenPipeError):
            stream.close()
        _wait(process)


def _wait(process: "subprocess.Popen[bytes]") -> None:
    """Wait for the pager, whose own key an interrupt is meanwhile."""
    if threading.current_thread() is not threading.main_thread():
        process.wait()
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
