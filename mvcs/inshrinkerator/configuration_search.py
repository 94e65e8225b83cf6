"""The search for a configuration (Inshrinkerator, section 5): by halves at first, then nearby.

Configurations stand in a cube (figure 8) whose axes are ordered so that quality rises and compression falls
along each. A first commit is searched by divide and conquer (algorithm 4), later ones near the last setting.
The axes are those of tables 2 and 9, or any others: section 8.2 searches those of other methods as well.
What differs from the paper, or is not said there, stands in docs/design/007-published-search.md.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mvcs.errors import UsageError
from mvcs.quantize import KMeansConfig, MomentsConfig
from mvcs.search import Verdict

Value = float | int | str
Setting = Mapping[str, Value]
Place = tuple[int, ...]

MAGNITUDE: Final = "magnitude"
METRICS: Final = (MAGNITUDE, "sensitivity")
AXES: Final[Mapping[str, Sequence[Value]]] = {
    "bins": (4, 6, 8, 12, 16, 32),
    "prune": (0.5, 0.4, 0.3, 0.2, 0.1, 0.0),
    "protect": (0.0005, 0.005, 0.01),
}
EMBEDDING_AXES: Final[Mapping[str, Sequence[Value]]] = {**AXES, "embedding_bins": (16, 32)}
_SIGMA: Final = 0.2  # section 4.4
_ERRORS = 2.0  # standard errors that another metric has to be better by
_NOTICEABLE = 0.1  # of the degradation, likewise


@dataclass(frozen=True)
class ConfigurationCube:
    """The settings that are searched.

    Attributes:
        axes: the values along each axis by its name, coarsest first.
        metrics: by which scores weights may be pruned, in no order: one of them is a setting's "metric". The
            first stands for all where "prune" is 0. Empty for a method without that choice.

    Raises:
        UsageError: an axis has no values, or one twice.
    """

    axes: Mapping[str, Sequence[Value]]
    metrics: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check that quality can rise along every axis."""
        for name, values in self.axes.items():
            if not values or len(set(values)) < len(values):
                hint = "give different values, the coarsest first"
                raise UsageError(f"the axis {name} of a search cannot be {list(values)}", hint=hint)

    @property
    def top(self) -> Place:
        """The place of highest quality; that of highest compression is all zeros."""
        return tuple(len(values) - 1 for values in self.axes.values())

    def at(self, place: Place, metric: str | None = None) -> Setting:
        """Return the setting at a place: a value for each axis, then its metric."""
        found = {name: values[at] for (name, values), at in zip(self.axes.items(), place, strict=True)}
        if not self.metrics:
            return found
        return {**found, "metric": metric if metric and found.get("prune") else self.metrics[0]}

    def place(self, setting: Setting) -> Place | None:
        """Return where a setting stands; None where it is none of the cube's."""
        values = dict(setting)
        metric = values.pop("metric", None) if self.metrics else None
        if self.metrics and setting.get("prune") and metric not in self.metrics:
            return None
        if values.keys() != self.axes.keys() or any(values[name] not in self.axes[name] for name in values):
            return None
        return tuple(list(axis).index(values[name]) for name, axis in self.axes.items())


@dataclass(frozen=True)
class Tested:
    """A setting that was evaluated.

    Attributes:
        setting: a value for each axis, and a metric where there is a choice.
        stored: bytes it takes.
        verdict: what the evaluation said.
    """

    setting: Setting
    stored: int
    verdict: Verdict


@dataclass(frozen=True)
class ConfigurationOutcome:
    """What a search found.

    Attributes:
        chosen: the setting of fewest bytes that keeps the bound; None where none was found.
        tested: every setting that was evaluated, in order.
        exhaustive: whether the whole cube was searched.
    """

    chosen: Tested | None
    tested: Sequence[Tested]
    exhaustive: bool


