"""`mvcs log`: commits, newest first."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from mvcs.cli import completers
from mvcs.cli.declaration import command as declare
from mvcs.cli.options import RevisionsAndFiles, Whole, listing_options, sorted_words
from mvcs.cli.session import Session
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.ui import Graph, Screen, changes, commits, printable

if TYPE_CHECKING:
    from mvcs.reports import CommitInfo
    from mvcs.repository import Repository

EXAMPLE = """
mvcs log -3
mvcs log --graph --oneline --all
mvcs log main -- model.safetensors
mvcs log -1 -p
mvcs log --since yesterday --author Ada --grep 'lr|warm-?up'
mvcs log best:val_loss --json
"""


class Wanted(TypedDict):
    """Which commits are listed."""

    since: str | None
    until: str | None
    author: str | None
    message: str | None
    ignore_case: bool


@declare("log", "commits, newest first", example=EXAMPLE, exits=(3, 5, 6, 7), cls=RevisionsAndFiles)
@click.argument("words", nargs=-1, metavar="[REV]... [--] [FILE]...", shell_complete=completers.words)
@click.option("-n", "--number", type=Whole(0), help="At most this many commits, also as -3 (default: all).")
@click.option("--reverse", is_flag=True, help="The oldest of them first.")
@click.option("--oneline", "short", is_flag=True, help="One line a commit.")
@click.option("--graph", is_flag=True, help="Draw lines of descent beside the commits.")
@click.option(
    "--all", "everything", is_flag=True, help="From every branch, here and as fetched, every tag, and HEAD."
)
@click.option("-p", "--patch", is_flag=True, help="With the difference from its parent: tensors that moved.")
@listing_options
@click.option("--decorate/--no-decorate", default=True, help="Name branches and tags beside commits, or not.")
@click.option("--since", "--after", metavar="DATE", help="Made then or later; a day begins at midnight.")
@click.option("--until", "--before", metavar="DATE", help="Made then or earlier; a day ends at midnight.")
@click.option("--author", metavar="REGEX", help="Whose author matches.")
@click.option("--grep", "message", metavar="REGEX", help="Whose message matches.")
@click.option("-i", "--regexp-ignore-case", "ignore_case", is_flag=True, help="In any case.")
def command(
    session: Session,
    words: tuple[str, ...],
    number: int | None,
    short: bool,
    graph: bool,
    everything: bool,
    patch: bool,
    listed: str | None,
    reverse: bool,
    decorate: bool,
    **wanted: Unpack[Wanted],
) -> None:
    """List the commits that REV (default: HEAD) descends from, newest first.

    With FILE, only those in which that file, or one in that folder, changed.
    A DATE is as 2026-01-31, '2026-01-31 18:00', '2 hours ago', 'last week', yesterday or today.

    "stored 1.2 MB of 56 MB (46x)" is what the commit added to the store when it was made, and the
    size of the state as handed over. With --stat each commit also says what a restore reads, and through
    how many deltas. The last line then says what all of them take, and what exact layers take beside that.
    What --stat, --name-only and -p show is the difference from the parent.
    """
    if reverse and graph:
        raise click.UsageError("--graph draws from the newest commit down: leave out --reverse")
    with session.repository() as repository:
        revs, files = sorted_words(session, repository, words)
        if everything and revs:
            raise click.UsageError("--all starts from every branch; leave REV out")
        if not revs and not everything and repository.head() is None:
            others = "'mvcs log --all' lists those of other branches"
            first = "make the first one with 'mvcs commit FILE -m MESSAGE'"
            session.tell(f"there is no commit yet; {others if repository.branches() else first}")
            session.answer([], [])
            return
        found = repository.log(revs or "HEAD", limit=number, all_branches=everything, files=files, **wanted)
        found = reversed(list(found)) if reverse else found
        beside = Beside(repository, files, patch, listed)
        if session.json:
            session.answer([{**info.to_json(), **beside.values(info)} for info in found], [])
            return
        names = repository.decorations() if decorate else {}
        view = _View(session.screen, names, beside, short=short, graph=graph)
        session.answer(None, view.lines(found), paged=True)


class Beside:
    """What is shown of a commit beside what it says of itself: how it differs from its parent."""

    def __init__(self, repository: "Repository", files: list[str], patch: bool, listed: str | None) -> None:
        self._repository = repository
        self._files = files
        self._patch = patch
        self._listed = listed

    def __bool__(self) -> bool:
        return self._patch or self._listed is not None

    def values(self, info: "CommitInfo") -> dict[str, Any]:
        """Return it as JSON has it, by name."""
        parent = info.parents[0] if info.parents else None
        found: dict[str, Any] = {}
        try:
            if self._listed:
                found["stat"] = self._repository.changed_files(parent, info.id, files=self._files)
            if self._patch:
                found["diff"] = self._repository.diff(parent, info.id, files=self._files)
        except (CorruptionError, NotFoundError) as error:  # of one commit, which hides no other
            found["unread"] = error.message
        if self.counted:
            with suppress(CorruptionError, NotFoundError):
                found["restore"] = self._repository.restore_figures(info.id)
        return found

    @property
    def counted(self) -> bool:
        """Whether sizes are asked for."""
        return self._listed == "stat"

    def lines(self, info: "CommitInfo", screen: Screen) -> list[str]:
        """Return it as text."""
        found = self.values(info)
        stats = (
            changes.listing(found["stat"], self._listed, screen) if self._listed and "stat" in found else []
        )
        stats += [f" cannot be compared: {printable(found['unread'])}"] if "unread" in found else []
        stats += [f" a restore {commits.restore(found['restore'])}"] if "restore" in found else []
        # Which two commits are compared stands above.
        diff = changes.lines(found["diff"], screen, headed=False) if "diff" in found else []
        return [*(["", *stats] if stats else []), *(["", *diff] if diff else [])]


class _View:
    """How the log is laid out."""

    def __init__(
        self, screen: Screen, names: Mapping[str, list[str]], beside: Beside, *, short: bool, graph: bool
    ) -> None:
        self._screen = screen
        self._names = names
        self._beside = beside
        self._short = short
        self._graph = Graph(screen) if graph else None

    def lines(self, listed: Iterable["CommitInfo"]) -> Iterator[str]:
        from mvcs.reports import HistorySize

        whole = HistorySize()
        for index, info in enumerate(listed):
            whole.add(info)
            text = self._text(info)
            if self._graph is not None:
                yield from self._graph.draw(info.id, info.parents, [*text, *[""] * (not self._short)])
            else:
                yield from ["", *text] if index and (self._beside or not self._short) else text
        if self._beside.counted and whole.commits:
            yield from ["", commits.together(whole)]

    def _text(self, info: "CommitInfo") -> list[str]:
        refs = self._names.get(info.id, [])
        screen = self._screen if self._graph is None else self._graph.beside()
        text = [commits.oneline(info, refs, screen)] if self._short else commits.full(info, refs, screen)
        return [*text, *self._beside.lines(info, screen)]
