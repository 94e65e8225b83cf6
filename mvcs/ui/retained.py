"""What is kept of old commits, and what becomes of them."""

from typing import TYPE_CHECKING

from mvcs.ui.terminal.sizes import count
from mvcs.ui.terminal.text import printable

if TYPE_CHECKING:
    from mvcs.reports import RetentionShown


def shown(found: "RetentionShown", *, advice: bool = False) -> list[str]:
    """Return rules and pins, and what they mean for data and exact layers."""
    lines = [f"keeps the {rule.layer}: {printable(rule.keeps)}" for rule in found.rules]
    layers = {rule.layer for rule in found.rules}
    if "data" not in layers:
        lines.append("no rule is about data: none are dropped")
    if "exact layer" not in layers:
        kept = count(found.exact_layers, "exact layer")
        lines.append(f"each branch keeps its newest {kept} (retention.exact_layers), and tagged ones stay")
    lines += (_pin(pin.short, pin.reason) for pin in found.pins)
    if found.set_at is not None:
        lines.append(f"set by {printable(found.set_by or '')} on {found.set_at:%Y-%m-%d %H:%M} UTC")
    if found.dropped:
        lines.append(f"the data of {count(found.dropped, 'commit')} were dropped so far")
    lines += map(printable, found.notes)
    return [*lines, *(["'mvcs retention apply --dry-run' shows what would go"] if advice else [])]


def _pin(commit: str, reason: str) -> str:
    return f"pinned {commit}" + (f": {printable(reason)}" if reason else "")