@dataclass
class ConfigurationSearch:
    """Chooses settings commit by commit.

    Attributes:
        cube: the settings to choose from.
        most: evaluations at one commit, at most; None is as many as it takes.
        reach: how many steps along each axis a search near the last setting goes.
        last: the setting of the last commit that kept its bound; None begins with the whole cube. A run that
            is resumed sets it to that of its newest commit.
    """

    cube: ConfigurationCube
    most: int | None = None
    reach: int = 1
    last: Setting | None = None

    def run(
        self,
        stored: Callable[[Setting], int],
        judge: Callable[[Setting], Verdict],
        spent: Callable[[], bool] = lambda: False,
    ) -> ConfigurationOutcome:
        """Search the setting of one commit.

        Args:
            stored: gives the bytes that a setting takes; asked once for each.
            judge: evaluates a setting; asked once for each.
            spent: tells whether the time for this commit is over; asked before every evaluation.
        """
        commit = _Commit(self.cube, stored, judge, spent, self.most)
        place = self.cube.place(self.last) if self.last else None
        exhaustive = place is None
        try:
            if self.last and place is not None:
                last = self.cube.at(place, _metric(self.last))
                if not commit.near(last, place, self.reach):
                    exhaustive = True
                    commit.forbidden = place
            if exhaustive:
                commit.exhaust()
        except _SpentError:
            pass
        chosen = commit.best
        self.last = chosen.setting if chosen else self.last
        return ConfigurationOutcome(chosen, tuple(commit.tested.values()), exhaustive)


class _SpentError(Exception):
    """The evaluations or the time of a commit are used up."""


@dataclass
class _Commit:
    """The search of one commit: what is known of it so far.

    Attributes:
        best: the setting of fewest bytes among those that were accepted.
        forbidden: the place of the last setting, once nothing near it kept the bound: what is as aggressive
            along every axis is left out, even where quality is not monotone.
    """

    cube: ConfigurationCube
    stored: Callable[[Setting], int]
    judge: Callable[[Setting], Verdict]
    spent: Callable[[], bool]
    most: int | None
    tested: dict[tuple[Value, ...], Tested] = field(default_factory=dict)
    best: Tested | None = None
    forbidden: Place | None = None
    _sizes: dict[tuple[Value, ...], int] = field(default_factory=dict)

    def size(self, setting: Setting) -> int:
        """Return the bytes of a setting."""
        values = tuple(setting.values())
        if values not in self._sizes:
            self._sizes[values] = self.stored(setting)
        return self._sizes[values]

    def test(self, setting: Setting) -> Tested:
        """Evaluate a setting, unless that was done.

        Raises:
            _SpentError: the budget is used up.
        """
        values = tuple(setting.values())
        if values not in self.tested:
            if (self.most is not None and len(self.tested) >= self.most) or self.spent():
                raise _SpentError
            found = Tested(setting, self.size(setting), self.judge(setting))
            self.tested[values] = found
            if found.verdict.accepted and (self.best is None or found.stored < self.best.stored):
                self.best = found
        return self.tested[values]

    def near(self, last: Setting, place: Place, reach: int) -> bool:
        """Search near the last setting, and say whether something was found (delta-neighbourhood search).

        Nothing that is more aggressive along any axis is looked at: with a reach of 1 that leaves 8 settings
        of three axes, 16 of four. The first one accepted, fewest bytes first, ends the search.
        """
        current = self._better_metric(last)
        if current.verdict.accepted:
            # The coarsest of them: where bytes rise along every axis, nothing near it takes fewer.
            return True
        steps = itertools.product(
            *(range(at, min(at + reach, top) + 1) for at, top in zip(place, self.cube.top, strict=True))
        )
        nearby = (self.cube.at(other, _metric(current.setting)) for other in steps)
        for setting in sorted(nearby, key=lambda setting: (self.size(setting), tuple(setting.values()))):
            if self.test(setting).verdict.accepted:
                return True
        return self.best is not None

    def _better_metric(self, last: Setting) -> Tested:
        """Return the last setting by the metric to go on with: another one if that is noticeably better."""
        current = self.test(last)
        others = [name for name in self.cube.metrics if last.get("prune") and name != _metric(last)]
        for name in others:
            other = self.test({**last, "metric": name})
            if _noticeably_better(other.verdict, current.verdict):
                current = other
        return current

    def exhaust(self) -> None:
        """Search the whole cube once for every metric (guided exhaustive search, algorithm 4)."""
        for metric in self.cube.metrics or (None,):
            self._search(tuple(0 for _ in self.cube.top), self.cube.top, metric)

    def _search(self, low: Place, high: Place, metric: str | None) -> None:
        if not self._promises(low, high, metric):
            return
        diagonal = list(_diagonal(low, high))
        accepted = self._first_accepted(diagonal, metric)
        refused = diagonal[accepted - 1] if accepted else None
        boxes = [(low, high)]
        if accepted < len(diagonal):
            # Finer along every axis keeps the bound too, and takes more bytes.
            boxes = list(_without_above(low, high, diagonal[accepted]))
        if refused is not None:
            boxes = [rest for box in boxes for rest in _without_below(*box, refused)]
        for box in boxes:
            self._search(*box, metric)

    def _promises(self, low: Place, high: Place, metric: str | None) -> bool:
        """Tell whether a box may hold something better than the best."""
        if self.forbidden is not None and _at_most(high, self.forbidden):
            return False
        if any(self._rules_out(tested, high, metric) for tested in self.tested.values()):
            return False
        return self.best is None or self.size(self.cube.at(low, metric)) < self.best.stored

    def _rules_out(self, tested: Tested, place: Place, metric: str | None) -> bool:
        """Tell whether a refused setting is at least as fine as a place along every axis."""
        setting = tested.setting
        comparable = _metric(setting) == metric or not setting.get("prune")
        other = self.cube.place(setting)
        return not tested.verdict.accepted and comparable and other is not None and _at_most(place, other)

    def _first_accepted(self, places: Sequence[Place], metric: str | None) -> int:
        """Find the coarsest place that keeps the bound, by halves; the number of places if none does."""
        low, high = 0, len(places)
        while low < high:
            middle = (low + high) // 2
            if self._keeps(places[middle], metric):
                high = middle
            else:
                low = middle + 1
        return low

    def _keeps(self, place: Place, metric: str | None) -> bool:
        if self.forbidden is not None and _at_most(place, self.forbidden):
            return False
        return self.test(self.cube.at(place, metric)).verdict.accepted


