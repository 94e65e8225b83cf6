"""Codes of a table: the nearest of a few values."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mvcs.objects import DType
from mvcs.quantize.float_values import to_float32
from mvcs.quantize.outliers import Buffer, split
from mvcs.quantize.published.codebook import Codebook
from mvcs.quantize.published.table_codes import ScoredValues, dequantize, quantize
from mvcs.quantize.quantizer import Coded, LatticeContext


@dataclass(frozen=True)
class TableCoding:
    """A value becomes the code of the nearest in a table; large ones are kept exactly, small ones pruned.

    Attributes:
        codebook: the table.
        dtype: element type of the tensor.
        prune_below: magnitude below which a value becomes zero.
        protect_above: magnitude above which a value is kept.
        scored: gives further scores of a chunk, and their thresholds, by its number.
        bins: how many values were asked for; a table has fewer where some come out equal.
    """

    codebook: Codebook
    dtype: DType
    prune_below: float = 0.0
    protect_above: float = math.inf
    scored: Callable[[int], ScoredValues] | None = None
    bins: int = 0
    width: int = field(default=1, init=False)

    @property
    def parameters(self) -> bytes:
        """The table."""
        return self.codebook.table_bytes(self.dtype.name)

    @property
    def levels(self) -> int:
        """Codes of values, and the mark of an exception."""
        return self.codebook.levels

    def code(self, part: memoryview, index: int, context: LatticeContext | None) -> Coded:  # noqa: ARG002 - no lattice
        """Quantize one chunk."""
        values = to_float32(part, self.dtype.name)
        scored = None if self.scored is None else self.scored(index)
        found = quantize(values, self.codebook, self.prune_below, self.protect_above, scored)
        elements = np.frombuffer(part, f"<u{self.dtype.itemsize}")
        marked = found.exceptions
        raw = marked.astype("<u4").tobytes() + elements[marked].tobytes() if marked.size else b""
        return Coded(found.codes, raw)

    def restore(self, coded: Coded, index: int, count: int) -> Buffer:  # noqa: ARG002 - all chunks are alike
        """Return the elements of a coded chunk."""
        width = self.dtype.itemsize
        return dequantize(coded.codes, self.parameters, width, *split(coded.exceptions, width))
