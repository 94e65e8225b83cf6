"""Codings that lose less of a tensor than another one does."""

import math
from dataclasses import replace
from typing import Final

from mvcs.objects import STEPS_PER_OCTAVE, RootLattice
from mvcs.quantize import LatticeCoding, RootCoding, lattice_step

REFINEMENTS: Final = 6  # octaves that a step may become finer by, before a tensor is kept exactly
_COARSEST_ROOT = 0.5  # of the root of the second moment, for a first one that was kept as its sign


def finer_lattice(
    coding: LatticeCoding, excess: float, coarsest: int, before: int | None = None
) -> LatticeCoding | None:
    """Return a coding with a finer step, or without hysteresis; None where there is none.

    Args:
        coding: what loses too much.
        excess: how far off its values are, over what they may be; of 1 and less only their moves are lost,
            which hysteresis alone may do.
        coarsest: the step byte that was asked for.
        before: the one that the parent was refined to, which comes first; None where it was not.
    """
    coding = replace(coding, keeps=False)
    if excess <= 1 and coding.hysteresis:
        return replace(coding, hysteresis=0.0)
    step = coding.step - (_quarters(excess) if excess > 1 else STEPS_PER_OCTAVE)
    if before is not None and excess > 1 and before < coding.step:
        step = before
    return replace(coding, step=step) if step >= max(coarsest - STEPS_PER_OCTAVE * REFINEMENTS, 0) else None


def finer_root(coding: RootCoding, excess: float, asked: RootCoding) -> RootCoding | None:
    """Return a coding of a first moment with steps instead of signs, or with finer steps; None for none."""
    coarsest = lattice_step(1.0, _COARSEST_ROOT) if asked.signs else asked.parameters.step
    step = coarsest if coding.signs else coding.parameters.step - STEPS_PER_OCTAVE * _octaves(excess)
    if step < max(coarsest - STEPS_PER_OCTAVE * REFINEMENTS, 0):
        return None
    return replace(coding, parameters=RootLattice(step, coding.parameters.root), signs=False)


def _quarters(excess: float) -> int:
    """Return how many step bytes finer a step has to be at least, if errors are as large as it."""
    return (
        max(math.ceil(STEPS_PER_OCTAVE * math.log2(excess)), 1)
        if excess < math.inf
        else STEPS_PER_OCTAVE * REFINEMENTS
    )


def _octaves(excess: float) -> int:
    """Return how many octaves finer a step has to be at least, if errors are as large as it."""
    return max(math.ceil(math.log2(excess)), 1) if excess < math.inf else REFINEMENTS