def _metric(setting: Setting) -> str | None:
    found = setting.get("metric")
    return None if found is None else str(found)


def _noticeably_better(other: Verdict, current: Verdict) -> bool:
    doubt = math.hypot(other.standard_error or 0.0, current.standard_error or 0.0)
    if not math.isfinite(current.degradation):
        return math.isfinite(other.degradation)
    margin = max(_ERRORS * doubt, _NOTICEABLE * abs(current.degradation))
    return current.degradation - other.degradation > margin


def _at_most(place: Place, other: Place) -> bool:
    return all(mine <= its for mine, its in zip(place, other, strict=True))


def _diagonal(low: Place, high: Place) -> Iterator[Place]:
    """Yield places from one corner of a box to the other, evenly spread along every axis."""
    spans = [last - first for first, last in zip(low, high, strict=True)]
    steps = max(spans, default=0)
    for step in range(steps + 1):
        yield tuple(first + (span * step) // max(steps, 1) for first, span in zip(low, spans, strict=True))


def _without_above(low: Place, high: Place, place: Place) -> Iterator[tuple[Place, Place]]:
    """Cut what is at least `place` along every axis off a box, and yield the rest as disjoint boxes."""
    first, last = list(low), list(high)
    for axis, bound in enumerate(place):
        if first[axis] < bound:
            yield tuple(first), (*last[:axis], min(last[axis], bound - 1), *last[axis + 1 :])
        first[axis] = max(first[axis], bound)
        if first[axis] > last[axis]:
            return


def _without_below(low: Place, high: Place, place: Place) -> Iterator[tuple[Place, Place]]:
    """Cut what is at most `place` along every axis off a box, and yield the rest as disjoint boxes."""
    first, last = list(low), list(high)
    for axis, bound in enumerate(place):
        if last[axis] > bound:
            yield (*first[:axis], max(first[axis], bound + 1), *first[axis + 1 :]), tuple(last)
        last[axis] = min(last[axis], bound)
        if first[axis] > last[axis]:
            return


def config_of(setting: Setting, score: str, moments: MomentsConfig) -> KMeansConfig:
    """Return the settings of a commit for one of the method's own settings.

    Half of what is protected is so for its score (section 4.2).

    Args:
        setting: of `AXES` or `EMBEDDING_AXES`.
        score: what stands for sensitivity: "sensitivity" where scores are handed in, or "momentum".
        moments: what is kept of the optimizer's moments.
    """
    values: Mapping[str, Any] = setting
    metric = MAGNITUDE if setting["metric"] == MAGNITUDE else score
    own = {**values, "metric": metric, "protect_metric": score}
    return KMeansConfig(**own, sigma=_SIGMA, moments=moments)


def setting_of(config: KMeansConfig) -> Setting:
    """Return the setting that `config_of` made the settings of a commit from, whatever the score was."""
    embeddings = {} if config.embedding_bins is None else {"embedding_bins": config.embedding_bins}
    metric = METRICS[-1] if config.prune and config.metric != MAGNITUDE else MAGNITUDE
    own = {"bins": config.bins, "prune": config.prune, "protect": config.protect}
    return {**own, **embeddings, "metric": metric}
