"""The search for lattice steps: as few bytes as the bound allows, in as few evaluations as possible.

What a step costs in bytes is worked out exactly, without an evaluation, for every layer type. What it costs
in quality is predicted: degradation grows with the squared errors of the restored weights, weighted by layer
type, times a factor that is learnt from every evaluation. At bounds below 1 % another part outweighs that
one, of either sign and the same for all data, which grows like the root of the error: there every point is a
draw, and the search takes more of them, nearer to each other.
"""

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

from mvcs.objects import STEPS_PER_OCTAVE
from mvcs.search.early_verdict import Verdict
from mvcs.search.settings import SEARCH_DEFAULTS, SearchSettings

_FILLS = 3  # steps up, of those that a layer type may have, which are tried to use up an error


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


@dataclass
class DegradationModel:
    """What degradation a unit of weighted error brings: the mean of its logarithm, and how sure that is.

    It begins with what two runs showed halfway: half, give or take a factor of 2.7. Quality does not follow
    error that simply. Codes kept by hysteresis average over steps, which may even be better than the
    original, and a little coarser is far worse. So an error is tried at most twice as large as one accepted.

    Attributes:
        settings: what it goes by.
        mean: of the logarithm.
        deviation: of the logarithm.
        trusted: no error above this one is proposed.
        reached: the largest error that was accepted, slowly forgotten.
        ceiling: no error above this one is proposed either, since such ones were followed by a fall.
        last: the error of the last commit; 0 where it has another hysteresis, or is exact.
    """

    settings: SearchSettings = SEARCH_DEFAULTS
    mean: float = field(init=False)
    deviation: float = field(init=False)
    trusted: float = math.inf
    reached: float = 0.0
    ceiling: float = math.inf
    last: float = 0.0

    def __post_init__(self) -> None:
        """Begin with what is known of other runs."""
        self.mean, self.deviation = math.log(self.settings.first_mean), self.settings.first_deviation

    def age(self, best: float, farthest: float) -> None:
        """Know less than at the last commit; what was worse than the best known may be no more.

        Args:
            best: the smallest mean of all hystereses.
            farthest: the largest error that one of them trusts.
        """
        self.mean += self.settings.forgotten * (best - self.mean)
        self.deviation = math.hypot(self.deviation, self.settings.drift)
        self.reached *= self.settings.remembered
        if self.trusted < math.inf:
            behind = farthest / self.trusted if self.trusted > 0 and farthest < math.inf else 1.0
            self.trusted *= max(behind**self.settings.regained, self.settings.widening)

    def learn(self, seen: float, noise: float) -> None:
        """Take in a degradation for a unit of error, and the deviation of its logarithm."""
        gap = math.log(seen) - self.mean
        # A surprise says that what was known was worth less.
        known = max(self.deviation, abs(gap) / 2)
        gain = known**2 / (known**2 + noise**2 + self.settings.least_noise**2)
        self.mean += gain * gap
        self.deviation = known * math.sqrt(1 - gain)

    @property
    def limit(self) -> float:
        """The largest error to propose."""
        return min(self.trusted, self.ceiling)

    @property
    def far(self) -> float:
        """An error as large as was accepted before, where far less is trusted now; else 0."""
        far = min(self.reached, self.ceiling)
        return far if far > self.settings.fallen * self.trusted else 0.0

    def end(self, *, tried: bool, kept: float) -> None:
        """Take in how a commit ended.

        Codes that are kept pass errors on. Those of a commit may be as large as the bound allows, and leave
        the next one no choice but steps so fine that they cost ten times the bytes. So errors that were
        followed by that are kept away from for a while.

        Args:
            tried: errors of this hysteresis were evaluated.
            kept: the error that was committed; 0 where it is of another hysteresis.
        """
        self.ceiling *= self.settings.rising
        if tried and kept * self.settings.cliff < self.last:
            self.ceiling = self.settings.before_it * self.last
        self.last = kept

    def most(self, epsilon: float, caution: float) -> float:
        """Return the largest error that is predicted to keep the bound."""
        return min(epsilon / self.predict(1.0, caution), self.limit)

    def predict(self, error: float, caution: float) -> float:
        """Return the degradation of an error, so many deviations up."""
        return error * math.exp(self.mean + caution * self.deviation)


