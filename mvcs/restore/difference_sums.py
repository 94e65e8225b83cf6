"""How far the values of one tensor differ: sums over pairs of chunks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mvcs.objects import DType
from mvcs.quantize import Resolution, to_float32
from mvcs.reports import TensorDiff

Numbers = NDArray[np.float64]


@dataclass
class DifferenceSums:
    """Sums over pairs of values, in float64."""

    count: int = 0
    changed: int = 0
    moved: int = 0
    left: float = 0.0
    right: float = 0.0
    cross: float = 0.0
    change: float = 0.0
    largest: float = 0.0

    def add(
        self,
        left: Numbers,
        right: Numbers,
        same: NDArray[np.bool_],
        steps: Numbers | None,
    ) -> None:
        """Add a chunk.

        Args:
            left: its elements on one side.
            right: on the other.
            same: which of them are equal, byte for byte.
            steps: by how much each may differ for no other reason than rounding; None for not at all.
        """
        self.moved += _moved(left, right, same, steps)
        finite = np.isfinite(left) & np.isfinite(right)
        one, two = left[finite], right[finite]
        error = two - one
        self.count += left.size
        self.changed += int(np.count_nonzero(~same))
        self.left += float(one @ one)
        self.right += float(two @ two)
        self.cross += float(one @ two)
        self.change += float(error @ error)
        self.largest = max(self.largest, float(np.abs(error).max(initial=0.0)))

    def report(self, path: str) -> TensorDiff:
        """Return what the sums say of the tensor at a path."""
        rms_left, rms_change = (math.sqrt(total / max(self.count, 1)) for total in (self.left, self.change))
        norm = math.sqrt(self.left) * math.sqrt(self.right)
        return TensorDiff(
            path,
            "changed",
            changed_fraction=self.changed / max(self.count, 1),
            rms_left=rms_left,
            rms_change=rms_change,
            relative=rms_change / rms_left if rms_left else None,
            max_change=self.largest,
            cosine=self.cross / norm if norm else None,
            moved_fraction=self.moved / max(self.count, 1),
        )


def _moved(
    left: Numbers,
    right: Numbers,
    same: NDArray[np.bool_],
    steps: Numbers | None,
) -> int:
    """Count elements that differ by more than a step."""
    if steps is None:
        return int(np.count_nonzero(~same))
    with np.errstate(invalid="ignore"):
        return int(np.count_nonzero(~same & ~(np.abs(right - left) <= steps)))


def rounding_steps(
    resolutions: Sequence[Resolution | None], index: int, values: Sequence[Numbers]
) -> Numbers | None:
    """Return by how much each element may differ for no other reason than rounding; None for not at all."""
    known = [one for one in resolutions if one is not None]
    # Means of rows and columns can be compared with their like: then they moved, and by so much.
    if not known or (len(known) > 1 and all(one.unlimited for one in known)):
        return None
    beside = zip(resolutions, values, values[::-1], strict=True)
    steps = [one.steps(index, mine, theirs) for one, mine, theirs in beside if one is not None]
    return np.maximum(steps[0], steps[-1])


def same_elements(one: bytes | memoryview, two: bytes | memoryview, dtype: DType) -> NDArray[np.bool_]:
    """Compare elements byte for byte, so that NaN equals itself; complex elements count once."""
    left, right = (np.frombuffer(chunk, np.uint8).reshape(-1, dtype.itemsize) for chunk in (one, two))
    equal = left == right
    same: NDArray[np.bool_] = equal.all(axis=1)
    return same


def as_numbers(chunk: bytes | memoryview, dtype: DType) -> Numbers:
    """Return the elements of a chunk as float64: of complex ones the magnitudes."""
    if dtype.quantizable:
        return to_float32(chunk, dtype.name).astype(np.float64)
    if dtype.numpy is None:
        return np.frombuffer(chunk, np.uint8).astype(np.float64)[:: dtype.itemsize]
    values = np.frombuffer(chunk, dtype.numpy)
    return np.abs(values).astype(np.float64) if dtype.kind == "complex" else values.astype(np.float64)
