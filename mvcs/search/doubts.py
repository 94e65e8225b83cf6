"""What is doubtful about an evaluation: too few batches for its bound, or a goal that nobody gave."""

import math
from collections.abc import Sequence
from typing import Final

from mvcs.search.baseline import Baseline, Batch
from mvcs.search.bound import Bound
from mvcs.search.early_verdict import Verdict
from mvcs.search.settings import SEARCH_DEFAULTS, SearchSettings

_LEAST_COUNT: Final = 10  # so few answers in a single batch are a whole number by chance
_OPTION: Final = 'goal="{}"'


class SamplingNoise:
    """Tells when an evaluation's noise, not quality, decides how fine the steps of commits are.

    That is so where a candidate was refused only because its noise takes too much of the bound
    (`PairedCheck`). Noise falls with the root of the number of batches (Cochran, Sampling Techniques, 3rd
    ed., section 2.6).
    """

    def __init__(self, settings: SearchSettings = SEARCH_DEFAULTS) -> None:
        self._settings = settings
        self._told = 0.0

    def note(self, verdicts: Sequence[Verdict], baseline: Baseline, epsilon: float) -> str | None:
        """Return what there is to say of a commit's evaluations; None where nothing new is.

        Args:
            verdicts: of its candidates, in order.
            baseline: what they were compared with.
            epsilon: the degradation accepted.
        """
        count, doubt = len(baseline.batches), undecided(verdicts, epsilon, self._settings)
        if not epsilon or doubt <= 2 * self._told:
            return None
        self._told = doubt
        wanted = _rounded(count * (doubt / (self._settings.quiet * epsilon)) ** 2)
        return (
            f"the evaluation's {count} batches tell a degradation to ± {doubt:.2%} (two standard errors), "
            f"too little to say whether a candidate keeps the bound of {epsilon:.2%}; so steps are finer and "
            f"commits larger than they might be: give about {wanted} such batches"
        )


class SampleSize:
    """How many batches of an evaluation a commit takes: more where their noise takes too much of the bound.

    What a commit has seen decides for the next one. It takes up to four times as many, and half as many where
    less would do, never fewer than the first commit.

    Attributes:
        batches: how many the next commit takes; None for all that there are.

    Args:
        first: how many the first commit takes; None for all.
        settings: how much noise is too much.
    """

    def __init__(self, first: int | None, settings: SearchSettings = SEARCH_DEFAULTS) -> None:
        self.batches = self._first = first
        self._settings = settings

    def learn(self, verdicts: Sequence[Verdict], baseline: Baseline, epsilon: float) -> None:
        """Take in how the candidates of a commit fared; arguments as those of `SamplingNoise.note`."""
        doubt, seen = doubt_of(verdicts, baseline, self._settings), len(baseline.batches)
        if self._first is None or not (doubt and epsilon):
            return
        wanted = seen * (doubt / (self._settings.quiet * epsilon)) ** 2
        most = self._settings.growth * seen
        self.batches = max(self._first, seen // 2, math.ceil(min(wanted, most)))


def undecided(
    verdicts: Sequence[Verdict], epsilon: float, settings: SearchSettings = SEARCH_DEFAULTS
) -> float:
    """Return two standard errors of a candidate that was refused for them alone, the least; 0 for none.

    Args:
        verdicts: of a commit's candidates.
        epsilon: the degradation accepted.
        settings: how much noise is too much.
    """
    uppers = {each.upper(settings.errors): each for each in verdicts if not each.accepted}
    doubts = [upper - each.degradation for upper, each in uppers.items() if upper <= epsilon]
    return min((doubt for doubt in doubts if doubt > settings.noisy * epsilon), default=0.0)


def doubt_of(
    verdicts: Sequence[Verdict], baseline: Baseline, settings: SearchSettings = SEARCH_DEFAULTS
) -> float:
    """Return what a commit's verdict on the whole sample adds to the mean; 0 where no batches tell.

    Args:
        verdicts: of its candidates, in order; the last accepted one counts, else the surest.
        baseline: what they were compared with.
        settings: how sure a verdict is.
    """
    accepted = [verdict for verdict in verdicts if verdict.accepted]
    errors = [
        verdict.standard_error * math.sqrt(verdict.batches / len(baseline.batches))
        for verdict in accepted[-1:] or verdicts
        if verdict.standard_error is not None and math.isfinite(verdict.standard_error)
    ]
    return settings.errors * min(errors, default=0.0)


def _rounded(batches: float) -> int:
    """Round up to two digits: more would say more than is known."""
    unit = int(10 ** max(math.floor(math.log10(batches)) - 1, 0))
    return math.ceil(batches / unit) * unit


class ForgottenGoal:
    """Looks, at the first baseline that can tell, for an accuracy of which nobody said that higher is better.

    Args:
        bound: which way is better, and whether somebody said so.
        option: how a user says it.
    """

    def __init__(self, bound: Bound, option: str = _OPTION) -> None:
        self._bound = bound
        self._option = option
        self._asked = not bound.is_goal_assumed

    def doubt(self, baseline: Baseline) -> str | None:
        """Return what there is to ask, once; None where nothing is."""
        if self._asked:
            return None
        self._asked = any(total for total, _ in baseline.batches)
        if not (baseline.is_paired and _counts_answers(baseline.batches)):
            return None
        return (
            "the sums that evaluate yields are whole numbers of at most their count, as an accuracy's are, "
            f"and lower was taken to be better: give {self._option.format('max')} if higher is better, "
            f"{self._option.format('min')} to say that it is a loss"
        )


def _counts_answers(batches: Sequence[Batch]) -> bool:
    """Tell whether every sum may be how many of so many are right."""
    if len(batches) == 1 and batches[0][1] < _LEAST_COUNT:
        return False
    whole = all(total.is_integer() and 0 <= total <= count for total, count in batches)
    return whole and any(total for total, _ in batches)
