"""What collections, retention and compactions did with what is old, or would do."""

from typing import TYPE_CHECKING

from mvcs.config import DAY_SECONDS, GRACE_DAYS
from mvcs.reports import of_remote
from mvcs.ui.text import Screen, count, printable, size, table

HOUR_SECONDS = 3600
LISTED = 8
ENDS = 2  # so many have nothing between them


if TYPE_CHECKING:
    from collections.abc import Sequence

    from mvcs.reports import CompactReport, PlannedCommit, RetentionApplied, RetentionShown
    from mvcs.upkeep import Garbage, GcReport


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
        return [f"{_of_file(verb, item)}{end}" for item, end in zip(items, ends, strict=True)]
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


def _of_file(verb: str, item: "Garbage") -> str:
    days = item.age / DAY_SECONDS
    return f"{verb} {printable(item.path)}, {size(item.bytes)}, {days:.1f} days old: {item.reason}"


def retention(found: "RetentionShown", *, advice: bool = False) -> list[str]:
    """Return rules and pins, and what they mean for data and exact layers."""
    lines = [f"keeps the {rule.layer}: {printable(rule.keeps)}" for rule in found.rules]
    layers = {rule.layer for rule in found.rules}
    if "data" not in layers:
        lines.append("no rule is about data: none are dropped")
    if "exact layer" not in layers and found.remote is not None:
        first = f"mvcs retention set --remote {printable(found.remote)} --exact --last 2"
        lines.append(f"exact layers that were pushed there stay: '{first}' and 'apply' drop older ones")
    elif "exact layer" not in layers:
        kept = count(found.exact_layers, "exact layer")
        lines.append(f"each branch keeps its newest {kept} (retention.exact_layers), and tagged ones stay")
    lines += (_pin(pin.short, pin.reason) for pin in found.pins)
    if found.set_at is not None:
        lines.append(f"set by {printable(found.set_by or '')} on {found.set_at:%Y-%m-%d %H:%M} UTC")
    if found.dropped:
        lines.append(f"the data of {count(found.dropped, 'commit')} were dropped so far")
    lines += map(printable, found.notes)
    there = of_remote(found.remote)
    return [*lines, *([f"'mvcs retention apply --dry-run{there}' shows what would go"] if advice else [])]


def _pin(commit: str, reason: str) -> str:
    return f"pinned {commit}" + (f": {printable(reason)}" if reason else "")


def applied(found: "RetentionApplied", screen: Screen, *, verbose: bool = False) -> list[str]:
    """Return what goes and why, what stays where that is asked for, and how many bytes are free then."""
    verb = "dropped" if found.executed else "would drop"
    lines = _dropped(verb, found.dropped, len(found.dropped) if verbose else LISTED)
    lines += [_of_commit("keeps", commit) for commit in found.kept] if verbose else []
    if found.dropped or found.kept:
        lines.append(f"{verb} {_amounts(found.dropped)}; keeps {_amounts(found.kept)}")
    else:
        lines.append(f"{verb} nothing: no rules are set, and 'mvcs retention set' sets them")
    lines += stages(found, screen, found.remote) if found.dropped else []
    lines += map(printable, found.notes)
    advice = [f"'mvcs retention apply{of_remote(found.remote)}' drops it"]
    return [*lines, *([] if found.executed or not found.bytes else advice)]


def _dropped(verb: str, commits: "Sequence[PlannedCommit]", most: int) -> list[str]:
    """Return a line for each commit; of many that go for one reason, a line for all of them."""
    if len(commits) <= most:
        return [_of_commit(verb, commit) for commit in commits]
    alike: dict[tuple[str, ...], list[PlannedCommit]] = {}
    for commit in commits:
        alike.setdefault((commit.layer, *commit.reasons), []).append(commit)
    return [line for found in alike.values() for line in _summed(verb, found)]


def _summed(verb: str, commits: "Sequence[PlannedCommit]") -> list[str]:
    first, last = commits[0], commits[-1]
    if len(commits) <= ENDS:
        return [_of_commit(verb, commit) for commit in commits]
    ends = f"{printable(first.name)} ({first.short}) to {printable(last.name)} ({last.short})"
    reasons = ", ".join(map(printable, first.reasons))
    return [f"{verb} the {first.layer} of {len(commits)} commits, {ends}: {reasons} (-v lists them)"]


def _of_commit(verb: str, commit: "PlannedCommit") -> str:
    reasons = ", ".join(map(printable, commit.reasons))
    return f"{verb} the {commit.layer} of {printable(commit.name)} ({commit.short}): {reasons}"


def _amounts(commits: "Sequence[PlannedCommit]") -> str:
    layers = dict.fromkeys(commit.layer for commit in commits)
    counts = {layer: sum(it.layer == layer for it in commits) for layer in layers}
    parts = [f"the {layer} of {n} commit{'' if n == 1 else 's'}" for layer, n in counts.items()]
    return " and ".join(parts) or "nothing"


def compacted(report: "CompactReport", screen: Screen) -> list[str]:
    """Return what was stored again, what that saves, and what to do next."""
    if not report.chosen:
        return [
            "nothing to do: no commit is meant; A..B is what is behind B and not behind A, the older first"
        ]
    if not report.rewritten:
        return [f"nothing to do: {count(report.chosen, 'commit')} looked at", *map(printable, report.notes)]
    verb = "rewritten" if report.executed else "would rewrite"
    what = f"{count(report.encoded, 'chunk')} of {count(report.chosen, 'commit')}"
    lines = [f"{verb} {what}: {count(report.packs, 'pack')}, {size(report.bytes)}", *stages(report, screen)]
    if report.after > report.before:
        lines.append(
            "that is more: shorter chains take more bytes, and so does an archive of a short history"
        )
    return [*lines, *map(printable, report.notes)]
