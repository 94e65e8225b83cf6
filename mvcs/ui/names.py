"""Branches, tags, notes and the reflog as lists."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mvcs.ui.commits import metrics, moment
from mvcs.ui.screen import Screen
from mvcs.ui.text import first_line, printable, table

if TYPE_CHECKING:
    from mvcs.repository.ref_reports import BranchInfo, NoteInfo, ReflogEntry, TagInfo


def branches(found: Sequence["BranchInfo"], screen: Screen) -> list[str]:
    """Return one line a branch; a star marks the current one."""
    rows = [("*" if item.current else " ", printable(item.name), item.commit[:12]) for item in found]
    return table(rows, "<~<", screen, styles=("good", "ref", "id"), header=False)


def tags(found: Sequence["TagInfo"], screen: Screen) -> list[str]:
    """Return one line a tag."""
    rows = [
        (printable(item.name), item.commit[:12], moment(item.time), first_line(item.message))
        for item in found
    ]
    return table(rows, "~<<~", screen, styles=("ref", "id"), header=False)


def notes(found: Sequence["NoteInfo"]) -> list[str]:
    """Return one line a note."""
    return [f"{moment(item.time)}  {printable(item.author)}  {metrics(item.metrics)}" for item in found]


def reflog(found: Sequence["ReflogEntry"], name: str, screen: Screen) -> list[str]:
    """Return one line a change, each with the revision that names it."""
    rows = [
        (
            (item.commit or "deleted")[:12],
            f"{printable(name)}@{{{item.number}}}",
            moment(item.time),
            printable(item.author),
            first_line(item.action),
        )
        for item in found
    ]
    return table(rows, "<~<~~", screen, styles=("id", "ref"), header=False, optional=(3,))
