"""What keeps something in a store, step by step."""

from typing import TYPE_CHECKING

from mvcs.ui.commits import moment
from mvcs.ui.terminal.screen import Screen
from mvcs.ui.terminal.sizes import count, size
from mvcs.ui.terminal.text import printable

if TYPE_CHECKING:
    from mvcs.reports import DropInfo, Why, WhyStep

_IDS = frozenset({"commit", "tree", "chunk", "blob", "pack"})


def lines(value: "Why", screen: Screen) -> list[str]:
    """Return what it is, where it lies, and what keeps it or gave it up."""
    amount = "" if value.bytes is None else f", {size(value.bytes)}"
    title = f"{value.kind} {screen.paint(value.id, 'id')}{amount}"
    places = (
        [] if value.kind == "pack" and value.packs else [f"  in {printable(path)}" for path in value.packs]
    )
    return [
        title,
        *places,
        *_verdict(value),
        *(f"  {_step(step, screen)}" for step in value.steps),
        *map(_drop, value.drops),
        *_standing(value),
        *map(printable, value.notes),
    ]


def _verdict(value: "Why") -> list[str]:
    if value.state == "needed":
        return ["needed by:"]
    if value.state == "past":
        left = "" if value.until is None else f", which went elsewhere at {moment(value.until)}"
        return [f"kept by the past of a ref alone{left}:"]
    if value.state == "dropped":
        return ["gone; it was of:" if value.steps else "gone"]
    since = "" if value.written is None else f"; it was written at {moment(value.written)}"
    return [f"nothing needs it{since}", *([] if value.standing else ["'mvcs gc' says when it goes"])]


def _standing(value: "Why") -> list[str]:
    """Say what a collector said of it."""
    if value.standing is None or value.stands is None:
        return []
    said = {
        "condemned": "'mvcs gc' marked it for deletion at {}, and deletes it later",
        "going": "'mvcs gc' began to delete it at {}",
        "gone": "'mvcs gc' deleted it at {}",
    }
    return [said[value.standing].format(moment(value.stands))]


def _step(step: "WhyStep", screen: Screen) -> str:
    name = screen.paint(step.name[:12], "id") if step.kind in _IDS else printable(step.name)
    said = f": {printable(step.said)}" if step.kind == "reflog" else f", {printable(step.said)}"
    return f"{step.kind} {name}{said if step.said else ''}"


def _drop(drop: "DropInfo") -> str:
    what = f"{count(drop.packs, 'pack')} of the exact layer" if drop.packs else "the data"
    why = "" if drop.why is None else f": {printable(drop.why)}"
    back = "" if drop.taken_back is None else f"; record {drop.taken_back} took that back: the data stayed"
    return f"record {drop.record} dropped {what} of {drop.commit[:12]} at {moment(drop.time)}{why}{back}"
