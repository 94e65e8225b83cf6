"""The steps of fewest bytes for an error, by one price of error for all layer types.

Shoham and Gersho, IEEE Transactions on Acoustics, Speech, and Signal Processing 36, 1988.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from mvcs.objects import STEPS_PER_OCTAVE
from mvcs.search.candidates import LatticeChoice, Space, error_of, held_error, stored_of
from mvcs.search.settings import SEARCH_DEFAULTS, SearchSettings

_FILLS = 3  # steps up, of those that a layer type may have, which are tried to use up an error


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
    most = max(most, held_error(space, hysteresis) + most / 8)
    return _Prices(space, hysteresis, most, settings, settled).cheapest()


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
        for steps in (self._finer_steps(kind, start), self._coarser(kind, start)):
            missed = 0
            for step in steps:
                if missed == self.settings.patience:
                    break
                found = total(step)
                best, least, missed = (step, found, 0) if found < least else (best, least, missed + 1)
        return best

    def _finer_steps(self, kind: str, step: int) -> Iterator[int]:
        finest = max(step - self.settings.farthest, 0)
        return (finer for finer in range(step - 1, finest - 1, -1) if self._may_be(kind, finer))

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
