"""What was measured of states that are restored: resume probes as a table."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mvcs.ui.screen import Screen
from mvcs.ui.sizes import count
from mvcs.ui.text import printable, table

if TYPE_CHECKING:
    from mvcs.repository.reports import CommitInfo

Costs = tuple[float, float, float | None]


def resumed(commit: "CommitInfo", steps: int, probes: Mapping[str, Costs], screen: Screen) -> list[str]:
    """Return what training on from a commit costs.

    Args:
        commit: the commit.
        steps: how many steps were trained.
        probes: by what was restored: excess of the loss over all steps and over their second half, in %, and
            steps lost, or None.
        screen: what it is for.
    """
    step = "" if commit.step is None else f", step {commit.step}"
    head = f"Trained {count(steps, 'step')} on from commit {commit.short}{step}, exactly and as restored"
    rows = [("restored", "excess", "second half", "steps lost")]
    rows += [
        (printable(name), _percent(whole), _percent(late), "-" if lost is None else f"{lost:+.1f}")
        for name, (whole, late, lost) in probes.items()
    ]
    return [head, *table(rows, "<>>>", screen)]


def _percent(value: float) -> str:
    return f"{value:+.3f}%" if math.isfinite(value) else "not finite"
