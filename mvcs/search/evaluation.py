"""The degradation that is accepted, the measures of an evaluation, and how a commit records them."""

import math
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Final, Literal, SupportsFloat

from mvcs.errors import UsageError, real
from mvcs.search.settings import SEARCH_DEFAULTS

Goal = Literal["min", "max"]
Batch = tuple[float, float]
Measured = SupportsFloat | Iterable[tuple[SupportsFloat, SupportsFloat]]

_KIND = "return a number, or yield (sum, count) for each batch"
_REPEATABLE = "evaluate the same data in the same order every time: seed its generator, turn augmentation off"
METRIC: Final = "evaluation"


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


@dataclass(frozen=True)
class Baseline:
    """The metric of the original state, batch by batch where the evaluation gives batches.

    Attributes:
        batches: (sum, count) of each batch; one pair of count 1 for an evaluation that gives a number.
        is_paired: the evaluation gives batches.
    """

    batches: tuple[Batch, ...]
    is_paired: bool = True

    @classmethod
    def measure(cls, measured: Measured) -> "Baseline":
        """Take in what an evaluation of the original state gives, to its end.

        Raises:
            UsageError: it gives neither a number nor batches, or one that is not finite, or their sum is not.
        """
        number = as_number(measured)
        if number is not None:
            return cls((_finite((number, 1.0), "evaluate gave"),), is_paired=False)
        batches = tuple(
            _finite(batch, f"batch {index} of the evaluation is")
            for index, batch in enumerate(as_batches(measured), 1)
        )
        if not batches:
            raise UsageError("the evaluation gave no batches", hint=_KIND)
        found = cls(batches)
        if not found._is_added_up:
            raise UsageError(
                "the batches of the evaluation are finite, but too large to be added up",
                hint="divide every sum by one and the same number: only relative differences count",
            )
        return found

    @cached_property
    def count(self) -> float:
        """How much the whole sample counts."""
        return math.fsum(count for _, count in self.batches)

    @cached_property
    def value(self) -> float:
        """The metric of the whole sample: the sum of sums over the sum of counts."""
        return math.fsum(total for total, _ in self.batches) / self.count

    @property
    def is_zero(self) -> bool:
        """Whether no difference is a share of the metric."""
        return is_zero(self.value)

    @property
    def _is_added_up(self) -> bool:
        """Whether the metric is within the range of a float."""
        try:
            return math.isfinite(self.value)
        except OverflowError:
            return False

    @cached_property
    def order(self) -> float:
        """How much more alike neighbouring batches are than at random, in deviations.

        By the lag-1 correlation of the batches' means: about 1 / sqrt(n) at random if n of them are shuffled.
        Where it is large the first ones do not speak for the rest.
        """
        means = [total / count - self.value for total, count in self.batches]
        square = math.fsum(mean * mean for mean in means)
        lagged = math.fsum(mean * after for mean, after in pairwise(means))
        return lagged * math.sqrt(len(means)) / square if square else 0.0

    def other(self, index: int, count: float) -> str | None:
        """Return what is wrong with batch `index`, from 0, or None where the baseline has such a one.

        Args:
            index: which batch.
            count: how much it counts; NaN where it is missing.
        """
        if index >= len(self.batches):
            return f"the evaluation gave more than the baseline's {len(self.batches)} batches"
        if math.isnan(count):
            return f"the evaluation ended after {index} of the baseline's {len(self.batches)} batches"
        expected = self.batches[index][1]
        if not math.isclose(count, expected, rel_tol=1e-9):
            return f"batch {index + 1} counts {count:g}, but {expected:g} in the baseline"
        return None


def is_zero(metric: float) -> bool:
    """Tell whether a metric is zero, or so small that a float has no digits for a share of it (denormal)."""
    return abs(metric) < sys.float_info.min


def as_number(measured: object) -> float | None:
    """Return what an evaluation gave as a number, or None if it gave something to iterate over.

    Raises:
        UsageError: it is neither.
    """
    if hasattr(measured, "__float__"):
        try:
            return float(measured)
        except (TypeError, ValueError, RuntimeError):
            raise UsageError("evaluate returned an array of several numbers", hint=_KIND) from None
    if isinstance(measured, str | bytes | dict) or not isinstance(measured, Iterable):
        raise UsageError(f"evaluate returned a '{type(measured).__name__}'", hint=_KIND)
    return None


def as_batches(measured: object) -> Generator[Batch]:
    """Yield the batches of an evaluation as floats, in order, and close it at the end.

    Raises:
        UsageError: a batch is not a pair of numbers, or its count not above 0.
    """
    batches = iter(measured)  # type: ignore[call-overload]  # as_number has looked at it
    try:
        for index, batch in enumerate(batches, 1):
            yield _pair(batch, index)
    finally:
        close = getattr(batches, "close", None)
        if close is not None:
            close()


def _pair(batch: object, index: int) -> Batch:
    try:
        total, count = (float(number) for number in batch)  # type: ignore[attr-defined]  # anything else raises
    except (TypeError, ValueError, RuntimeError):
        raise UsageError(f"batch {index} of the evaluation is not (sum, count)", hint=_KIND) from None
    if not (math.isfinite(count) and count > 0):
        raise UsageError(f"batch {index} of the evaluation counts {count:g}", hint="leave empty batches out")
    return total, count


def _finite(batch: Batch, subject: str) -> Batch:
    if not math.isfinite(batch[0]):
        raise UsageError(
            f"{subject} {batch[0]} for the original state, which nothing can be compared with",
            hint="find out why the metric of the state in training is not finite",
        )
    return batch


def check_repeatable(
    measured: Measured, baseline: Baseline, *, batches: int = 1, tolerance: float = SEARCH_DEFAULTS.same
) -> float:
    """Refuse an evaluation that gives something else the second time.

    Args:
        measured: what the evaluation gives for the same state once more; closed after so many batches.
        baseline: what it gave the first time.
        batches: how many batches to compare.
        tolerance: largest relative difference; devices add up in varying order.

    Returns:
        The share of the sample that was evaluated.

    Raises:
        UsageError: it gave something else.
    """
    number, scale = as_number(measured), max(abs(total) for total, _ in baseline.batches)
    if (number is None) != baseline.is_paired:
        raise UsageError("evaluate gave a number once and batches another time", hint=_KIND)
    if number is not None:
        _compare("the metric", number, baseline.value, tolerance, scale)
        return 1.0
    seen = 0.0
    with closing(as_batches(measured)) as again:
        for index, (before, _) in enumerate(baseline.batches[:batches]):
            total, count = next(again, (math.nan, math.nan))
            wrong = baseline.other(index, count)
            if wrong is not None:
                raise UsageError(f"the evaluation is random: {wrong}", hint=_REPEATABLE)
            _compare(f"batch {index + 1}", total, before, tolerance, scale)
            seen += count
    return seen / baseline.count


def _compare(subject: str, now: float, before: float, tolerance: float, scale: float) -> None:
    if not math.isclose(now, before, rel_tol=tolerance, abs_tol=1e-12 * scale):
        raise UsageError(
            f"the evaluation is random: {subject} of the same weights is {now:g} now and was {before:g}",
            hint=_REPEATABLE,
        )


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
