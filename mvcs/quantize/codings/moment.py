"""Codes of moments: second ones on a log lattice, first ones in units of the root of restored second ones."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mvcs.objects import DType, LogLattice, QuantizedTensor, RootLattice
from mvcs.quantize.codings.exceptions import restored, with_marks
from mvcs.quantize.float_values import Floats, to_float32
from mvcs.quantize.lattices.log_lattice import LogGrid
from mvcs.quantize.lattices.root_lattice import root_codes, root_signs, root_values
from mvcs.quantize.outliers import Buffer, Codes
from mvcs.quantize.quantizer import Coded, Coding, LatticeContext


@dataclass(frozen=True)
class LogCoding:
    """A positive value becomes its pattern's distance from the offsets of its row and column.

    Attributes:
        parameters: scale and ids of the offsets.
        grid: the same, with the offsets.
        dtype: element type of the tensor.
        run: elements of a full chunk.
        bare: whether codes are left out, since the offsets are all that is kept.
    """

    parameters: LogLattice
    grid: LogGrid
    dtype: DType
    run: int
    bare: bool = False
    width: int = field(default=2, init=False)
    levels: int = field(default=256, init=False)

    def code(self, part: memoryview, index: int, context: LatticeContext | None) -> Coded:  # noqa: ARG002 - no lattice
        """Quantize one chunk."""
        if self.bare:
            return Coded(np.empty(0, np.uint8), b"")
        codes = self.grid.codes(to_float32(part, self.dtype.name), index * self.run)
        return with_marks(codes, lambda codes: self.values(codes, index), part, self.dtype, nonzero=True)

    def restore(self, coded: Coded, index: int, count: int) -> Buffer:
        """Return the elements of a coded chunk."""
        codes = None if self.bare else coded.codes.view(np.int16)
        return restored(self.grid.values(codes, count, index * self.run), coded, self.dtype)

    def values(self, codes: Codes, index: int, start: int = 0) -> Floats:
        """Return the values of codes that begin at element `start` of a chunk."""
        return self.grid.values(codes, codes.size, index * self.run + start)


@dataclass(frozen=True)
class RootCoding:
    """A value becomes a multiple of a step times the root of another tensor's restored value.

    Attributes:
        parameters: the step, and the other tensor's id.
        dtype: element type of the tensor.
        roots: gives the other tensor's restored values, chunk by chunk.
        signs: whether only the sign is kept.
    """

    parameters: RootLattice
    dtype: DType
    roots: Callable[[int], Floats]
    signs: bool = False
    width: int = field(default=2, init=False)
    levels: int = field(default=256, init=False)

    def code(self, part: memoryview, index: int, context: LatticeContext | None) -> Coded:  # noqa: ARG002 - no lattice
        """Quantize one chunk."""
        values, roots = to_float32(part, self.dtype.name), self.roots(index)
        codes = root_signs(values, roots) if self.signs else root_codes(values, roots, self.parameters.step)
        return with_marks(codes, lambda codes: self.values(codes, index), part, self.dtype)

    def restore(self, coded: Coded, index: int, count: int) -> Buffer:  # noqa: ARG002 - codes say how many
        """Return the elements of a coded chunk."""
        return restored(self.values(coded.codes.view(np.int16), index), coded, self.dtype)

    def values(self, codes: Codes, index: int, start: int = 0) -> Floats:
        """Return the values of codes that begin at element `start` of a chunk."""
        roots = self.roots(index)[start : start + codes.size]
        return root_values(codes, roots, self.parameters.step)


@dataclass(frozen=True)
class RestoredTensor:
    """A tensor that was quantized, as long as others may refer to what it restores to.

    Attributes:
        tensor: as it is stored.
        coding: how it was made.
        chunks: its codes.
    """

    tensor: QuantizedTensor
    coding: Coding
    chunks: list[Coded]
    _last: dict[int, Floats] = field(default_factory=dict)

    def floats(self, index: int) -> Floats:
        """Return one chunk as float32 [n], as readers will restore it; the last one is remembered."""
        found = self._last.get(index)
        if found is None:
            count = self.tensor.chunk_elements(index)
            found = to_float32(self.coding.restore(self.chunks[index], index, count), self.tensor.dtype.name)
            self._last.clear()
            self._last[index] = found
        return found
