"""What a collection would delete, or has deleted."""

from typing import TYPE_CHECKING

from mvcs.config import DAY_SECONDS
from mvcs.ui.terminal.sizes import count, size
from mvcs.ui.terminal.text import printable

if TYPE_CHECKING:
    from mvcs.upkeep import Garbage, GcReport


def collected(report: "GcReport") -> list[str]:
    """Return each file that goes and why, what waits, and what to do next."""
    verb = "deleted" if report.executed else "would delete"
    lines = [_line(verb, item) for item in report.garbage]
    lines += [_line("waits", item) for item in report.waiting]
    total = f"{verb} {count(len(report.garbage), 'file')}, {size(report.bytes)}"
    if report.waiting:
        held = sum(item.bytes for item in report.waiting)
        total += f"; {count(len(report.waiting), 'file')}, {size(held)}, younger than the grace"
    advice = ["'mvcs gc --execute' deletes it"] if report.garbage and not report.executed else []
    return [*lines, total, *map(printable, report.notes), *advice]


def _line(verb: str, item: "Garbage") -> str:
    days = item.age / DAY_SECONDS
    return f"{verb} {printable(item.path)}, {size(item.bytes)}, {days:.1f} days old: {item.reason}"
