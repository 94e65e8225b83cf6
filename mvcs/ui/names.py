"""Branches, tags, notes and the reflog as lists."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mvcs.ui.commits import metrics, moment
from mvcs.ui.text import Screen, first_line, lines, printable, table

if TYPE_CHECKING:
    from mvcs.reports import BranchInfo, NoteInfo, ReflogEntry, TagInfo


def branches(found: Sequence["BranchInfo"], screen: Screen, verbose: int = 0) -> list[str]:
    """Return one line a branch; a star marks the current one.

    Args:
        found: the branches; beside those of this repository, others stand as `remotes/…`.
        screen: where the lines end up.
        verbose: 1 with messages and how far a branch is from what it follows; 2 with what that is.
    """
    mixed = len({item.remote for item in found}) > 1
    rows = [
        (
            "*" if item.current else " ",
            f"remotes/{printable(item.name)}" if mixed and item.remote else printable(item.name),
            item.commit[:12],
            _said(item, verbose),
        )
        for item in found
    ]
    return table(rows, "<~<~", screen, styles=("good", "ref", "id"), header=False)


def _said(item: "BranchInfo", verbose: int) -> str:
    where = _apart(item, named=verbose > 1)
    step = "" if item.step is None else f"step {item.step}"
    parts = [f"[{where}]" if where else "", step, first_line(item.message or "")]
    return " ".join(part for part in parts if part) if verbose else ""


def _apart(item: "BranchInfo", *, named: bool) -> str:
    counts = {"ahead": item.ahead, "behind": item.behind}
    text = ", ".join(f"{side} {amount}" for side, amount in counts.items() if amount)
    if item.upstream is not None and item.ahead is None:
        text = "gone"
    name = printable(item.upstream) if item.upstream and named else ""
    return ": ".join(part for part in (name, text) if part)


def tags(found: Sequence["TagInfo"], screen: Screen, most: int = 1) -> list[str]:
    """Return a line for each tag, with the first of its message, and `most` of that altogether."""
    texts = [lines(item.message)[:most] for item in found]
    rows = [
        (printable(item.name), item.commit[:12], moment(item.time), *(text[:1] or [""]))
        for item, text in zip(found, texts, strict=True)
    ]
    shown = table(rows, "~<<~", screen, styles=("ref", "id"), header=False)
    return [
        line
        for row, text in zip(shown, texts, strict=True)
        for line in (row, *(f"    {more}" for more in text[1:]))
    ]


def notes(found: Sequence["NoteInfo"]) -> list[str]:
    """Return one line a note."""
    return [f"{moment(item.time)}  {printable(item.author)}  {metrics(item.metrics)}" for item in found]


def reflog(found: Sequence["ReflogEntry"], name: str, screen: Screen) -> list[str]:
    """Return one line a change, each with the revision that names it."""
    rows = [
        (
            (item.commit or ("damaged" if item.damage else "deleted"))[:12],
            f"{printable(name)}@{{{item.number}}}",
            "" if item.time is None else moment(item.time),
            printable(item.author),
            first_line(item.damage or item.action),
        )
        for item in found
    ]
    return table(rows, "<~<~~", screen, styles=("id", "ref"), header=False, optional=(3,))
