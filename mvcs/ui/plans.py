"""What a restore will read, and how long that takes."""

from typing import TYPE_CHECKING

from mvcs.ui.terminal.screen import Screen
from mvcs.ui.terminal.sizes import count, seconds, size
from mvcs.ui.terminal.text import printable

if TYPE_CHECKING:
    from mvcs.reports import CheckoutPlan

_NAMED = 10
_BUSY = 1.25  # processes for each processor from which on that is told


def planned(plan: "CheckoutPlan", screen: Screen, load: float = 0.0) -> list[str]:
    """Return what would come, what is read for it, and the time.

    Args:
        plan: what was found.
        screen: what it is for.
        load: how many processes want each processor.
    """
    where = "" if plan.target is None else f" to {printable(plan.target)}"
    layer = ", exact values" if plan.layer == "exact" and plan.commit.bounded else ""
    reads = f"{size(plan.read_bytes)} in {count(plan.requests, 'request')}"
    deep = f"{count(plan.entries, 'entry', 'entries')} decoded, up to {count(plan.depth, 'delta')} deep"
    return [
        f"{screen.paint(plan.commit.short, 'id')}{where}: {size(plan.raw_bytes)}{layer}",
        f"  reads {reads}; {deep}",
        *_time(plan, load),
        *_listed("would write", plan.written),
        *([f"  {count(len(plan.unchanged), 'file')} unchanged"] if plan.unchanged else []),
        *_checked(plan),
    ]


def _time(plan: "CheckoutPlan", load: float) -> list[str]:
    """Say how long it takes; that is time of the processor, of which others may have most."""
    if plan.seconds is None or plan.measured is None:
        return []
    time = f"about {seconds(plan.seconds)} here, as measured on {plan.measured:%Y-%m-%d}"
    written = "" if plan.target is None and not plan.written else "; writing files is not counted"
    busy = (
        []
        if load < _BUSY
        else [
            f"  {load:.1f} processes want each processor now: by the clock it takes about so many times that"
        ]
    )
    return [f"  {time}{written}", *busy]


def _checked(plan: "CheckoutPlan") -> list[str]:
    if not plan.checked_bytes:
        return []
    return [f"  of that, {size(plan.checked_bytes)} to see that the files which go are stored"]


def _listed(what: str, paths: list[str]) -> list[str]:
    rest = len(paths) - _NAMED
    return [f"  {what} {printable(path)}" for path in paths[:_NAMED]] + (
        [f"  {what} {rest} more"] if rest > 0 else []
    )
