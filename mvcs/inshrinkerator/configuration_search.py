"""The published search for a configuration (Inshrinkerator, section 5): by halves at first, then nearby.

Settings of k-means stand in a cube whose axes are ordered so that quality rises and compression falls along
each. A first commit is searched by divide and conquer, later ones near the last setting. What differs from
the paper, or is not said there, stands in docs/design/007-published-search.md.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from mvcs.errors import UsageError
from mvcs.search import Verdict

Place = tuple[int, ...]

MAGNITUDE: Final = "magnitude"
_ERRORS = 2.0  # standard errors that another metric has to be better by
_NOTICEABLE = 0.1  # of the degradation, likewise


@dataclass(frozen=True, order=True)
class TableSetting:
    """One configuration of the published method.

    Attributes:
        bins: values in the table of a weight.
        prune: share of the least important weights of a layer type that becomes zero.
        protect: share of the most important ones that is kept.
        metric: by which score weights are pruned; "magnitude" wherever none are.
        embedding_bins: values in the table of an embedding, of which nothing is pruned; None treats
            embeddings as other weights.
    """

    bins: int
    prune: float
    protect: float
    metric: str = MAGNITUDE
    embedding_bins: int | None = None


@dataclass(frozen=True)
class TableCube:
    """The settings that are searched: tables 2 and 9 of the paper.

    Attributes:
        bins: ascending.
        prune: shares, descending.
        protect: shares, ascending.
        embedding_bins: ascending; empty where a model has no embeddings.
        metrics: by which scores weights may be pruned.

    Raises:
        UsageError: an axis is empty or not in order.
    """

    bins: Sequence[int] = (4, 6, 8, 12, 16, 32)
    prune: Sequence[float] = (0.5, 0.4, 0.3, 0.2, 0.1, 0.0)
    protect: Sequence[float] = (0.0005, 0.005, 0.01)
    embedding_bins: Sequence[int] = ()
    metrics: Sequence[str] = (MAGNITUDE, "sensitivity")

    def __post_init__(self) -> None:
        """Check that quality can rise along every axis."""
        rising = (self.bins, [-share for share in self.prune], self.protect, self.embedding_bins)
        if any(list(axis) != sorted(set(axis)) for axis in rising):
            raise UsageError("an axis of a cube of settings is out of order", hint="put the coarsest first")
        if not all((self.bins, self.prune, self.protect, self.metrics)):
            raise UsageError("an axis of a cube of settings is empty", hint="give at least one value")

    @property
    def top(self) -> Place:
        """The place of highest quality; that of highest compression is all zeros."""
        axes = (self.bins, self.prune, self.protect, self.embedding_bins or (None,))
        return tuple(len(axis) - 1 for axis in axes)

    def at(self, place: Place, metric: str) -> TableSetting:
        """Return the setting at a place. Where nothing is pruned, all metrics are one."""
        bins, prune, protect, embedding = place
        share = self.prune[prune]
        return TableSetting(
            self.bins[bins],
            share,
            self.protect[protect],
            metric if share else MAGNITUDE,
            self.embedding_bins[embedding] if self.embedding_bins else None,
        )

    def place(self, setting: TableSetting) -> Place | None:
        """Return where a setting stands; None where it is none of the cube's."""
        axes = (self.bins, self.prune, self.protect, self.embedding_bins or (None,))
        values = (setting.bins, setting.prune, setting.protect, setting.embedding_bins)
        known = setting.metric in self.metrics or not setting.prune
        if not known or any(value not in axis for axis, value in zip(axes, values, strict=True)):
            return None
        return tuple(list(axis).index(value) for axis, value in zip(axes, values, strict=True))


@dataclass(frozen=True)
class Tested:
    """A setting that was evaluated.

    Attributes:
        setting: the setting.
        stored: bytes it takes.
        verdict: what the evaluation said.
    """

    setting: TableSetting
    stored: int
    verdict: Verdict


