"""Codings that lose less of a tensor than another one does, tried until one loses little enough."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from mvcs.objects import RootLattice
from mvcs.quantize import Coding, LatticeCoding, RootCoding, lattice_step

OCTAVE: Final = 4  # step bytes
REFINEMENTS: Final = 6  # octaves that a step may become finer by, before a tensor is kept exactly
_COARSEST_ROOT = 0.5  # of the root of the second moment, for a first one that was kept as its sign

T = TypeVar("T")


@dataclass(frozen=True)
class Refined(Generic[T]):
    """What came of trying finer and finer codings.

    Attributes:
        made: what the first one made that is fine enough; None where the tensor is to be kept exactly.
        too_far: whether one that was tried was off by more than it may be.
        exhausted: whether no coding is finer than the last that was tried.
    """

    made: T | None
    too_far: bool
    exhausted: bool = False


@dataclass(frozen=True)
class Refining(Generic[T]):
    """How one tensor is coded until it is fine enough, by a commit and by what tries one out.

    Attributes:
        attempt: makes something with a coding; None where codes are not worth it at all.
        excess: how far off that is, over what it may be.
        keeps: whether progress since a lossy restore survives it.
        finer: the next coding after one with that excess; None where there is none.
    """

    attempt: Callable[[Coding], T | None]
    excess: Callable[[T], float]
    keeps: Callable[[T], bool]
    finer: Callable[[Coding, float], Coding | None]

    def of(self, asked: Coding) -> Refined[T]:
        """Try a coding, then finer ones."""
        coding: Coding | None = asked
        too_far = False
        while coding is not None:
            made = self.attempt(coding)
            if made is None:
                return Refined(None, too_far)
            excess = self.excess(made)
            if excess <= 1 and self.keeps(made):
                return Refined(made, too_far)
            too_far |= excess > 1
            coding = self.finer(coding, excess)
        return Refined(None, too_far, exhausted=True)


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
    if excess <= 1 and coding.hysteresis:
        return replace(coding, hysteresis=0.0)
    step = coding.step - (_quarters(excess) if excess > 1 else OCTAVE)
    if before is not None and excess > 1 and before < coding.step:
        step = before
    return replace(coding, step=step) if step >= max(coarsest - OCTAVE * REFINEMENTS, 0) else None


def finer_root(coding: RootCoding, excess: float, asked: RootCoding) -> RootCoding | None:
    """Return a coding of a first moment with steps instead of signs, or with finer steps; None for none."""
    coarsest = lattice_step(1.0, _COARSEST_ROOT) if asked.signs else asked.parameters.step
    step = coarsest if coding.signs else coding.parameters.step - OCTAVE * _octaves(excess)
    if step < max(coarsest - OCTAVE * REFINEMENTS, 0):
        return None
    return replace(coding, parameters=RootLattice(step, coding.parameters.root), signs=False)


def _quarters(excess: float) -> int:
    """Return how many step bytes finer a step has to be at least, if errors are as large as it."""
    return max(math.ceil(OCTAVE * math.log2(excess)), 1) if excess < math.inf else OCTAVE * REFINEMENTS


def _octaves(excess: float) -> int:
    """Return how many octaves finer a step has to be at least, if errors are as large as it."""
    return max(math.ceil(math.log2(excess)), 1) if excess < math.inf else REFINEMENTS
