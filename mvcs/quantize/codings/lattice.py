"""Codes on a lattice: multiples of a step, that stay at the parent's codes where they may."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from mvcs.objects import DType, Lattice, chunk_elements
from mvcs.quantize.codings.exceptions import restored, with_marks
from mvcs.quantize.float_values import Floats, to_float32
from mvcs.quantize.lattices.lattice import (
    balance_rows,
    carried,
    confine,
    keep_pace,
    largest_error,
    lattice_codes,
    lattice_values,
)
from mvcs.quantize.outliers import Buffer, Codes
from mvcs.quantize.quantizer import Coded, LatticeContext

UNPACED: Final = 0.25  # the most hysteresis for codes that are not moved to keep pace


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
