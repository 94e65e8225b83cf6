"""`mvcs log`: commits, newest first."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import click

from mvcs.cli.declare import command as declare
from mvcs.cli.session import Session
from mvcs.ui.commits import full, oneline
from mvcs.ui.graph import Graph
from mvcs.ui.screen import Screen

if TYPE_CHECKING:
    from mvcs.repository.reports import CommitInfo

EXAMPLE = """
mvcs log -n 5
mvcs log --graph --oneline --all
mvcs log best:val_loss --json
"""


@declare("log", "commits, newest first", example=EXAMPLE, exits=(3, 5, 6, 7))
@click.argument("rev", required=False)
@click.option("-n", "--number", type=click.IntRange(0), help="At most this many commits (default: all).")
@click.option("--oneline", "short", is_flag=True, help="One line a commit.")
@click.option("--graph", is_flag=True, help="Draw lines of descent beside the commits.")
@click.option("--all", "everything", is_flag=True, help="From every branch and tag, not only from REV.")
def command(  # one argument for each option
    session: Session, rev: str | None, number: int | None, short: bool, graph: bool, everything: bool
) -> None:
    """List the commits that REV (default: HEAD) descends from, newest first.

    "stored 1.2 MB of 56 MB (46x), depth 3" is what the commit added to the store when it was
    made, the state as handed over, and how many deltas a restore follows.
    """
    if everything and rev is not None:
        raise click.UsageError("--all starts from every branch; leave REV out")
    with session.repository() as repository:
        if rev is None and not everything and repository.head() is None:
            session.tell("there is no commit yet; make the first one with 'mvcs commit FILE -m MESSAGE'")
            session.answer([], [])
            return
        commits = repository.log("HEAD" if rev is None else rev, limit=number, all_branches=everything)
        if session.json:
            session.answer(list(commits), [])
            return
        view = _View(session.screen, repository.decorations(), short=short, graph=graph)
        for line in view.lines(commits):
            click.echo(line)


class _View:
    """How the log is laid out."""

    def __init__(self, screen: Screen, names: Mapping[str, list[str]], *, short: bool, graph: bool) -> None:
        self._screen = screen
        self._names = names
        self._short = short
        self._graph = Graph(screen) if graph else None

    def lines(self, commits: Iterable["CommitInfo"]) -> Iterator[str]:
        for index, info in enumerate(commits):
            text = self._text(info)
            if self._graph is not None:
                yield from self._graph.draw(info.id, info.parents, [*text, *[""] * (not self._short)])
            else:
                yield from ["", *text] if index and not self._short else text

    def _text(self, info: "CommitInfo") -> list[str]:
        refs = self._names.get(info.id, [])
        return [oneline(info, refs, self._screen)] if self._short else full(info, refs, self._screen)
