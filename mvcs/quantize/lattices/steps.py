"""Which step a lattice gets: one of four an octave, near a share of the values' root mean square."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mvcs.quantize.float_values import Floats
from mvcs.quantize.sketch import Sketch, points_of_few

_BYTES = np.arange(256)
_STEPS = (4 + _BYTES % 4) * np.exp2(_BYTES // 4 - 60.0)
_MIDDLES = _STEPS[:-1] * _STEPS[1:]  # squares of the geometric means of neighbours, exact

STEADY_RATIO = 2**0.3

_GRIDS = {"float16": (2.0**-11, 2.0**-24), "bfloat16": (2.0**-8, 2.0**-133)}
_WORTH = 2**-0.75  # of a grid: with finer steps codes take more than values do
_STAYS = 2**0.5  # either way, where the parent has one of them to be near


@dataclass(frozen=True)
class Scale:
    """How large values are.

    Attributes:
        count: how many there are.
        squares: the sum of their squares.
    """

    count: int = 0
    squares: float = 0.0

    @property
    def rms(self) -> float:
        """Root of the mean square; 0.0 where there are no values."""
        return math.sqrt(self.squares / self.count) if self.count else 0.0

    @classmethod
    def of(cls, sketch: Sketch) -> "Scale":
        """Return that of a sketch's finite values, each taken as the middle of its bucket.

        The root mean square is within 1/256 of the true one, and the same on every machine and in any order
        of values: integers were counted, and the sum is exact.
        """
        values, counts = sketch.points()
        return cls(int(counts.sum()), math.fsum((counts * np.square(values)).tolist()))

    @classmethod
    def of_few(cls, parts: Sequence[Floats]) -> list["Scale"]:
        """Return what sketches of some parts would give, of few values each: they are looked at together."""
        return [
            cls(int(counts.sum()) + zeros, math.fsum((counts * np.square(values)).tolist()))
            for values, counts, zeros in points_of_few(parts)
        ]

    @classmethod
    def total(cls, parts: Iterable["Scale"]) -> "Scale":
        """Return that of several tensors together, the same in any order."""
        found = list(parts)
        return cls(sum(one.count for one in found), math.fsum(one.squares for one in found))


def step_value(step: int) -> float:
    """Return the step of a step byte: (4 + step % 4) * 2^(step // 4 - 60), exact in float32."""
    return float(_STEPS[step])


def nearest_step(target: float) -> int:
    """Return the byte of the step nearest to a positive number, by ratio; of 0 the smallest."""
    return int(np.searchsorted(_MIDDLES, target * target))


def rms(sketch: Sketch) -> float:
    """Return the root mean square of a sketch's finite values, as `Scale.of` has it."""
    return Scale.of(sketch).rms


def lattice_step(scale: float, step_size: float) -> int:
    """Return the byte of the step of `step_size` root mean squares `scale`."""
    return nearest_step(scale * step_size)


def steady_step(target: float, parent: int | None) -> int:
    """Return the parent's step byte while its step is within a factor 2^0.3 of the target, else the nearest.

    Codes on one step compare best, and the root mean square of weights drifts slowly.
    """
    if parent is None or not target / STEADY_RATIO <= step_value(parent) <= target * STEADY_RATIO:
        return nearest_step(target)
    return parent


def finest_step(scale: float, dtype: str, *, was_coded: bool | None) -> float:
    """Return the finest step that codes of a tensor are worth: with finer ones its values take no more.

    Args:
        scale: root mean square of the tensor.
        dtype: name of its element type. Only types of 16 bits have a grid that is as coarse as steps are.
        was_coded: whether the parent has codes on that step; false where it has values, None for neither.

    Returns:
        a step, 0.0 for a wider type.
    """
    relative, least = _GRIDS.get(dtype, (0.0, 0.0))
    stays = {True: 1 / _STAYS, False: _STAYS, None: 1.0}[was_coded]
    return max(scale * relative, least) * _WORTH * stays
