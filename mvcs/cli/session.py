"""What one run of a command has at hand: where, how to answer, how to report progress."""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from mvcs.addresses import without_secrets
from mvcs.progress import Progress
from mvcs.ui import LineProgress, NotesOnly, Screen, TerminalProgress, plain, printable

_USUAL, _WIDEST = 80, 100_000
_STYLES: dict[str, dict[str, Any]] = {
    "id": {"fg": "yellow"},
    "head": {"fg": "cyan", "bold": True},
    "ref": {"fg": "green", "bold": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "warn": {"fg": "yellow"},
    "dim": {"dim": True},
    "bar": {"fg": "blue"},
    "lane0": {"fg": "red"},
    "lane1": {"fg": "green"},
    "lane2": {"fg": "yellow"},
    "lane3": {"fg": "blue"},
    "lane4": {"fg": "magenta"},
    "lane5": {"fg": "cyan"},
}


if TYPE_CHECKING:
    from mvcs.local import Trust
    from mvcs.repository import Repository


@dataclass
class Session:
    """One run of a command.

    Attributes:
        where: the repository: a path, or the URL of a bare store.
        json: whether the answer, notes and errors are wanted as JSON.
        quiet: whether no answer and no progress is printed as text.
        max_bytes: restore no more than this; None for what memory or disk holds.
        pager: whether long answers go through a pager where stdout is a terminal.
    """

    where: str = "."
    json: bool = False
    quiet: bool = False
    max_bytes: int | None = None
    pager: bool = True
    _told: list[str] = field(default_factory=list)

    @cached_property
    def screen(self) -> Screen:
        """What stdout can show."""
        return screen_for(sys.stdout)

    @cached_property
    def progress(self) -> Progress:
        """Where long work reports itself: a bar when somebody watches, and else a line now and then."""
        if self.json or self.quiet:
            return NotesOnly(self.tell)
        kind = TerminalProgress if sys.stderr.isatty() else LineProgress
        return kind(sys.stderr, self.tell)

    @cached_property
    def trust(self) -> "Trust":
        """What the user at hand trusts; who became root for one command is still himself, as for git."""
        from mvcs.local import Trust

        folder = os.environ.get("XDG_CONFIG_HOME", "")
        asked = os.environ.get("SUDO_UID", "")
        others = [int(asked)] if os.geteuid() == 0 and asked.isascii() and asked.isdigit() else []
        return Trust.of_user(Path(folder) if Path(folder).is_absolute() else None, others)

    @contextmanager
    def working(self) -> Iterator[Progress]:
        """Give the progress to work with, and take any bar away at the end."""
        try:
            yield self.progress
        finally:
            self.progress.finish()

    @contextmanager
    def repository(self) -> Iterator["Repository"]:
        """Open the repository this run is about, and say what is wrong with its surroundings, also later.

        Raises:
            NotFoundError: there is none.
        """
        from mvcs.repository import Repository

        with (
            self.working() as progress,
            Repository.open(
                self.where, max_bytes=self.max_bytes, trust=self.trust, progress=progress
            ) as repository,
        ):
            for warning in repository.warnings:
                self.tell(warning)
            try:
                yield repository
            finally:  # what turned out meanwhile; a bar may still be drawn
                for warning in repository.warnings:
                    progress.note(warning)

    def tell(self, message: str) -> None:
        """Say something on stderr that is neither answer nor error, once."""
        message = without_secrets(message)
        if message in self._told:
            return
        self._told.append(message)
        if self.json:
            click.echo(json.dumps({"note": message}), err=True)
        else:
            click.echo(f"{screen_for(sys.stderr).paint('note:', 'warn')} {printable(message)}", err=True)

    def answer(self, value: object, lines: Iterable[str], *, paged: bool = False) -> None:
        """Print the answer: `value` as JSON when that was asked for, else `lines`, `paged` if many."""
        if self.json:
            click.echo(json.dumps(_plain(value), indent=2, allow_nan=False))
        elif self.quiet:
            return
        elif paged and self.pager and sys.stdout.isatty():
            from mvcs.cli import pager

            self.progress.finish()
            pager.show(lines, self.tell)
        else:
            for line in lines:
                click.echo(line)


def _plain(value: Any) -> Any:  # noqa: ANN401  # any report of the facade, or plain values that hold some
    """Return reports as their JSON form, wherever they stand."""
    from mvcs.reports import as_json

    return as_json(value)


def screen_for(stream: TextIO) -> Screen:
    """Return what `stream` can show."""
    return Screen(_paint if _coloured(stream) else plain, _unicode(stream), _width(stream))


def _width(stream: TextIO) -> int | None:
    """Return how wide the terminal is, or is said to be; what is piped into another program is not cut."""
    said = os.environ.get("COLUMNS", "")
    if said.isascii() and said.isdigit() and 0 < int(said) <= _WIDEST:
        return int(said)
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL
    except OSError:
        return _USUAL


def _coloured(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _unicode(stream: TextIO) -> bool:
    try:
        "├─╮█".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _paint(text: str, style: str) -> str:
    return click.style(text, **_STYLES[style])
