"""What one run of a command has at hand: where, how to answer, how to report progress."""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mvcs.addresses import without_secrets
from mvcs.cli.terminal import screen_for
from mvcs.progress import Progress
from mvcs.ui import LineProgress, NotesOnly, Screen, TerminalProgress, printable

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
