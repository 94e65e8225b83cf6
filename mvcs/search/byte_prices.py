"""The steps of fewest bytes for an error, by one price of error for all layer types.

Shoham and Gersho, IEEE Transactions on Acoustics, Speech, and Signal Processing 36, 1988.
"""

from mvcs.objects import STEPS_PER_OCTAVE
from mvcs.search.candidates import LatticeChoice, Space, error_of, held_error, stored_of
from mvcs.search.settings import SEARCH_DEFAULTS, SearchSettings


def cheapest(
    space: Space, hysteresis: float, most: float, settings: SearchSettings = SEARCH_DEFAULTS
) -> LatticeChoice | None:
    """Return the point of fewest bytes whose error is at most `most`; None where none was found.

    Where layer types are held, others get an eighth of it at least: what those lose cannot be mended.
    """
    most = max(most, held_error(space, hysteresis) + most / 8)
    # From below: what a high price would look at, a trial each, are steps far finer than needed.
    price = settings.least_price
    while error_of(space, point := _at_price(space, hysteresis, price, settings)) > most:
        price += settings.price_stride
        if price > settings.most_price:
            return _finer(space, hysteresis, most, settings)
    low = price - settings.price_stride
    for _ in range(settings.halvings if price > settings.least_price else 0):
        middle = (low + price) / 2
        lower = _at_price(space, hysteresis, middle, settings)
        if error_of(space, lower) <= most:
            point, price = lower, middle
        else:
            low = middle
    return _filled(space, point, most)


def _finer(space: Space, hysteresis: float, most: float, settings: SearchSettings) -> LatticeChoice | None:
    """Return a point whose steps are all finer by as many octaves as it takes.

    Next to the parent's step codes are kept, and their errors small; a little finer they are larger. Whoever
    goes on only as long as it gets better does not come beyond that.
    """
    for finer in range(STEPS_PER_OCTAVE, settings.farthest + 1, STEPS_PER_OCTAVE):
        steps = {
            kind: step if kind in space.held else max(step - finer, 0) for kind, step in space.starts.items()
        }
        point = LatticeChoice(steps, hysteresis)
        if error_of(space, point) <= most:
            return _filled(space, point, most)
    return None


def _at_price(space: Space, hysteresis: float, logarithm: float, settings: SearchSettings) -> LatticeChoice:
    price = 2.0**logarithm
    return LatticeChoice(
        {kind: _cheapest_step(space, kind, hysteresis, price, settings) for kind in space.starts}, hysteresis
    )


def _filled(space: Space, point: LatticeChoice, most: float) -> LatticeChoice:
    """Use up what one price for all layer types left of the error allowed, a layer type at a time."""
    while True:
        others = [
            LatticeChoice({**point.steps, kind: step + more}, point.hysteresis)
            for kind, step in point.steps.items()
            for more in (1, 2, 3)
            if step + more <= space.coarsest[kind] and kind not in space.held
        ]
        fit = [other for other in others if error_of(space, other) <= most]
        best = min(fit, key=lambda other: stored_of(space, other), default=point)
        if stored_of(space, best) >= stored_of(space, point):
            return point
        point = best


def _cheapest_step(space: Space, kind: str, hysteresis: float, price: float, settings: SearchSettings) -> int:
    """Go from the parent's step both ways, as far as it keeps getting cheaper."""

    def total(step: int) -> float:
        cost = space.cost(kind, step, hysteresis)
        return cost.stored + price * cost.error

    start = best = space.starts[kind]
    if kind in space.held:
        return start
    least = total(start)
    coarsest = min(start + settings.farthest, space.coarsest[kind])
    for way, end in ((-1, max(start - settings.farthest, 0)), (1, coarsest)):
        missed = 0
        for step in range(start + way, end + way, way):
            if missed == settings.patience:
                break
            found = total(step)
            best, least, missed = (step, found, 0) if found < least else (best, least, missed + 1)
    return best
