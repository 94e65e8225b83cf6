"""The numbers that a search goes by, in one place: a run or a benchmark may vary one of them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Self

from mvcs.errors import UsageError, one_of
from mvcs.objects import STEPS_PER_OCTAVE


@dataclass(frozen=True)
class SearchSettings:
    """What a search for lattice steps, and the verdicts that it gets, go by.

    Degradations and their standard errors are shares, errors those of `mvcs.search.step_search.StepCost`.

    Attributes:
        evaluations: candidates at one commit, at most.
        mean: evaluations a commit, the original's included, that saving bytes may take on average.
        hystereses: that are tried, in steps, the one of fewest bytes first.
        worth: the share of bytes that a further evaluation has to save.
        enough: points at a commit, if one of them was accepted and one refused.
        caution: deviations that a first prediction keeps away from the bound.
        boldness: the same of a further one.
        lighter: the share of the bytes of the next point that a leap may take at most.
        doubt: the share of the bound as which any smaller degradation counts.
        knee: beyond this, and beyond the bound, degradation grows faster than the error; at bounds below it,
            another part outweighs what can be predicted, and points are draws.
        steepness: the power of the error that it grows like there.
        worst: times the knee or the bound: as this counts what is not finite.
        tiny: as this counts a degradation of nothing, which has no logarithm.
        farther: times an error that was accepted: the largest that may be tried next.
        retreat: of an error that was refused, the first time, the second, and so on.
        drawn: of an error that was refused at a bound below the knee.
        sure: of the bound, for which the last points are made while all were refused.
        stuck: times its bytes, as which a hysteresis counts that was refused twice.
        first_mean: degradation for a unit of error at the start of a run.
        first_deviation: of the logarithm of that.
        drift: deviation that what is known gains from commit to commit.
        least_noise: deviation of an observation, at least.
        forgotten: of the gap to the best hysteresis, from commit to commit.
        widening: of the error that is trusted, from commit to commit, at least.
        regained: of what it is behind the largest, in its logarithm.
        remembered: of the largest error that was accepted, from commit to commit.
        missed: of that, where it was refused.
        fallen: times what is trusted: farther went an error that a leap may go to again.
        cliff: times smaller than at the commit before: an error that fell.
        before_it: of the error before a fall, the largest that is proposed.
        rising: of that, from commit to commit.
        farthest: step bytes from the parent's that are looked at.
        settled: bits a weight, below which most codes of a layer type stay where its step does.
        averaging: the hysteresis from which on kept codes stand for averages over commits, which a step
            that is not whole octaves finer would break. With a smaller one most codes are the nearest ones.
        nested: step bytes below the parent's within which a settled layer type's step is whole octaves finer,
            so that the parent's values lie on its lattice. On finer ones next to no code is kept.
        hopeless: times the bound; where more is predicted of the parent's steps, none is kept to.
        patience: steps in a row that are no cheaper: keeping the step is a small minimum of its own.
        spared: of a bound, which a first commit with frozen weights leaves to later ones.
        held_most: points at a commit, after which steps of frozen weights are no longer held.
        least_price: binary logarithm of the lowest price of error, in bytes.
        most_price: the same of the highest.
        price_stride: between prices that are tried first.
        halvings: of a stride, to find the price that just fits.
        alone: layer types that are evaluated one by one, at most, where nothing tells what their errors cost.
        slight: of the largest degradation that one of them brought: any smaller one counts as this.
        coarser: step bytes above what the settings give that a step may go to: larger ones leave most weights
            zero.
        usual: the degradation that the step of small tensors fits.
        least: the smallest degradation that it follows.
        errors: standard errors that a verdict adds to the mean: the sum must lie within the bound.
        early_errors: standard errors of the batches to come that leave no doubt before the last.
        least_batches: no verdict before so many.
        ordered: deviations of the likeness of neighbouring batches, beyond which they came in an order.
        same: relative difference between two evaluations of the same weights that is put down to the device.
        noisy: the share of a bound that two standard errors may take; beyond it the sample cannot tell.
        aimed: the share that the search makes them take.
        certain: standard errors that a verdict adds where the sample cannot tell.
        quiet: the same before more batches are taken, where there are more.
        growth: times the batches of one commit, as many as the next may take.
    """

    evaluations: int = 8
    mean: float = 3.0
    hystereses: tuple[float, ...] = (0.5, 0.25, 0.0)
    worth: float = 0.02
    enough: int = 4
    caution: float = 1.0
    boldness: float = 0.5
    lighter: float = 0.5
    doubt: float = 0.2
    knee: float = 0.01
    steepness: float = 1.5
    worst: float = 1e4
    tiny: float = 1e-12
    farther: float = 2.0
    retreat: tuple[float, ...] = (0.95, 0.75, 0.5, 0.3)
    drawn: float = 0.6
    sure: tuple[float, ...] = (0.7, 0.1)
    stuck: float = 1.5
    first_mean: float = 0.5
    first_deviation: float = 1.0
    drift: float = 0.2
    least_noise: float = 0.03
    forgotten: float = 0.2
    widening: float = 1.5
    regained: float = 0.3
    remembered: float = 0.8
    missed: float = 0.5
    fallen: float = 8.0
    cliff: float = 4.0
    before_it: float = 0.5
    rising: float = 1.03
    farthest: int = 16 * STEPS_PER_OCTAVE
    settled: float = 0.7
    averaging: float = 0.5
    nested: int = STEPS_PER_OCTAVE
    hopeless: float = 3.0
    patience: int = 3
    spared: float = 0.5
    held_most: int = 3
    least_price: float = -10.0
    most_price: float = 50.0
    price_stride: float = 4.0
    halvings: int = 12
    alone: int = 16
    slight: float = 0.001
    coarser: int = 2 * STEPS_PER_OCTAVE
    usual: float = 0.01
    least: float = 1e-6
    errors: float = 2.0
    early_errors: float = 3.0
    least_batches: int = 6
    ordered: float = 3.0
    same: float = 1e-5
    noisy: float = 0.7
    aimed: float = 0.4
    certain: float = 6.0
    quiet: float = 0.3
    growth: int = 4

    def changed(self, values: Mapping[str, str]) -> Self:
        """Return the same with some of them as a person typed them, several numbers apart by commas.

        Raises:
            UsageError: there is none of a name, or it is of another type.
        """
        known = tuple(each.name for each in fields(self))
        for name in values:
            one_of("a setting of the search", name, known)
        read: dict[str, Any] = {name: _read(name, text, getattr(self, name)) for name, text in values.items()}
        return replace(self, **read)


def _read(name: str, text: str, default: float | tuple[float, ...]) -> float | tuple[float, ...]:
    try:
        if isinstance(default, tuple):
            return tuple(map(float, text.split(",")))
        return type(default)(text)
    except ValueError:
        kind = "numbers, apart by commas" if isinstance(default, tuple) else "a number"
        raise UsageError(f"{name} cannot be '{text}'", hint=f"give {kind}, as {default!r} is") from None


SEARCH_DEFAULTS: Final = SearchSettings()