@dataclass(frozen=True)
class CubeOutcome:
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
class CubeSearch:
    """Chooses settings commit by commit.

    Attributes:
        cube: the settings to choose from.
        most: evaluations at one commit, at most; None is as many as it takes.
        reach: how many steps along each axis a search near the last setting goes.
        last: the setting of the last commit that kept its bound; None begins with the whole cube. A run that
            is resumed sets it to that of its newest commit.
    """

    cube: TableCube = field(default_factory=TableCube)
    most: int | None = None
    reach: int = 1
    last: TableSetting | None = None

    def run(
        self,
        stored: Callable[[TableSetting], int],
        judge: Callable[[TableSetting], Verdict],
        spent: Callable[[], bool] = lambda: False,
    ) -> CubeOutcome:
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
            if self.last is not None and place is not None and not commit.near(self.last, place, self.reach):
                exhaustive = True
                commit.forbidden = place
            if exhaustive:
                commit.exhaust()
        except _SpentError:
            pass
        chosen = commit.best
        self.last = chosen.setting if chosen else self.last
        return CubeOutcome(chosen, tuple(commit.tested.values()), exhaustive)


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

    cube: TableCube
    stored: Callable[[TableSetting], int]
    judge: Callable[[TableSetting], Verdict]
    spent: Callable[[], bool]
    most: int | None
    tested: dict[TableSetting, Tested] = field(default_factory=dict)
    best: Tested | None = None
    forbidden: Place | None = None
    _sizes: dict[TableSetting, int] = field(default_factory=dict)

    def size(self, setting: TableSetting) -> int:
        """Return the bytes of a setting."""
        if setting not in self._sizes:
            self._sizes[setting] = self.stored(setting)
        return self._sizes[setting]

    def test(self, setting: TableSetting) -> Tested:
        """Evaluate a setting, unless that was done.

        Raises:
            _SpentError: the budget is used up.
        """
        if setting not in self.tested:
            if (self.most is not None and len(self.tested) >= self.most) or self.spent():
                raise _SpentError
            found = Tested(setting, self.size(setting), self.judge(setting))
            self.tested[setting] = found
            if found.verdict.accepted and (self.best is None or found.stored < self.best.stored):
                self.best = found
        return self.tested[setting]

    def near(self, last: TableSetting, place: Place, reach: int) -> bool:
        """Search near the last setting, and say whether something was found (delta-neighbourhood search).

        Nothing that is more aggressive along any axis is looked at: with a reach of 1 that leaves 8 settings,
        or 16 with embeddings. The first one accepted, fewest bytes first, ends the search.
        """
        current = self._better_metric(last)
        if current.verdict.accepted:
            # The coarsest of them: where bytes rise along every axis, nothing near it takes fewer.
            return True
        steps = itertools.product(
            *(range(at, min(at + reach, top) + 1) for at, top in zip(place, self.cube.top, strict=True))
        )
        nearby = {self.cube.at(other, current.setting.metric) for other in steps}
        for setting in sorted(nearby, key=lambda setting: (self.size(setting), setting)):
            if self.test(setting).verdict.accepted:
                return True
        return self.best is not None

    def _better_metric(self, last: TableSetting) -> Tested:
        """Return the last setting by the metric to go on with: another one if that is noticeably better."""
        current = self.test(last)
        others = [name for name in self.cube.metrics if last.prune and name != last.metric]
        for name in others:
            other = self.test(replace(last, metric=name))
            if _noticeably_better(other.verdict, current.verdict):
                current = other
        return current

    def exhaust(self) -> None:
        """Search the whole cube once for every metric (guided exhaustive search, algorithm 4)."""
        for metric in self.cube.metrics:
            self._search(tuple(0 for _ in self.cube.top), self.cube.top, metric)

    def _search(self, low: Place, high: Place, metric: str) -> None:
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

    def _promises(self, low: Place, high: Place, metric: str) -> bool:
        """Tell whether a box may hold something better than the best."""
        if self.forbidden is not None and _at_most(high, self.forbidden):
            return False
        if any(self._rules_out(tested, high, metric) for tested in self.tested.values()):
            return False
        return self.best is None or self.size(self.cube.at(low, metric)) < self.best.stored

    def _rules_out(self, tested: Tested, place: Place, metric: str) -> bool:
        """Tell whether a refused setting is at least as fine as a place along every axis."""
        setting = tested.setting
        comparable = setting.metric == metric or not setting.prune
        other = self.cube.place(setting)
        return not tested.verdict.accepted and comparable and other is not None and _at_most(place, other)

    def _first_accepted(self, places: Sequence[Place], metric: str) -> int:
        """Find the coarsest place that keeps the bound, by halves; the number of places if none does."""
        low, high = 0, len(places)
        while low < high:
            middle = (low + high) // 2
            if self._keeps(places[middle], metric):
                high = middle
            else:
                low = middle + 1
        return low

    def _keeps(self, place: Place, metric: str) -> bool:
        if self.forbidden is not None and _at_most(place, self.forbidden):
            return False
        return self.test(self.cube.at(place, metric)).verdict.accepted


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
    steps = max(spans)
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
