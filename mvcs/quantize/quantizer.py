"""Quantizers under one protocol: settings fixed for a tensor, then chunks to codes and what they restore."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from mvcs.objects import (
    Absent,
    Constant,
    Derived,
    DType,
    Form,
    Lattice,
    LogLattice,
    QuantizedTensor,
    RootLattice,
    chunk_elements,
)
from mvcs.quantize.float_values import WIDE_DTYPE, Floats, Halves, elements_of, to_float32
from mvcs.quantize.lattice import (
    LogGrid,
    balance_rows,
    carried,
    confine,
    keep_pace,
    largest_error,
    lattice_codes,
    lattice_values,
    root_codes,
    root_signs,
    root_values,
)
from mvcs.quantize.measure import ErrorSums, measure_errors, measure_wide
from mvcs.quantize.outliers import Buffer, Codes, held, joined, split, with_exceptions

UNPACED: Final = 0.25  # the most hysteresis for codes that are not moved to keep pace
_RUN = 1 << 16  # values


@dataclass(frozen=True)
class LatticeContext:
    """Where the values of a chunk come from, and where they go.

    Attributes:
        codes: the parent's, on the step of the coding; None where there are none.
        earlier: upper halves of its values at an earlier commit; None where nothing tells them.
        drifts: whether weights have gone somewhere since, instead of to and fro.
        ahead: float32 [n], what momentum would still add to them, to be carried; None for nothing.
    """

    codes: Codes | None = None
    earlier: Halves | None = None
    drifts: bool = True
    ahead: Floats | None = None


@dataclass(frozen=True)
class Coded:
    """One chunk of a tensor as it will be stored.

    Attributes:
        codes: little-endian codes of the coding's width; empty when all of them are 0 and left out.
        exceptions: ascending positions as uint32, then the exact elements; empty for none.
    """

    codes: NDArray[np.uint8]
    exceptions: bytes


class Coding(Protocol):
    """How one tensor is quantized. An implementer is immutable and may be called from several threads."""

    @property
    def parameters(self) -> bytes | Form:
        """What stands in the quantized tensor."""
        ...

    @property
    def width(self) -> int:
        """Bytes of a code."""
        ...

    @property
    def levels(self) -> int:
        """For codes of one byte, how many there are; 256 otherwise."""
        ...

    def code(self, part: memoryview, index: int, context: LatticeContext | None) -> Coded:
        """Quantize one chunk.

        Args:
            part: its elements, little-endian.
            index: its number on the tensor's grid.
            context: where its values come from and go, where something is known; a lattice follows it.
        """
        ...

    def restore(self, coded: Coded, index: int, count: int) -> Buffer:
        """Return the `count` elements that readers will restore from a coded chunk."""
        ...


@dataclass(frozen=True)
class LatticeCoding:
    """A value becomes the nearest multiple of a step, or stays at its base's code.

    It stays while that code is at most 0.5 + hysteresis steps away. Then codes of rows more than a quarter of
    a step off move by one: those that lag behind, until the row does not, and then others until its errors
    cancel out. So no error is above 0.5 + hysteresis steps, or above 0.75 where that is more. What momentum
    would still add counts as a part of the value as far as that allows.

    Attributes:
        step: step byte.
        dtype: element type of the tensor.
        hysteresis: in steps.
        run: elements of a row; 0 where codes do not move.
        keeps: whether the values are those that the base's codes were made of: then these codes stay.
    """

    step: int
    dtype: DType
    hysteresis: float = 0.0
    run: int = 0
    keeps: bool = False
    width: int = field(default=2, init=False)
    levels: int = field(default=256, init=False)

    @property
    def parameters(self) -> Lattice:
        """The step."""
        return Lattice(self.step)

    def code(self, part: memoryview, index: int, context: LatticeContext | None) -> Coded:
        """Quantize one chunk."""
        if self.keeps and context is not None and context.codes is not None:
            return with_marks(context.codes.copy(), lambda codes: self.values(codes, index), part, self.dtype)
        exact, start = to_float32(part, self.dtype.name), index * chunk_elements(self.dtype)
        ahead = None if context is None else context.ahead
        values = exact if ahead is None else carried(exact, ahead, self.step)
        codes = self._near(values, context or LatticeContext(), start)
        if self.run:
            balance_rows(values, codes, self.step, self.run, start)
        if ahead is not None:
            confine(exact, codes, self.step, largest_error(self.hysteresis))
        return with_marks(codes, lambda codes: self.values(codes, index), part, self.dtype)

    def _near(self, values: Floats, context: LatticeContext, start: int) -> Codes:
        """Keep codes where they lag behind no drift: those of a row only if it is known how it moves."""
        if context.codes is None or not self.hysteresis or (self.run and context.earlier is None):
            return lattice_codes(values, self.step)
        if not self.run or context.earlier is None or not context.drifts:
            return lattice_codes(values, self.step, context.codes, min(self.hysteresis, UNPACED))
        codes = lattice_codes(values, self.step, context.codes, self.hysteresis)
        keep_pace(values, context.earlier, codes, self.step, self.run, start)
        return codes

    def restore(self, coded: Coded, index: int, count: int) -> Buffer:  # noqa: ARG002 - codes say how many
        """Return the elements of a coded chunk."""
        return restored(self.values(coded.codes.view(np.int16), index), coded, self.dtype)

    def values(self, codes: Codes, index: int, start: int = 0) -> Floats:  # noqa: ARG002 - all places are alike
        """Return the values of codes that begin at element `start` of a chunk."""
        return lattice_values(codes, self.step)


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


def with_marks(
    codes: Codes,
    restore: Callable[[Codes], Floats],
    part: memoryview,
    dtype: DType,
    *,
    nonzero: bool = False,
) -> Coded:
    """Return the codes of a chunk as they are stored, its exceptions behind them.

    Args:
        codes: of its values; those of exceptions are marked.
        restore: gives the values of codes.
        part: its elements.
        dtype: their type.
        nonzero: whether codes other than zeros may not be restored as zero.
    """
    if dtype.name != "float32":
        codes = held(codes, restore(codes), part, dtype.name, nonzero=nonzero)
    return Coded(codes.view(np.uint8), joined(codes, part, dtype.itemsize))


def restored(values: Floats, coded: Coded, dtype: DType) -> Buffer:
    """Return the elements of a coded chunk, exceptions put in, from the values of its codes."""
    if not coded.exceptions:
        return elements_of(values, dtype.name)
    codes = coded.codes.view(np.int16)
    return with_exceptions(values, codes, dtype.name, *split(coded.exceptions, dtype.itemsize))


def errors_of(
    coding: Coding,
    coded: Coded,
    part: memoryview,
    index: int,
    dtype: str,
    see: Callable[[memoryview], None] = lambda _: None,
) -> ErrorSums:
    """Compare a chunk with what its codes restore.

    Args:
        coding: how it was coded.
        coded: its codes.
        part: its elements, little-endian.
        index: its number on the tensor's grid.
        dtype: their type, one of those `to_float32` reads.
        see: is shown the restored elements, little-endian, piece by piece in their order.
    """
    if dtype == WIDE_DTYPE:
        wide = np.frombuffer(part, "<f8")
        elements = coding.restore(coded, index, wide.size)
        see(np.frombuffer(elements, np.uint8).data)
        return measure_wide(wide, np.frombuffer(elements, "<f8"))
    exact = to_float32(part, dtype)
    whole = dtype == "float32" and coded.codes.size and not coded.exceptions
    if whole and isinstance(coding, LatticeCoding | LogCoding | RootCoding):
        return _run_by_run(coding, coded.codes.view(np.int16), exact, index, see)
    restored = coding.restore(coded, index, exact.size)
    see(np.frombuffer(restored, np.uint8).data)
    return measure_errors(exact, to_float32(restored, dtype))


def _run_by_run(
    coding: LatticeCoding | LogCoding | RootCoding,
    codes: Codes,
    exact: Floats,
    index: int,
    see: Callable[[memoryview], None],
) -> ErrorSums:
    sums = ErrorSums()
    for start in range(0, exact.size, _RUN):
        run = slice(start, start + _RUN)
        restored = coding.values(codes[run], index, start)
        see(elements_of(restored, "float32").data)
        sums += measure_errors(exact[run], restored)
    return sums
