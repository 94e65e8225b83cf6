"""How far apart the values lie that a quantized tensor can restore: what rounding alone can change."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mvcs.objects import Absent, Constant, Derived, Lattice, LogLattice, QuantizedTensor, RootLattice
from mvcs.quantize.float_values import to_float32
from mvcs.quantize.lattices.lattice import lattice_values
from mvcs.quantize.lattices.root_lattice import root_values
from mvcs.quantize.restore import Restorer

Numbers = NDArray[np.float64]
_OCTAVE = 23  # an octave is 2^23 units of a float's pattern
_HALF_BITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
_SLACK = 1 + 2.0**-10


@dataclass(frozen=True)
class Resolution:
    """The steps of one quantized tensor.

    Attributes:
        tensor: the tensor.
        restorer: reads what its form names.
    """

    tensor: QuantizedTensor
    restorer: Restorer

    @property
    def left_out(self) -> bool:
        """Whether its values were left out on purpose."""
        return isinstance(self.tensor.parameters, Absent)

    @property
    def unlimited(self) -> bool:
        """Whether its values say nothing of single elements: left out, or means of rows and columns."""
        form = self.tensor.parameters
        return self.left_out or (isinstance(form, LogLattice) and not self.tensor.codes)

    def steps(self, index: int, values: Numbers, others: Numbers) -> Numbers:
        """Return how far off each restored value of a chunk may be: a step; inf where nothing limits it.

        Args:
            index: the chunk.
            values: its elements as they are restored.
            others: what they are compared with; what lies beyond a table is not told apart by it.
        """
        if self.unlimited:
            return np.full(values.shape, np.inf)
        steps = self._steps(self.tensor, index, values) * _SLACK
        form = self.tensor.parameters
        return _beyond(self._table(form), values, others, steps) if isinstance(form, bytes) else steps

    def _table(self, form: bytes) -> Numbers:
        return np.unique(to_float32(form, self.tensor.dtype.name).astype(np.float64))

    def _steps(self, tensor: QuantizedTensor, index: int, values: Numbers) -> Numbers:
        form = tensor.parameters
        if isinstance(form, bytes):
            return _gaps(self._table(form), values)
        if isinstance(form, Lattice):
            return np.full(values.shape, float(lattice_values(np.ones(1, np.int16), form.step)[0]))
        if isinstance(form, LogLattice):
            step: float = 2.0 ** (form.scale - _OCTAVE)  # in octaves
            return np.abs(values) * float(np.exp2(step) - 1)
        if isinstance(form, RootLattice):
            return self._root_steps(form, index, values)
        if isinstance(form, Derived):
            source = self._steps(form.source, index, values)
            return source + np.abs(values) * _HALF_BITS[tensor.dtype.name]
        return np.zeros(values.shape) if isinstance(form, Constant) else np.full(values.shape, np.inf)

    def _root_steps(self, form: RootLattice, index: int, values: Numbers) -> Numbers:
        roots = self.restorer.root(form, index)
        steps = root_values(np.ones(values.size, np.int16), roots, form.step).astype(np.float64)
        # Where only signs are kept nothing limits what was larger than a step.
        return np.where(np.all(np.abs(values) <= steps), np.inf, steps)


def _gaps(levels: Numbers, values: Numbers) -> Numbers:
    """Return the wider gap beside each value that is one of the levels."""
    inner = np.diff(levels)
    gaps = np.concatenate([inner[:1], inner, inner[-1:]]) if inner.size else np.full(2, np.inf)
    found = np.minimum(np.searchsorted(levels, values), levels.size - 1)
    listed = levels[found] == values
    return np.where(listed, np.maximum(gaps[found], gaps[found + 1]), 0.0)


def _beyond(levels: Numbers, values: Numbers, others: Numbers, steps: Numbers) -> Numbers:
    """Lift the limit where an outermost level stands for whatever lies farther out."""
    above = (values == levels[-1]) & (others > values)
    below = (values == levels[0]) & (others < values)
    return np.where(above | below, np.inf, steps)
