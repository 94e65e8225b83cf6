"""What quantization did to the values, as sums that can be merged over chunks, tensors and machines."""

import math
from dataclasses import dataclass

import numpy as np

from mvcs.quantize.values import Floats


@dataclass(frozen=True)
class ErrorSums:
    """Sums over values w and their errors e = restored - exact, in float64.

    Attributes:
        count: number of values.
        largest: the largest |e|.
        squares: the sum of e^2.
        scale: the sum of w^2 of the finite values.
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


def measure(exact: Floats, restored: Floats) -> ErrorSums:
    """Compare two float32 arrays of one shape.

    A value that is not finite counts as no error when it is restored bit for bit, else as an infinite one.
    """
    finite = np.isfinite(exact)
    if not finite.all() and not np.array_equal(_patterns(exact[~finite]), _patterns(restored[~finite])):
        return ErrorSums(exact.size, math.inf, math.inf, 0.0)
    values = exact[finite].astype(np.float64)
    errors = restored[finite].astype(np.float64) - values
    if errors.size == 0:
        return ErrorSums(exact.size)
    squares, scale = np.sum(np.square(errors)), np.sum(np.square(values))
    return ErrorSums(exact.size, float(np.abs(errors).max()), float(squares), float(scale))


def _patterns(values: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    return np.ascontiguousarray(values).view(np.uint32)
