"""The files that differ, or the parts of states, a line each."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mvcs.ui.terminal.screen import Screen
from mvcs.ui.terminal.sizes import count, size
from mvcs.ui.terminal.text import bar, printable, table

if TYPE_CHECKING:
    from mvcs.reports import FileChange

_BAR = 10


def listing(found: Sequence["FileChange"], listed: str, screen: Screen) -> list[str]:
    """Return what differs as one of `--stat`, `--name-only` and `--name-status` shows it."""
    if listed == "stat":
        return lines(found, screen)
    marks = {"added": "A\t", "removed": "D\t"}
    states = [marks.get(item.state, "M\t") if listed == "name-status" else "" for item in found]
    return [state + printable(item.path) for state, item in zip(states, found, strict=True)]


def lines(found: Sequence["FileChange"], screen: Screen) -> list[str]:
    """Return a line a file or part, a bar for the share of its bytes that differ, and how many there are."""
    rows = [
        (f" {printable(item.path)}", "|", _tensors(item), _bytes(item), _bar(item, screen)) for item in found
    ]
    lines = (
        table(rows, "~<<><", screen, styles=("", "dim", "", "", "bar"), header=False, optional=(4,))
        if rows
        else []
    )
    return [*lines, f" {_how_many(found)} differ{'s' if len(found) == 1 else ''}"]


def _how_many(found: Sequence["FileChange"]) -> str:
    kinds = [item.kind for item in found]
    counted = [count(kinds.count(kind), kind) for kind in dict.fromkeys(kinds)]
    return " and ".join(counted) or count(0, "file")


def _tensors(item: "FileChange") -> str:
    if item.state != "changed":
        return f"{item.state}, {count(item.tensors, 'tensor')}" if item.tensors else item.state
    return f"{item.changed} of {count(item.tensors, 'tensor')}" if item.tensors or item.changed else "changed"


def _bytes(item: "FileChange") -> str:
    part = item.state == "changed" and item.changed_bytes != item.raw_bytes
    return f"{size(item.changed_bytes)} of {size(item.raw_bytes)}" if part else size(item.raw_bytes)


def _bar(item: "FileChange", screen: Screen) -> str:
    return bar(item.changed_bytes / item.raw_bytes if item.raw_bytes else 0.0, _BAR, screen)
