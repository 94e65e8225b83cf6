"""What quantization did to the values, as sums that can be merged over chunks, tensors and machines."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import mvcs_native
from mvcs.quantize.float_values import Doubles, Floats


@dataclass(frozen=True)
class ErrorSums:
    """Sums over values w and their errors e = restored - exact, in float64.

    Attributes:
        count: number of values.
        largest: the largest |e|.
        squares: the sum of e^2.
        scale: the sum of w^2 of the values that are finite in float32.
    """

    count: int = 0
    largest: float = 0.0
    squares: float = 0.0
    scale: float = 0.0

    def __add__(self, other: "ErrorSums") -> "ErrorSums":
        """Return the sums over the values of both."""
        return ErrorSums(
            self.count + other.count,
            max(self.largest, other.largest),
            self.squares + other.squares,
            self.scale + other.scale,
        )

    @classmethod
    def total(cls, parts: Sequence["ErrorSums"]) -> "ErrorSums":
        """Return the sums over the values of all parts, the same whatever order they come in."""
        return cls(
            sum(part.count for part in parts),
            max((part.largest for part in parts), default=0.0),
            math.fsum(part.squares for part in parts),
            math.fsum(part.scale for part in parts),
        )

    def scaled(self, factor: float) -> "ErrorSums":
        """Return what so many times the values, alike, would give."""
        count = round(self.count * factor)
        return ErrorSums(count, self.largest, self.squares * factor, self.scale * factor)

    @property
    def rms(self) -> float:
        """Root of the mean squared error."""
        return math.sqrt(self.squares / self.count) if self.count else 0.0

    @property
    def relative(self) -> float:
        """Root of the squared error over the squared values; 0.0 where nothing was lost."""
        if self.squares == 0:
            return 0.0
        return math.sqrt(self.squares / self.scale) if self.scale else math.inf


def measure_errors(exact: Floats, restored: Floats) -> ErrorSums:
    """Compare two float32 arrays of one shape.

    A value that is not finite counts as no error when it is restored bit for bit, else as an infinite one.
    Sums are the same on every machine: they are made in a fixed order.
    """
    flat = np.ascontiguousarray(exact).reshape(-1), np.ascontiguousarray(restored).reshape(-1)
    return ErrorSums(exact.size, *mvcs_native.error_sums(*flat))


def measure_wide(exact: Doubles, restored: Doubles) -> ErrorSums:
    """Compare two float64 arrays, by the values that they have in float64.

    A value that float32 does not reach counts as no error when it is restored bit for bit, and for no scale,
    whose sum it would swallow.
    """
    with np.errstate(all="ignore"):
        errors = np.abs(restored - exact)
        scales = np.where(np.isfinite(exact.astype(np.float32)), np.square(exact), 0.0)
        errors[exact.view(np.uint64) == restored.view(np.uint64)] = 0.0
        errors[np.isnan(errors)] = np.inf
        largest = float(errors.max(initial=0.0))
        return ErrorSums(exact.size, largest, _sum(np.square(errors)), _sum(scales))


def _sum(values: Doubles) -> float:
    """Add up values one after the other, which is the same on every machine."""
    return float(np.cumsum(values)[-1]) if values.size else 0.0


@dataclass(frozen=True)
class ProgressSums:
    """Sums over what training moved since a lossy restore, and what of that a quantized commit keeps.

    With moves m = now - before and kept moves k = restored - before, over the elements of which all are
    finite.

    Attributes:
        kept: the sum of k * m.
        moved: the sum of m^2.
    """

    kept: float = 0.0
    moved: float = 0.0

    def __add__(self, other: "ProgressSums") -> "ProgressSums":
        """Return the sums over the elements of both."""
        return ProgressSums(self.kept + other.kept, self.moved + other.moved)

    @property
    def retained(self) -> float:
        """The share of the movement that is kept: 1 for all of it, 0 where every value snapped back."""
        return self.kept / self.moved if self.moved else 1.0


def measure_progress(restored: Floats, now: Floats, before: Floats) -> ProgressSums:
    """Add up movement and kept movement.

    Args:
        restored: float32, what the new commit restores.
        now: float32 of the same shape, the exact values that it quantizes.
        before: float32 likewise, the values training continued from.
    """
    arrays = (np.ascontiguousarray(values).reshape(-1) for values in (restored, now, before))
    return ProgressSums(*mvcs_native.progress_sums(*arrays))
