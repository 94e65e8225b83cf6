"""How the quality of a commit was measured, as the commit records it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mvcs.search.bound import Goal

METRIC: Final = "evaluation"


@dataclass(frozen=True)
class Evaluation:
    """What evaluating a commit showed.

    Attributes:
        bound: the degradation that was accepted.
        baseline: the metric of the original state.
        degradation: how much worse the restored state is; None where no candidate kept the bound.
        standard_error: of the degradation; None where the evaluation gives none.
        candidates: how many were evaluated.
        evaluations: what all of it took, the baseline included, in evaluations of the whole sample.
        goal: which way the metric is better.
        undecided: two standard errors of a candidate that was refused for them alone, the least; 0 for none.
        parts: the same of each part of the state, where several were measured: this is the worst of them.
    """

    bound: float
    baseline: float
    degradation: float | None
    standard_error: float | None
    candidates: int
    evaluations: float
    goal: Goal = "min"
    undecided: float = 0.0
    parts: Mapping[str, "Evaluation"] = field(default_factory=dict)

    def to_fields(self) -> dict[str, float]:
        """Return what the commit records beside the degradation; NaN where there is no standard error."""
        error = math.nan if self.standard_error is None else self.standard_error
        undecided = {"undecided": self.undecided} if self.undecided else {}
        return {
            "bound": self.bound,
            "baseline": self.baseline,
            "standard_error": error,
            "relative": 1.0,
            "candidates": float(self.candidates),
            "evaluations": self.evaluations,
            **undecided,
        }