@dataclass
class LatticeSearch:
    """Chooses lattice steps commit by commit, and learns from every evaluation of a run.

    Attributes:
        most: evaluations of candidates at one commit, at most.
        mean: evaluations a commit, the baseline included, beyond which none is spent on saving bytes. The
            average is over the run, so what a hard commit takes is saved at others. To confirm what is taken
            does not count.
        kept: how many commits were bounded so far.
        stored: their bytes.
        settings: what it goes by.
        models: what was learnt of how quality follows from error, by hysteresis.
    """

    most: int = SEARCH_DEFAULTS.evaluations
    mean: float = SEARCH_DEFAULTS.mean
    kept: int = 0
    stored: float = 0.0
    _spent: float = 0.0
    _commits: int = 0
    _settled: Mapping[float, Container[str]] = field(default_factory=dict)
    settings: SearchSettings = SEARCH_DEFAULTS
    models: dict[float, DegradationModel] = field(init=False)

    def __post_init__(self) -> None:
        """Know what every run begins with."""
        self.models = {each: DegradationModel(self.settings) for each in self.settings.hystereses}

    def run(
        self, attempts: Iterable[Attempt], is_spent: Callable[[], bool] = lambda: False
    ) -> LatticeOutcome:
        """Search the steps of one commit.

        Args:
            attempts: what is searched, in turn, until something keeps the bound.
            is_spent: tells that no further point may be begun.
        """
        self._age()
        self._commits += 1
        self._spent += 1.0  # the baseline
        best, tested = None, list[Tested]()
        for attempt in attempts:
            best, found = self._tried(attempt, is_spent)
            tested += found
            if best is not None:
                break
        self._end(best, tested)
        return LatticeOutcome(best, tested)

    def _tried(self, attempt: Attempt, is_spent: Callable[[], bool]) -> tuple[Tested | None, list[Tested]]:
        """Return the point to take, which the whole sample confirmed, and all that were evaluated."""
        space, tested = attempt.space, list[Tested]()
        self._settled = {each: self._settled_in(space, each, attempt.epsilon) for each in space.hystereses}
        while True:
            best = self._confirmed(self._explored(attempt, is_spent, tested), attempt, tested)
            if best is None or best.verdict.accepted:
                return best, tested

    def _explored(
        self, attempt: Attempt, is_spent: Callable[[], bool], tested: list[Tested]
    ) -> Tested | None:
        """Evaluate points as long as that pays, and return the accepted one of fewest bytes."""
        accepted = (each for each in tested if each.verdict.accepted)
        best = min(accepted, key=lambda each: each.stored, default=None)
        space, epsilon = attempt.space, attempt.epsilon
        first = self.most if attempt.most is None else attempt.most
        while len(tested) < (self.most if best else first) and not is_spent():
            point = self._proposal(space, epsilon, tested)
            if point is None or (best and not self._pays(best, stored_of(space, point), attempt.thorough)):
                break
            found = self._test(space, point, attempt.judge, epsilon, _near(tested))
            self._spent += found.verdict.share
            tested.append(found)
            is_enough = len(tested) >= self.settings.enough and not attempt.thorough
            if found.verdict.accepted:
                best = found
            elif best and is_enough and best.stored <= self._typical:
                break
        return best

    def _confirmed(self, best: Tested | None, attempt: Attempt, tested: list[Tested]) -> Tested | None:
        """Ask the whole sample about what a commit is to take; that stands in place of an early verdict.

        What it refuses teaches as much as any other point that was refused.
        """
        if best is None or not best.verdict.is_early:
            return best
        place = tested.index(best)
        found = replace(best, verdict=attempt.judge(best.point, whole=True))
        if not found.verdict.accepted:
            self._learn(found, attempt.epsilon, _near([*tested[:place], *tested[place + 1 :]]))
        tested[place] = found
        return found

    def _end(self, best: Tested | None, tested: Sequence[Tested]) -> None:
        if best is not None:
            self.kept += 1
            self.stored += best.stored
        for hysteresis, model in self.models.items():
            tried = any(each.point.hysteresis == hysteresis for each in _near(tested))
            model.end(tried=tried, kept=best.error if best and best.point.hysteresis == hysteresis else 0.0)

    def _age(self) -> None:
        models = self.models.values()
        best, farthest = min(model.mean for model in models), max(model.trusted for model in models)
        for model in models:
            model.age(best, farthest)

    @property
    def _typical(self) -> float:
        return self.stored / self.kept if self.kept else 0.0

    def _pays(self, best: Tested, stored: float, thorough: bool) -> bool:  # noqa: FBT001 - as it was asked for
        """Tell whether a further evaluation saves enough, of this commit and of a typical one of the run."""
        if self._spent >= self.mean * self._commits and not thorough:
            return False
        return best.stored - stored > self.settings.worth * max(best.stored, self._typical)

    def _test(
        self,
        space: Space,
        point: LatticeChoice,
        judge: Judge,
        epsilon: float,
        before: Sequence[Tested],
    ) -> Tested:
        model, error = self.models[point.hysteresis], error_of(space, point)
        found = Tested(point, stored_of(space, point), error, judge(point))
        if error > self.settings.farther * model.trusted and not found.verdict.accepted:
            model.reached *= self.settings.missed
            return replace(found, missed=True)
        self._learn(found, epsilon, before)
        return found

    def _learn(self, found: Tested, epsilon: float, before: Sequence[Tested]) -> None:
        """Take in what a point lost, beside those that were tested before it."""
        model, error = self.models[found.point.hysteresis], found.error
        if found.verdict.accepted:
            model.reached = max(model.reached, error)
        if error > 0:
            seen = max(_seen(found, epsilon, before, self.settings), self.settings.tiny)
            doubt = found.verdict.standard_error or 0.0
            model.learn(seen / error, min(doubt / seen, 1.0))
            model.trusted = _trusted(found, before, model.trusted, self.settings)

    def _proposal(self, space: Space, epsilon: float, tested: Sequence[Tested]) -> LatticeChoice | None:
        """Return the point to evaluate next; at first that may be a leap."""
        point = self._nearby(space, epsilon, tested)
        if tested or point is None or self.most < self.settings.enough:
            return point
        return self._leap(space, point) or point

    def _leap(self, space: Space, point: LatticeChoice) -> LatticeChoice | None:
        """Return a point as far as errors once went, where next to nothing is left of that.

        Codes that are kept average over commits. Steps so fine that none are need not be followed by others,
        far coarser ones may do again at the next commit, while those between the two do not.
        """
        found = []
        for hysteresis in space.hystereses:
            model = self.models[hysteresis]
            leap = self._cheapest(space, hysteresis, model.far) if model.far else None
            if leap and stored_of(space, leap) < self.settings.lighter * stored_of(space, point):
                found.append(leap)
        return min(found, key=lambda each: stored_of(space, each), default=None)

    def _nearby(self, space: Space, epsilon: float, tested: Sequence[Tested]) -> LatticeChoice | None:
        """Return the point of fewest bytes that may keep the bound, and was not tested."""
        near = _near(tested)
        found = []
        for hysteresis in space.hystereses:
            allowed = self._allowed(hysteresis, epsilon, near, self.most - len(near))
            point = self._cheapest(space, hysteresis, allowed)
            point = self._as_before(space, hysteresis, epsilon, tested, point) or point
            if point is not None and all(point != each.point for each in tested):
                found.append(point)

        def told(point: LatticeChoice) -> float:
            stuck = self.settings.stuck if _is_stuck(point.hysteresis, near) else 1.0
            return stored_of(space, point) * stuck

        return min(found, key=told, default=None)

    def _as_before(
        self,
        space: Space,
        hysteresis: float,
        epsilon: float,
        tested: Sequence[Tested],
        point: LatticeChoice | None,
    ) -> LatticeChoice | None:
        """Return the parent's own steps, where they come before a point; None elsewhere.

        They come after coarser ones that were refused, and before finer ones. To find out takes an
        evaluation, while finer steps take a bit a weight for each octave. That is so with any hysteresis,
        where most codes stay, or where they take at most half the bytes.
        """
        before = LatticeChoice(dict(space.starts), hysteresis)
        stays = [kind in self._kept_in(space, hysteresis, epsilon) for kind in space.starts]
        if not any(stays) or any(each.verdict.accepted or each.point == before for each in tested):
            return None
        if point is None or (tested and all(stays)):
            return before
        share = 1.0 if all(stays) else self.settings.lighter
        return before if stored_of(space, before) <= share * stored_of(space, point) else None

    def _settled_in(self, space: Space, hysteresis: float, epsilon: float) -> Container[str]:
        """Return the layer types most of whose codes stay and are averages over commits."""
        return self._kept_in(space, hysteresis, epsilon) if hysteresis >= self.settings.averaging else ()

    def _kept_in(self, space: Space, hysteresis: float, epsilon: float) -> Container[str]:
        """Return the layer types most of whose codes stay.

        There are none where such codes are known not to do any more. That is so after an untrained model,
        which minds no step.
        """
        point = LatticeChoice(dict(space.starts), hysteresis)
        predicted = self.models[hysteresis].predict(error_of(space, point), 0.0)
        return space.settled if predicted <= self.settings.hopeless * epsilon else ()

    def _cheapest(self, space: Space, hysteresis: float, most: float) -> LatticeChoice | None:
        """Return the point of fewest bytes whose error is at most `most`."""
        return cheapest(space, hysteresis, most, self.settings, settled=self._settled[hysteresis])

    def _allowed(self, hysteresis: float, epsilon: float, tested: Sequence[Tested], left: int) -> float:
        """Return the largest error to try next with a hysteresis."""
        model = self.models[hysteresis]
        alike = [each for each in tested if each.point.hysteresis == hysteresis]
        is_drawn = epsilon < self.settings.knee
        if any(each.verdict.accepted for each in tested):
            if is_drawn and any(each.verdict.accepted for each in alike):
                return model.limit
            return model.most(epsilon, self.settings.boldness)
        most = model.most(epsilon, self.settings.caution)
        if tested and left <= len(self.settings.sure):
            finest = min(alike or tested, key=lambda each: each.error)
            return min(most, _sure(finest, self.settings.sure[-left] * epsilon, self.settings))
        if is_drawn and alike and self._spent < self.mean * self._commits + 1:
            return max(most, self.settings.drawn * min(each.error for each in alike))
        return most


