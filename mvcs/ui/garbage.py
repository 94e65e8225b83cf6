"""What a collection would delete, or has deleted."""

from typing import TYPE_CHECKING

from mvcs.config import DAY_SECONDS
from mvcs.ui.terminal.sizes import count, size
from mvcs.ui.terminal.text import printable

if TYPE_CHECKING:
    from mvcs.upkeep import Garbage, GcReport

HOUR_SECONDS = 3600


def collected(report: "GcReport") -> list[str]:
    """Return each file that goes and why, what waits, and what to do next."""
    verb = "deleted" if report.executed else "would delete"
    says = "condemned" if report.executed else "would condemn"
    lines = [f"{verb} the branch {printable(name)}: another one contains it" for name in report.branches]
    lines += [_line(verb, item) for item in report.garbage]
    lines += [f"{_line(says, item)}; it goes {_when(item.left)}" for item in report.condemned]
    lines += [_line("waits", item) for item in report.waiting]
    total = f"{verb} {count(len(report.garbage), 'file')}, {size(report.bytes)}"
    if report.condemned:
        total += f"; {says} {_sum(report.condemned)}"
    if report.waiting:
        total += f"; {_sum(report.waiting)}, younger than the grace"
    return [*lines, total, *map(printable, report.notes), *_advice(report)]


def _sum(items: "list[Garbage]") -> str:
    return f"{count(len(items), 'file')}, {size(sum(item.bytes for item in items))}"


def _advice(report: "GcReport") -> list[str]:
    if report.executed:
        first = min((item.left for item in report.condemned), default=0.0)
        return [f"'mvcs gc --execute' {_when(first)} deletes what is still condemned"] if first else []
    if report.garbage or report.branches:
        return ["'mvcs gc --execute' deletes it"]
    return ["'mvcs gc --execute' condemns it, and deletes it later"] if report.condemned else []


def _when(seconds: float) -> str:
    """Say how long something waits, in days or hours, rounded up."""
    unit, name = (DAY_SECONDS, "day") if seconds > 2 * DAY_SECONDS else (HOUR_SECONDS, "hour")
    return f"in {count(max(1, -int(-seconds // unit)), name)}"


def _line(verb: str, item: "Garbage") -> str:
    days = item.age / DAY_SECONDS
    return f"{verb} {printable(item.path)}, {size(item.bytes)}, {days:.1f} days old: {item.reason}"
