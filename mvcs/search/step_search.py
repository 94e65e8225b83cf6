"""The search for lattice steps: as few bytes as the bound allows, in as few evaluations as possible.

What a step costs in bytes is worked out exactly, without an evaluation, for every layer type. What it costs
in quality is predicted: degradation grows with the squared errors of the restored weights, weighted by layer
type, times a factor that is learnt from every evaluation. At bounds below 1 % another part outweighs that
one, of either sign and the same for all data, which grows like the root of the error: there every point is a
draw, and the search takes more of them, nearer to each other.
"""

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mvcs.search.byte_prices import cheapest
from mvcs.search.candidates import (
    Attempt,
    Judge,
    LatticeChoice,
    LatticeOutcome,
    Space,
    Tested,
    error_of,
    stored_of,
)
from mvcs.search.degradation_model import DegradationModel
from mvcs.search.settings import SEARCH_DEFAULTS, SearchSettings


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
            if found.verdict.accepted:
                best = found
            elif best and not attempt.thorough and self._is_enough(best, tested):
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

    def _is_enough(self, best: Tested, tested: Sequence[Tested]) -> bool:
        return len(tested) >= self.settings.enough and best.stored <= self._typical

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
            model.miss()
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