def _near(tested: Sequence[Tested]) -> list[Tested]:
    return [each for each in tested if not each.missed]


def _sure(found: Tested, degradation: float, settings: SearchSettings) -> float:
    """Return the error that has a degradation if that grows like its root, the slowest it can fall."""
    upper = abs(found.verdict.degradation) + settings.errors * (found.verdict.standard_error or 0.0)
    return found.error * min(degradation / upper, 1.0) ** 2 if upper else found.error


def _is_stuck(hysteresis: float, tested: Sequence[Tested]) -> bool:
    """Tell whether a hysteresis was refused twice, finer the second time, and another one not tried at all.

    What it loses may be that of codes that were kept, which finer steps do not mend.
    """
    own = [each.verdict.accepted for each in tested if each.point.hysteresis == hysteresis]
    return len(own) == len(tested) > 1 and not any(own)


def _seen(found: Tested, epsilon: float, before: Sequence[Tested], settings: SearchSettings) -> float:
    """Return the degradation to learn from: what it would be if it grew like the error.

    It grows faster, and the more so beyond the bound. Where the error that just keeps the bound is known to
    lie between two points of one commit, it is taken to be their geometric mean.
    """
    verdict = found.verdict
    # What has to keep the bound is the mean and two standard errors, those of the whole sample.
    upper = verdict.upper(settings.errors)
    noise = upper - verdict.degradation if epsilon and math.isfinite(upper) else 0.0
    if not (verdict.accepted and noise > settings.noisy * epsilon):
        # The square of noise grows like the error as well, so it asks for finer steps in the same unit.
        upper = max(upper, noise * noise / (settings.aimed**2 * epsilon)) if noise else upper
    if verdict.accepted:
        return max(upper, settings.doubt * epsilon)
    kept = _largest_kept(found, before)
    if kept:
        return epsilon * math.sqrt(found.error / kept)
    knee = max(epsilon, settings.knee)
    beyond = min(max(upper / knee, 1.0), settings.worst)
    return max(min(upper, knee) * math.pow(beyond, 1 / settings.steepness), epsilon)


