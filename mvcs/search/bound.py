"""The degradation a user accepts: a number or a schedule, relative to the quality of the original state."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from mvcs.errors import UsageError, real

Goal = Literal["min", "max"]


@dataclass(frozen=True)
class Bound:
    """How much worse than the original a restored state may be.

    Degradation is (candidate - baseline) / |baseline| where lower is better, the opposite where higher is:
    positive where the candidate is worse. That holds for a baseline of any magnitude. Of zero nothing is a
    share (`Baseline.is_zero`): such a commit is exact.

    Attributes:
        max_degradation: largest degradation accepted, such as 0.01 for 1 %; or a function that gives it for a
            step.
        goal: "min" where a lower metric is better (a loss), "max" where a higher is (an accuracy).
        is_goal_assumed: nobody said which way is better, who was asked.

    Raises:
        UsageError: a setting is out of range.
    """

    max_degradation: float | Callable[[int], float]
    goal: Goal = "min"
    is_goal_assumed: bool = False

    def __post_init__(self) -> None:
        """Check what does not need a step."""
        goal: object = self.goal
        if not (isinstance(goal, str) and goal in ("min", "max")):
            raise UsageError(f"goal cannot be '{goal}'", hint="use 'min' for a loss, 'max' for an accuracy")
        if not callable(self.max_degradation):
            _checked(self.max_degradation, "max_degradation")

    @classmethod
    def asked(cls, max_degradation: float | Callable[[int], float], goal: Goal | None) -> "Bound":
        """Return the bound that somebody asked for, who may have meant per cent, or have forgotten the goal.

        Raises:
            UsageError: a setting is out of range, or would let a state be 100 % worse.
        """
        bound = cls(max_degradation, "min" if goal is None else goal, is_goal_assumed=goal is None)
        if not callable(max_degradation) and max_degradation >= 1:
            raise UsageError(
                f"max_degradation cannot be {max_degradation!r}, which is {max_degradation:.0%}",
                hint="0.01 is 1 %; a function of the step may give 1 and more",
            )
        return bound

    def epsilon(self, step: int) -> float:
        """Return the degradation accepted after step `step`.

        Raises:
            UsageError: the schedule gives something else than a finite number of at least 0.
        """
        if not callable(self.max_degradation):
            return float(self.max_degradation)
        return _checked(self.max_degradation(step), f"max_degradation of step {step}")

    def degradation(self, candidate: float, baseline: float) -> float:
        """Return how much worse `candidate` is than `baseline`, which is not zero."""
        return self.worse_by(candidate - baseline, baseline)

    def worse_by(self, difference: float, baseline: float) -> float:
        """Return the degradation that a metric `difference` above the baseline's metric is."""
        signed = difference if self.goal == "min" else -difference
        return signed / abs(baseline)


def _checked(value: object, name: str) -> float:
    hint = "give a number of at least 0, such as 0.01 for 1 %"
    number = real(name, value, hint)
    if not (math.isfinite(number) and number >= 0):
        raise UsageError(f"{name} cannot be {value!r}", hint=hint)
    return number
