"""The search for lattice steps: as few bytes as the bound allows, in as few evaluations as possible.

What a step costs in bytes is worked out exactly, without an evaluation, for every layer type. What it costs
in quality is predicted: degradation grows with the squared errors of the restored weights, weighted by layer
type, times a factor that is learnt from every evaluation. The steps that are tried next minimize bytes for a
predicted degradation, by one price of error for all layer types (Shoham and Gersho, IEEE Transactions on
Acoustics, Speech, and Signal Processing 36, 1988).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from mvcs.search.belief import Belief
from mvcs.search.paired import ERRORS, Verdict

HYSTERESES: Final = (0.25, 0.0)
_FINER, _COARSER = 32, 8  # step bytes that are looked at, from the parent's: factors of 256 and 4
_PATIENCE = 3  # steps in a row that are no cheaper: keeping the step is a small minimum of its own
_WORTH = 0.02  # of the bytes, which a further evaluation has to save
_DOUBT = 0.2  # of the bound, as which any smaller degradation counts
_PRICES = 24
_KNEE, _STEEPNESS = 0.01, 1.5  # beyond this, and beyond the bound, it grows like this power of the error
_WORST = 1e4  # times that; what is not finite counts as it
_TINY = 1e-12  # a degradation of nothing has no logarithm
_FARTHER = 2.0  # of an error that was accepted
_RETREAT = (0.95, 0.75, 0.5, 0.3, 0.02)  # of an error that was refused, the first time, the second, ...
_CAUTION, _BOLDNESS = 1.0, 0.5  # deviations that a first and a further prediction keep away from the bound
_ENOUGH = 3  # points at a commit, if one of them was accepted and one refused


@dataclass(frozen=True)
class Cost:
    """What a step means for the weights of a layer type.

    Attributes:
        stored: bytes.
        error: squared error of the restored values, weighted by what it means for quality.
    """

    stored: float
    error: float


@dataclass(frozen=True)
class Point:
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
    def coarsest(self) -> Mapping[str, int]:
        """The largest step byte that makes sense, for every layer type."""
        ...

    @property
    def hystereses(self) -> Sequence[float]:
        """Those of `HYSTERESES` that differ: without codes of a parent there is nothing to keep."""
        ...

    def cost(self, kind: str, step: int, hysteresis: float) -> Cost:
        """Return what a step means for a layer type; asked for again and again."""
        ...


@dataclass(frozen=True)
class Tested:
    """A point that was evaluated."""

    point: Point
    stored: float
    error: float
    verdict: Verdict


@dataclass(frozen=True)
class Outcome:
    """What a search found.

    Attributes:
        chosen: the point with the fewest bytes that keeps the bound; None where none was found.
        tested: every point that was evaluated, in order.
    """

    chosen: Tested | None
    tested: Sequence[Tested]


@dataclass
class LatticeSearch:
    """Chooses lattice steps commit by commit, and learns from every evaluation of a run.

    Attributes:
        most: evaluations of candidates at one commit, at most.
        mean: evaluations a commit, the baseline included, beyond which none is spent on saving bytes. The
            average is over the run, so what a hard commit takes is saved at others.
        sizes: bytes of the commits so far.
        beliefs: how quality follows from error, by hysteresis.
    """

    most: int = 6
    mean: float = 3.0
    sizes: list[float] = field(default_factory=list)
    _spent: float = 0.0
    _commits: int = 0
    beliefs: dict[float, Belief] = field(default_factory=lambda: {each: Belief() for each in HYSTERESES})

    def run(
        self,
        space: Space,
        judge: Callable[[Point], Verdict],
        epsilon: float,
        is_spent: Callable[[], bool] = lambda: False,
        *,
        thorough: bool = False,
    ) -> Outcome:
        """Search the steps of one commit.

        Args:
            space: what can be chosen.
            judge: evaluates a point.
            epsilon: the degradation accepted.
            is_spent: tells that no further point may be begun.
            thorough: spend all evaluations if need be, as for a first commit: it is as large as many others.
        """
        best_known = min(belief.mean for belief in self.beliefs.values())
        for belief in self.beliefs.values():
            belief.age(best_known)
        tested: list[Tested] = []
        best: Tested | None = None
        self._commits += 1
        self._spent += 1.0  # the baseline
        while len(tested) < self.most and not is_spent():
            caution = _CAUTION if best is None else _BOLDNESS
            point = self._proposal(space, epsilon, caution, tested)
            if point is None or (best is not None and not self._pays(best, _stored(space, point), thorough)):
                break
            found = self._test(space, point, judge, epsilon, tested)
            self._spent += found.verdict.share
            tested.append(found)
            if found.verdict.accepted:
                best = found
            elif best is not None and len(tested) >= _ENOUGH and not thorough:
                break
        if best is not None:
            self.sizes.append(best.stored)
        return Outcome(best, tested)

    def _pays(self, best: Tested, stored: float, thorough: bool) -> bool:  # noqa: FBT001 - as it was asked for
        """Tell whether a further evaluation saves enough, of this commit and of a typical one of the run."""
        if self._spent >= self.mean * self._commits and not thorough:
            return False
        typical = math.fsum(self.sizes) / len(self.sizes) if self.sizes else 0.0
        return best.stored - stored > _WORTH * max(best.stored, typical)

    def _test(
        self,
        space: Space,
        point: Point,
        judge: Callable[[Point], Verdict],
        epsilon: float,
        before: Sequence[Tested],
    ) -> Tested:
        found = Tested(point, _stored(space, point), _error(space, point), judge(point))
        if found.error > 0:
            belief, seen = self.beliefs[point.hysteresis], max(_seen(found, epsilon, before), _TINY)
            doubt = found.verdict.standard_error or 0.0
            belief.learn(seen / found.error, min(doubt / seen, 1.0))
            belief.trusted = _trusted(found, before, belief.trusted)
        return found

    def _proposal(
        self, space: Space, epsilon: float, caution: float, tested: Sequence[Tested]
    ) -> Point | None:
        """Return the point of fewest bytes that is predicted to keep the bound, and was not tested."""
        found = []
        for hysteresis in space.hystereses:
            belief = self.beliefs[hysteresis]
            if _is_stuck(hysteresis, tested) and len(space.hystereses) > 1:
                continue
            point = _priced(space, hysteresis, belief.most(epsilon, caution))
            if point is not None and all(point != each.point for each in tested):
                found.append(point)
        return min(found, key=lambda point: _stored(space, point), default=None)


def _is_stuck(hysteresis: float, tested: Sequence[Tested]) -> bool:
    """Tell whether a hysteresis was refused twice, finer the second time, and another one not tried at all.

    What it loses may be the lag of codes that were kept, which finer steps do not mend.
    """
    own = [each.verdict.accepted for each in tested if each.point.hysteresis == hysteresis]
    return len(own) == len(tested) > 1 and not any(own)


def _seen(found: Tested, epsilon: float, before: Sequence[Tested]) -> float:
    """Return the degradation to learn from: what it would be if it grew like the error.

    It grows faster, and the more so beyond the bound. Where the error that just keeps the bound is known to
    lie between two points of one commit, it is taken to be their geometric mean.
    """
    verdict = found.verdict
    # What has to keep the bound is the mean and two standard errors, those of the whole sample.
    upper = verdict.degradation + ERRORS * (verdict.standard_error or 0.0) * math.sqrt(verdict.share)
    if verdict.accepted:
        return max(upper, _DOUBT * epsilon)
    kept = _largest_kept(found, before)
    if kept:
        return epsilon * math.sqrt(found.error / kept)
    knee = max(epsilon, _KNEE)
    beyond = min(max(upper / knee, 1.0), _WORST)
    return max(min(upper, knee) * math.pow(beyond, 1 / _STEEPNESS), epsilon)


def _trusted(found: Tested, before: Sequence[Tested], known: float) -> float:
    """Return the largest error that may be tried next with the same hysteresis.

    Between the largest that was accepted at this commit and the smallest that was refused it is their
    geometric mean. As long as all are refused it falls faster and faster: an exact commit is larger than any.
    """
    alike = [each for each in (*before, found) if each.point.hysteresis == found.point.hysteresis]
    refused = [each.error for each in alike if not each.verdict.accepted]
    kept = _largest_kept(found, before)
    if found.verdict.accepted:
        above = min((error for error in refused if error > found.error), default=math.inf)
        return min(_FARTHER * found.error, math.sqrt(found.error * above))
    if kept:
        return math.sqrt(kept * found.error)
    so_far = sum(not each.verdict.accepted for each in before)
    return min(known, _RETREAT[min(so_far, len(_RETREAT) - 1)] * found.error)


def _largest_kept(found: Tested, before: Sequence[Tested]) -> float:
    """Return the largest error accepted with the same hysteresis below that of a point; 0 for none."""
    alike = (each for each in before if each.point.hysteresis == found.point.hysteresis)
    return max(
        (each.error for each in alike if each.verdict.accepted and each.error < found.error), default=0.0
    )


def _priced(space: Space, hysteresis: float, most: float) -> Point | None:
    """Return the point of fewest bytes whose error is at most `most`; None where no price is high enough."""
    best = None
    low, high = -10.0, 50.0  # of the binary logarithm of the price of error, in bytes
    for _ in range(_PRICES):
        price = (low + high) / 2
        point = _cheapest(space, hysteresis, 2.0**price)
        if _error(space, point) <= most:
            best, high = point, price
        else:
            low = price
    return None if best is None else _filled(space, best, most)


def _cheapest(space: Space, hysteresis: float, price: float) -> Point:
    return Point({kind: _cheapest_step(space, kind, hysteresis, price) for kind in space.starts}, hysteresis)


def _filled(space: Space, point: Point, most: float) -> Point:
    """Use up what one price for all layer types left of the error allowed, a layer type at a time."""
    while True:
        others = [
            Point({**point.steps, kind: step + more}, point.hysteresis)
            for kind, step in point.steps.items()
            for more in (1, 2, 3)
            if step + more <= space.coarsest[kind]
        ]
        fit = [other for other in others if _error(space, other) <= most]
        best = min(fit, key=lambda other: _stored(space, other), default=point)
        if _stored(space, best) >= _stored(space, point):
            return point
        point = best


def _cheapest_step(space: Space, kind: str, hysteresis: float, price: float) -> int:
    """Go from the parent's step both ways, as far as it keeps getting cheaper."""

    def total(step: int) -> float:
        cost = space.cost(kind, step, hysteresis)
        return cost.stored + price * cost.error

    start = best = space.starts[kind]
    coarsest = min(start + _COARSER, space.coarsest[kind])
    for way, end in ((-1, max(start - _FINER, 0)), (1, coarsest)):
        missed = 0
        for step in range(start + way, end + way, way):
            if missed == _PATIENCE:
                break
            better = total(step) < total(best)
            best, missed = (step, 0) if better else (best, missed + 1)
    return best


def _stored(space: Space, point: Point) -> float:
    return sum(space.cost(kind, step, point.hysteresis).stored for kind, step in point.steps.items())


def _error(space: Space, point: Point) -> float:
    return math.fsum(space.cost(kind, step, point.hysteresis).error for kind, step in point.steps.items())
