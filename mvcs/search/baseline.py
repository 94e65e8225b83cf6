"""What an evaluation of the original state gave: the measure of every candidate."""

import math
import sys
from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import SupportsFloat

from mvcs.errors import UsageError
from mvcs.search.settings import SEARCH_DEFAULTS

Batch = tuple[float, float]
Measured = SupportsFloat | Iterable[tuple[SupportsFloat, SupportsFloat]]

_KIND = "return a number, or yield (sum, count) for each batch"
_REPEATABLE = "evaluate the same data in the same order every time: seed its generator, turn augmentation off"


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
