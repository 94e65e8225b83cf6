"""Forms without codes: one value for all, none at all, or another tensor's values, rounded."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mvcs.objects import Absent, Constant, Derived, DType
from mvcs.quantize.outliers import Buffer
from mvcs.quantize.quantizer import Coded, LatticeContext


@dataclass(frozen=True)
class BareCoding:
    """A tensor without codes: all its values are one, are left out, or are another tensor's, rounded.

    Attributes:
        parameters: which of these.
        dtype: element type of the tensor.
        values: gives the elements of a chunk, by its number and length.
    """

    parameters: Constant | Absent | Derived
    dtype: DType
    values: Callable[[int, int], bytes]
    width: int = field(default=0, init=False)
    levels: int = field(default=256, init=False)

    def code(self, part: memoryview, index: int, context: LatticeContext | None) -> Coded:  # noqa: ARG002 - there are no codes
        """Return no codes."""
        return Coded(np.empty(0, np.uint8), b"")

    def restore(self, coded: Coded, index: int, count: int) -> Buffer:  # noqa: ARG002 - there are no codes
        """Return the elements of a chunk."""
        return self.values(index, count)
