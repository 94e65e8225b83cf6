"""Figures of a commit that look alarming, or whose name tells little: what they mean is said beside them."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from mvcs.ui.terminal.sizes import count
from mvcs.ui.terminal.text import printable

if TYPE_CHECKING:
    from mvcs.reports import CommitDetails, CommitInfo

_ALARMING = 0.1

_GLOSSES = {
    "small": "biases, norms and other small tensors",
    "pace": "how much of the weights' earlier movement continues: 1 all, below 0 reversed",
    "snap-back": "retained: the share of progress since a lossy restore that is kept",
}


def gloss(name: str, figures: Mapping[str, float]) -> list[str]:
    """Return what the figures of a name are about, in brackets; nothing for a name that tells it."""
    most = figures.get("most")
    if name == "tensor limit" and most is not None:
        return [f"(no weight is off by more than {most:g} of its root mean square)"]
    return [f"({_GLOSSES[name]})"] if name in _GLOSSES else []


def meanings(value: "CommitDetails") -> Iterator[str]:
    """Yield a sentence for each figure of a commit that is large by design."""
    info = value.commit
    if info.worst is not None and info.worst.relative >= _ALARMING:
        yield f"Worst is one tensor's rounding over its own root mean square; {_together(info)}"
    if info.worst_moment is not None and info.worst_moment.relative >= _ALARMING:
        yield "moments are kept as finely as resuming needs, not as rounding could"
    if info.left_out:
        yield "what is left out is restored as zeros, and refilled by the optimizer within a few steps"
    yield from _kept_exactly(value)


def _kept_exactly(value: "CommitDetails") -> Iterator[str]:
    """Say what is exact though it was to be bounded, where the reason of a large commit does not say it."""
    from mvcs.objects import EVALUATION_CLASS
    from mvcs.reports import Cause

    info, cause = value.commit, None if value.shortfall is None else value.shortfall.cause
    if not info.bounded and EVALUATION_CLASS in info.errors and cause != Cause.NOTHING_KEPT_THE_BOUND:
        yield "nothing that was evaluated kept the bound, so the commit is exact"
    exact = [one for one in value.tensors if one.role == "weight" and one.exact_id is None]
    if info.bounded and exact and cause != Cause.EXACT_WEIGHTS:
        yield f"{count(len(exact), 'weight')} kept exactly, such as {printable(exact[0].path)}"


def _together(info: "CommitInfo") -> str:
    """Say what tells how much all errors together matter."""
    if isinstance(info.degradation, float | int):
        return "degradation says what all errors do together"
    return "what all errors do together only an evaluation tells (mvcs tune)"
