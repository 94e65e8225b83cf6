"""Non-negative values to a lattice on their float32 pattern, with offsets of rows and columns, and back."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

import mvcs_native
from mvcs.objects import MAX_OFFSETS, column_count, row_count
from mvcs.quantize.float_values import Floats
from mvcs.quantize.outliers import Codes

ZERO_OFFSET = -32768
_OFFSETS_PAY = 8  # values for each offset, below which offsets cost more than they save


def _none() -> Codes:
    return np.zeros(0, np.int16)


@dataclass(frozen=True)
class LogGrid:
    """Where the values of one tensor lie on a log lattice.

    Attributes:
        scale: the step is 2^scale units of the pattern, 2^23 of which are an octave; 16 to 24.
        columns: of the tensor seen as a matrix of shape[0] rows; at least 1.
        rows: int16 [rows], in quarters of the step, -32768 for a row of zeros; empty for no offsets.
        cols: int16 [columns], likewise.
    """

    scale: int
    columns: int = 1
    rows: Codes = field(default_factory=_none)
    cols: Codes = field(default_factory=_none)

    @classmethod
    def fit(
        cls,
        chunks: Iterable[Floats],
        shape: Sequence[int],
        scale: int,
        parent: "LogGrid | None" = None,
    ) -> "LogGrid":
        """Find the offsets of a tensor: the means of its patterns by row, then of what is left by column.

        A rank-1 model of the logarithm (Adafactor's factors, in the log domain). Means are sums of integers,
        over the positive normal values alone. An offset that moved by one quarter step at most stays the
        parent's, so that codes can be compared.

        Args:
            chunks: float32, the values of the tensor's chunks in their order; taken twice, so no iterator.
            shape: the tensor's.
            scale: of the step.
            parent: the grid of the same tensor before, or None.
        """
        height, width = row_count(shape), max(1, column_count(shape))
        grid = cls(scale, width)
        if not _offsets_pay(height, width):
            return grid
        rows = _means(chunks, grid, height, by_column=False)
        cols = _means(chunks, cls(scale, width, rows), width, by_column=True)
        if parent is None or parent.scale != scale or parent.rows.shape != rows.shape:
            return cls(scale, width, rows, cols)
        if parent.cols.shape != cols.shape:
            return cls(scale, width, rows, cols)
        return cls(scale, width, _steady(rows, parent.rows), _steady(cols, parent.cols))

    def codes(self, values: Floats, start: int = 0) -> Codes:
        """Return the codes of a run of values, the first of which is element `start` of the tensor.

        Returns:
            int16 [n]; -32767 is a zero, -32768 an exception: negative, subnormal, or not finite.
        """
        codes = mvcs_native.empty(values.size, np.int16)
        mvcs_native.log_lattice(values, self.scale, self.rows, self.cols, self.columns, start, codes)
        return codes

    def values(self, codes: Codes | None, count: int, start: int = 0) -> Floats:
        """Return the float32 values of codes, or of `count` codes that are all 0."""
        values, found = mvcs_native.empty(count, np.float32), _none() if codes is None else codes
        mvcs_native.log_unlattice(found, self.scale, self.rows, self.cols, self.columns, start, values)
        return values


def _offsets_pay(height: int, width: int) -> bool:
    few = _OFFSETS_PAY * (height + width) <= height * width
    return few and height <= MAX_OFFSETS and width <= MAX_OFFSETS


def _means(chunks: Iterable[Floats], grid: LogGrid, number: int, *, by_column: bool) -> Codes:
    sums, counts = np.zeros(number, np.int64), np.zeros(number, np.int64)
    start = 0
    for values in chunks:
        mvcs_native.log_sums(values, grid.scale, grid.rows, grid.columns, start, by_column, sums, counts)
        start += values.size
    return _quarters(sums, counts, grid.scale)


def _quarters(sums: NDArray[np.int64], counts: NDArray[np.int64], scale: int) -> Codes:
    """Return the means in quarter steps, to the nearest; -32768 where there was nothing but zeros."""
    means = sums // np.maximum(counts, 1)
    quarters = (means + (1 << (scale - 3))) >> (scale - 2)
    return np.where(counts > 0, np.minimum(np.maximum(quarters, -32767), 32767), ZERO_OFFSET).astype("<i2")


def _steady(offsets: Codes, parent: Codes) -> Codes:
    near = np.abs(offsets.astype(np.int32) - parent) <= 1
    return np.where(near & (parent != ZERO_OFFSET) & (offsets != ZERO_OFFSET), parent, offsets)