def _trusted(found: Tested, before: Sequence[Tested], known: float, settings: SearchSettings) -> float:
    """Return the largest error that may be tried next with the same hysteresis.

    Between the largest that was accepted at this commit and the smallest that was refused it is their
    geometric mean. As long as all are refused it falls faster and faster.
    """
    alike = [each for each in (*before, found) if each.point.hysteresis == found.point.hysteresis]
    refused = [each.error for each in alike if not each.verdict.accepted]
    kept = _largest_kept(found, before)
    if found.verdict.accepted:
        above = min((error for error in refused if error > found.error), default=math.inf)
        farther = settings.farther * found.error
        # What earlier commits taught goes on widening while steps stay: an octave is four times the error.
        return min(farther if known == math.inf else max(known, farther), math.sqrt(found.error * above))
    if kept:
        return math.sqrt(kept * found.error)
    so_far = sum(not each.verdict.accepted for each in before)
    return min(known, settings.retreat[min(so_far, len(settings.retreat) - 1)] * found.error)


def _largest_kept(found: Tested, before: Sequence[Tested]) -> float:
    """Return the largest error accepted with the same hysteresis below that of a point; 0 for none."""
    alike = (each for each in before if each.point.hysteresis == found.point.hysteresis)
    return max(
        (each.error for each in alike if each.verdict.accepted and each.error < found.error), default=0.0
    )


