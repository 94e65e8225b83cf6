"""What a collection would delete, or has deleted."""

from typing import TYPE_CHECKING

from mvcs.config import DAY_SECONDS, GRACE_DAYS
from mvcs.reports import of_remote
from mvcs.ui.terminal.screen import Screen
from mvcs.ui.terminal.sizes import count, size
from mvcs.ui.terminal.text import printable, table

if TYPE_CHECKING:
    from mvcs.reports import CompactReport, RetentionApplied
    from mvcs.upkeep import Garbage, GcReport

HOUR_SECONDS = 3600
LISTED = 8


def collected(report: "GcReport", *, verbose: bool = False) -> list[str]:
    """Return each file that goes and why, what waits, and what to do next; many of one kind on one line."""
    verb = "deleted" if report.executed else "would delete"
    says = "marked for deletion" if report.executed else "would mark for deletion"
    later = [] if report.executed else [item for item in report.condemned if item.is_condemned]
    anew = [item for item in report.condemned if item not in later]
    lines = [f"{verb} the branch {printable(name)}: another one contains it" for name in report.branches]
    most = len(report.garbage) + len(report.condemned) + len(report.waiting) if verbose else LISTED
    lines += _listed(verb, report.garbage, most)
    lines += _listed(says, anew, most)
    lines += _listed("marked for deletion:", later, most)
    lines += _listed("waits", report.waiting, most)
    total = f"{verb} {count(len(report.garbage), 'file')}, {size(report.bytes)}"
    total += f"; {says} {_sum(anew)}" if anew else ""
    total += f"; would delete {_sum(later)} {_when(min(item.left for item in later))}" if later else ""
    total += f"; {_sum(report.waiting)}, younger than the grace" if report.waiting else ""
    return [*lines, total, *map(printable, report.notes), *_advice(report, anew)]


def stages(
    report: "RetentionApplied | CompactReport", screen: Screen, remote: str | None = None
) -> list[str]:
    """Return what a store takes before, afterwards and once `gc` was there, and when and how that is."""
    heads = ("before", "now", "after gc") if report.executed else ("now", "after this", "after gc")
    rows = [
        ("", *heads),
        *((name, *map(size, taken)) for name, taken in report.store_bytes.items() if taken[0]),
    ]
    lines = table(rows, "<>>>", screen)
    if any(then > last for _, then, last in report.store_bytes.values()):
        gc = f"mvcs gc{of_remote(remote)} --execute"
        age = f"when they are {GRACE_DAYS:g} days old, a day after it marked them"
        lines.append(f"'{gc}' deletes packs that nothing needs {age}")
        if report.sole_writer:
            lines.append(f"no other clone has written here: '{gc} --grace 0 --wait 0' frees the room at once")
    return lines


def _listed(verb: str, items: "list[Garbage]", most: int) -> list[str]:
    """Return a line for each file; of many that have one reason, a line for all of them."""
    if len(items) <= most:
        ends = (f"; it goes {_when(item.left)}" if item.left else "" for item in items)
        return [f"{_line(verb, item)}{end}" for item, end in zip(items, ends, strict=True)]
    reasons: dict[str, list[Garbage]] = {}
    for item in items:
        reasons.setdefault(item.reason, []).append(item)
    return [f"{verb} {_sum(found)}: {reason} (-v lists them)" for reason, found in reasons.items()]


def _sum(items: "list[Garbage]") -> str:
    return f"{count(len(items), 'file')}, {size(sum(item.bytes for item in items))}"


def _advice(report: "GcReport", anew: "list[Garbage]") -> list[str]:
    collects = f"mvcs gc{of_remote(report.remote)} --execute"
    if report.executed:
        first = min((item.left for item in report.condemned), default=0.0)
        said = [f"'{collects}' {_when(first)} deletes what is still marked for deletion"] if first else []
    elif report.garbage or report.branches:
        said = [f"'{collects}' deletes it"]
    else:
        said = [f"'{collects}' marks it, and deletes it later"] if anew else []
    return [*said, *_hurry(report, collects)]


def _hurry(report: "GcReport", collects: str) -> list[str]:
    """Say how long what is left waits at least, and how one hurries."""
    if not (report.waiting or report.condemned):
        return []
    hurry = f"where nobody else writes, '{collects} --grace 0 --wait 0' deletes at once"
    if not report.waiting:
        return [hurry]
    left = report.grace - max(item.age for item in report.waiting)
    return [f"the oldest that waits is past the grace {_when(max(left, 1.0))}; {hurry}"]


def _when(seconds: float) -> str:
    """Say how long something waits, in days or hours, rounded up."""
    unit, name = (DAY_SECONDS, "day") if seconds > 2 * DAY_SECONDS else (HOUR_SECONDS, "hour")
    return f"in {count(max(1, -int(-seconds // unit)), name)}"


def _line(verb: str, item: "Garbage") -> str:
    days = item.age / DAY_SECONDS
    return f"{verb} {printable(item.path)}, {size(item.bytes)}, {days:.1f} days old: {item.reason}"
