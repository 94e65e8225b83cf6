"""What is kept of old commits, and what becomes of them."""

from typing import TYPE_CHECKING

from mvcs.reports import of_remote
from mvcs.ui.garbage import stages
from mvcs.ui.terminal.screen import Screen
from mvcs.ui.terminal.sizes import count
from mvcs.ui.terminal.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mvcs.reports import PlannedCommit, RetentionApplied, RetentionShown

LISTED = 8
ENDS = 2  # so many have nothing between them


def shown(found: "RetentionShown", *, advice: bool = False) -> list[str]:
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
    lines = _listed(verb, found.dropped, len(found.dropped) if verbose else LISTED)
    lines += [_line("keeps", commit) for commit in found.kept] if verbose else []
    if found.dropped or found.kept:
        lines.append(f"{verb} {_amounts(found.dropped)}; keeps {_amounts(found.kept)}")
    else:
        lines.append(f"{verb} nothing: no rules are set, and 'mvcs retention set' sets them")
    lines += stages(found, screen, found.remote) if found.dropped else []
    lines += map(printable, found.notes)
    advice = [f"'mvcs retention apply{of_remote(found.remote)}' drops it"]
    return [*lines, *([] if found.executed or not found.bytes else advice)]


def _listed(verb: str, commits: "Sequence[PlannedCommit]", most: int) -> list[str]:
    """Return a line for each commit; of many that go for one reason, a line for all of them."""
    if len(commits) <= most:
        return [_line(verb, commit) for commit in commits]
    alike: dict[tuple[str, ...], list[PlannedCommit]] = {}
    for commit in commits:
        alike.setdefault((commit.layer, *commit.reasons), []).append(commit)
    return [line for found in alike.values() for line in _summed(verb, found)]


def _summed(verb: str, commits: "Sequence[PlannedCommit]") -> list[str]:
    first, last = commits[0], commits[-1]
    if len(commits) <= ENDS:
        return [_line(verb, commit) for commit in commits]
    ends = f"{printable(first.name)} ({first.short}) to {printable(last.name)} ({last.short})"
    reasons = ", ".join(map(printable, first.reasons))
    return [f"{verb} the {first.layer} of {len(commits)} commits, {ends}: {reasons} (-v lists them)"]


def _line(verb: str, commit: "PlannedCommit") -> str:
    reasons = ", ".join(map(printable, commit.reasons))
    return f"{verb} the {commit.layer} of {printable(commit.name)} ({commit.short}): {reasons}"


def _amounts(commits: "Sequence[PlannedCommit]") -> str:
    layers = dict.fromkeys(commit.layer for commit in commits)
    counts = {layer: sum(it.layer == layer for it in commits) for layer in layers}
    parts = [f"the {layer} of {n} commit{'' if n == 1 else 's'}" for layer, n in counts.items()]
    return " and ".join(parts) or "nothing"
