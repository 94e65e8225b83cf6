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

from mvcs.search.paired import ERRORS, Verdict

HYSTERESES: Final = (0.25, 0.0)
_FINER, _COARSER = 16, 8  # step bytes that are looked at, from the parent's: factors of 16 and 4
_PATIENCE = 3  # steps in a row that are no cheaper: keeping the step is a small minimum of its own
_WORTH = 0.99  # of the bytes: a further point has to take less
_DOUBT = 0.05  # of the bound, as which any smaller degradation counts
_PRICES = 24
_FINER_THAN_REFUSED = 0.7  # of the error of a point that was refused


@dataclass
class Belief:
    """What degradation a unit of weighted error brings: the mean of its logarithm, and how sure that is.

    It begins with what two runs showed halfway: half, within a factor of four or so.
    """

    mean: float = math.log(0.5)
    deviation: float = 1.0

    def age(self, best: float) -> None:
        """Know less than at the last commit; what was worse than the best known may be no more."""
        self.mean += _FORGOTTEN * (best - self.mean)
        self.deviation = math.hypot(self.deviation, _DRIFT)

    def learn(self, seen: float, noise: float) -> None:
        """Take in a degradation for a unit of error, and the deviation of its logarithm."""
        gap = math.log(seen) - self.mean
        # A surprise says that what was known was worth less.
        known = max(self.deviation, abs(gap) / 2)
        gain = known**2 / (known**2 + noise**2 + _LEAST_NOISE**2)
        self.mean += gain * gap
        self.deviation = known * math.sqrt(1 - gain)

    def predict(self, error: float, caution: float) -> float:
        """Return the degradation of an error, so many deviations up."""
        return error * math.exp(self.mean + caution * self.deviation)


_DRIFT, _LEAST_NOISE = 0.1, 0.03
_FORGOTTEN = 0.2  # of the gap to the best, from commit to commit
_CAUTION, _BOLDNESS = 1.0, 0.5  # deviations that a first and a further prediction keep away from the bound


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
        beliefs: how quality follows from error, by hysteresis.
    """

    most: int = 6
    beliefs: dict[float, Belief] = field(default_factory=lambda: {each: Belief() for each in HYSTERESES})

    def run(
        self,
        space: Space,
        judge: Callable[[Point], Verdict],
        epsilon: float,
        is_spent: Callable[[], bool] = lambda: False,
    ) -> Outcome:
        """Search the steps of one commit.

        Args:
            space: what can be chosen.
            judge: evaluates a point.
            epsilon: the degradation accepted.
            is_spent: tells that no further point may be begun.
        """
        best_known = min(belief.mean for belief in self.beliefs.values())
        for belief in self.beliefs.values():
            belief.age(best_known)
        tested: list[Tested] = []
        best: Tested | None = None
        while len(tested) < self.most and not is_spent():
            caution = _CAUTION if best is None else _BOLDNESS
            point = self._proposal(space, epsilon, caution, tested)
            if point is None or (best is not None and _stored(space, point) >= _WORTH * best.stored):
                break
            found = self._test(space, point, judge, epsilon)
            tested.append(found)
            if found.verdict.accepted:
                best = found
            elif best is not None:
                break
        return Outcome(best, tested)

    def _test(self, space: Space, point: Point, judge: Callable[[Point], Verdict], epsilon: float) -> Tested:
        verdict = judge(point)
        error = _error(space, point)
        if error > 0:
            self._learn(point, error, verdict, epsilon)
        return Tested(point, _stored(space, point), error, verdict)

    def _learn(self, point: Point, error: float, verdict: Verdict, epsilon: float) -> None:
        belief, doubt = self.beliefs[point.hysteresis], verdict.standard_error or 0.0
        if not math.isfinite(verdict.degradation):
            belief.learn(10 * epsilon / error, 1.0)
            return
        # What has to keep the bound is the mean and two standard errors, those of the whole sample.
        upper = verdict.degradation + ERRORS * doubt * math.sqrt(verdict.share)
        seen = max(upper, _DOUBT * epsilon)
        belief.learn(seen / error, doubt / seen)

    def _proposal(
        self, space: Space, epsilon: float, caution: float, tested: Sequence[Tested]
    ) -> Point | None:
        """Return the point of fewest bytes that is predicted to keep the bound, and was not tested."""
        found = []
        for hysteresis, belief in self.beliefs.items():
            alike = [each for each in tested if each.point.hysteresis == hysteresis]
            refused = [_FINER_THAN_REFUSED * each.error for each in alike if not each.verdict.accepted]
            point = _priced(space, hysteresis, min([epsilon / belief.predict(1.0, caution), *refused]))
            if point is not None and all(point != each.point for each in alike):
                found.append(point)
        return min(found, key=lambda point: _stored(space, point), default=None)


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
            if step + more < 256
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
    for way, reach in ((-1, _FINER), (1, _COARSER)):
        missed = 0
        for step in range(start + way, start + way * (reach + 1), way):
            if missed == _PATIENCE or not 0 <= step < 256:
                break
            better = total(step) < total(best)
            best, missed = (step, 0) if better else (best, missed + 1)
    return best


def _stored(space: Space, point: Point) -> float:
    return sum(space.cost(kind, step, point.hysteresis).stored for kind, step in point.steps.items())


def _error(space: Space, point: Point) -> float:
    return math.fsum(space.cost(kind, step, point.hysteresis).error for kind, step in point.steps.items())
