"""What can be chosen at one commit, what a choice means, and what evaluating it showed."""

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mvcs.search.early_verdict import Verdict


@dataclass(frozen=True)
class StepCost:
    """What a step means for the weights of a layer type.

    Attributes:
        stored: bytes.
        error: squared error of the restored values, weighted by what it means for quality.
    """

    stored: float
    error: float


@dataclass(frozen=True)
class LatticeChoice:
    """A step byte for every layer type, and the hysteresis they share."""

    steps: Mapping[str, int]
    hysteresis: float


class Space(Protocol):
    """What can be chosen at one commit."""

    @property
    def starts(self) -> Mapping[str, int]:
        """The step byte to begin with, for every layer type: the parent's, where there is one."""
        ...

    @property
    def settled(self) -> Container[str]:
        """The layer types most of whose codes stay what they are as long as their step does."""
        ...

    @property
    def coarsest(self) -> Mapping[str, int]:
        """The largest step byte that makes sense, for every layer type."""
        ...

    @property
    def held(self) -> frozenset[str]:
        """The layer types whose steps stay what they begin with; others are chosen beside their errors."""
        ...

    @property
    def hystereses(self) -> Sequence[float]:
        """Those of the settings that differ: without codes of a parent there is nothing to keep."""
        ...

    def cost(self, kind: str, step: int, hysteresis: float) -> StepCost:
        """Return what a step means for a layer type; asked for again and again."""
        ...


class Judge(Protocol):
    """Evaluates a point."""

    def __call__(self, point: LatticeChoice, *, whole: bool = False) -> Verdict:
        """Return what an evaluation finds, as soon as that is clear.

        Args:
            point: what to evaluate.
            whole: accept it by the whole sample alone. Asked of what was accepted early.
        """
        ...


@dataclass(frozen=True)
class Tested:
    """A point that was evaluated.

    Attributes:
        point: what it was.
        stored: its bytes.
        error: that of all its layer types.
        verdict: what the evaluation found.
        missed: it was far beyond what is trusted, and refused, which says nothing of what is near.
    """

    point: LatticeChoice
    stored: float
    error: float
    verdict: Verdict
    missed: bool = False


@dataclass(frozen=True)
class Attempt:
    """What is searched for the steps of a commit.

    Attributes:
        space: what can be chosen.
        judge: evaluates a point.
        epsilon: the degradation accepted.
        thorough: spend all evaluations if need be, as for a first commit: it is as large as many others.
        most: evaluations of candidates until one keeps the bound; as many as at any commit by default.
    """

    space: Space
    judge: Judge
    epsilon: float
    thorough: bool = False
    most: int | None = None


@dataclass(frozen=True)
class LatticeOutcome:
    """What a search found.

    Attributes:
        chosen: the point with the fewest bytes that keeps the bound; None where none was found.
        tested: every point that was evaluated, in order.
    """

    chosen: Tested | None
    tested: Sequence[Tested]


def stored_of(space: Space, point: LatticeChoice) -> float:
    """Return the bytes of a point."""
    return sum(space.cost(kind, step, point.hysteresis).stored for kind, step in point.steps.items())


def error_of(space: Space, point: LatticeChoice) -> float:
    """Return the error of a point."""
    return math.fsum(space.cost(kind, step, point.hysteresis).error for kind, step in point.steps.items())


def held_error(space: Space, hysteresis: float) -> float:
    """Return the error of the layer types whose steps stay, which is in that of every point."""
    return math.fsum(space.cost(kind, space.starts[kind], hysteresis).error for kind in space.held)