def cheapest(
    space: Space,
    hysteresis: float,
    most: float,
    settings: SearchSettings = SEARCH_DEFAULTS,
    *,
    settled: Container[str] = (),
) -> LatticeChoice | None:
    """Return the point of fewest bytes whose error is at most `most`; None where none was found.

    Where layer types are held, others get an eighth of it at least: what those lose cannot be mended.

    Args:
        space: what can be chosen.
        hysteresis: of all its codes.
        most: the largest error.
        settings: how far is looked.
        settled: layer types most of whose codes stay where their step does.
    """
    held = math.fsum(space.cost(kind, space.starts[kind], hysteresis).error for kind in space.held)
    return _Prices(space, hysteresis, max(most, held + most / 8), settings, settled).cheapest()


@dataclass(frozen=True)
class _Prices:
    space: Space
    hysteresis: float
    most: float
    settings: SearchSettings
    settled: Container[str]

    def cheapest(self) -> LatticeChoice | None:
        # From below: what a high price would look at, a trial each, are steps far finer than needed.
        price = self.settings.least_price
        while not self._fits(point := self._at(price)):
            price += self.settings.price_stride
            if price > self.settings.most_price:
                return self._finer()
        low = price - self.settings.price_stride
        for _ in range(self.settings.halvings if price > self.settings.least_price else 0):
            middle = (low + price) / 2
            if self._fits(lower := self._at(middle)):
                point, price = lower, middle
            else:
                low = middle
        return self._filled(point)

    def _finer(self) -> LatticeChoice | None:
        """Return a point whose steps are all finer by as many octaves as it takes.

        Next to the parent's step codes are kept, and their errors small; a little finer they are larger.
        Whoever goes on only as long as it gets better does not come beyond that.
        """
        starts, held = self.space.starts.items(), self.space.held
        for finer in range(STEPS_PER_OCTAVE, self.settings.farthest + 1, STEPS_PER_OCTAVE):
            point = self._point(
                {kind: step if kind in held else max(step - finer, 0) for kind, step in starts}
            )
            if self._fits(point):
                return self._filled(point)
        return None

    def _at(self, logarithm: float) -> LatticeChoice:
        return self._point({kind: self._cheapest_step(kind, 2.0**logarithm) for kind in self.space.starts})

    def _filled(self, point: LatticeChoice) -> LatticeChoice:
        """Use up what one price for all layer types left of the error allowed, a layer type at a time."""
        while True:
            others = [
                self._point({**point.steps, kind: more})
                for kind, step in point.steps.items()
                for more in islice(self._coarser(kind, step), _FILLS)
            ]
            fit = [other for other in others if self._fits(other)]
            best = min(fit, key=lambda other: stored_of(self.space, other), default=point)
            if stored_of(self.space, best) >= stored_of(self.space, point):
                return point
            point = best

    def _cheapest_step(self, kind: str, price: float) -> int:
        """Go from the parent's step both ways, as far as it keeps getting cheaper."""

        def total(step: int) -> float:
            cost = self.space.cost(kind, step, self.hysteresis)
            return cost.stored + price * cost.error

        start = best = self.space.starts[kind]
        least = total(start)
        finest = max(start - self.settings.farthest, 0)
        finer = (step for step in range(start - 1, finest - 1, -1) if self._may_be(kind, step))
        for steps in (finer, self._coarser(kind, start)):
            missed = 0
            for step in steps:
                if missed == self.settings.patience:
                    break
                found = total(step)
                best, least, missed = (step, found, 0) if found < least else (best, least, missed + 1)
        return best

    def _coarser(self, kind: str, step: int) -> Iterator[int]:
        """Yield the steps above one that a layer type may have."""
        start, coarsest = self.space.starts[kind], self.space.coarsest[kind]
        last = min(start + self.settings.farthest, coarsest)
        return (more for more in range(step + 1, last + 1) if self._may_be(kind, more))

    def _may_be(self, kind: str, step: int) -> bool:
        """Tell whether a step is larger, whole octaves finer, or so fine that no code is kept."""
        if kind in self.space.held:
            return False
        finer = self.space.starts[kind] - step
        return (
            kind not in self.settled or not 0 < finer <= self.settings.nested or not finer % STEPS_PER_OCTAVE
        )

    def _fits(self, point: LatticeChoice) -> bool:
        return error_of(self.space, point) <= self.most

    def _point(self, steps: Mapping[str, int]) -> LatticeChoice:
        return LatticeChoice(steps, self.hysteresis)
