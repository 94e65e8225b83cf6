"""Deciding whether a candidate keeps a bound, batch by batch, and stopping as soon as it is clear.

Batches differ from each other far more than two states do on one batch, so each is compared with the same
batch of the baseline (a ratio estimate of pairs: Cochran, Sampling Techniques, 3rd ed., chapter 6).
"""

import math
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from mvcs.errors import UsageError
from mvcs.search.evaluation import Baseline, Batch, Bound, Measured, as_batches, as_number
from mvcs.search.settings import SEARCH_DEFAULTS, SearchSettings

NO_SHARE = "the evaluation gives 0 for the original, of which no degradation is a share"
_FAR = 1e100  # beyond it squares are not finite
_SAME_DATA = "evaluate the same batches in the same order every time"
_LEAST_COUNT: Final = 10  # so few answers in a single batch are a whole number by chance


@dataclass(frozen=True)
class Verdict:
    """What a check found.

    Attributes:
        accepted: the candidate keeps the bound.
        degradation: the estimate from the batches seen, as a share of the baseline; positive is worse.
        standard_error: of the degradation, as a sample of all data; None where there are no batches to tell.
        batches: batches seen.
        share: how much of the whole sample was evaluated, for counting evaluations.
        is_early: decided before the last batch.
        reason: the decision in words.
    """

    accepted: bool
    degradation: float
    standard_error: float | None
    batches: int
    share: float
    is_early: bool
    reason: str

    @property
    def is_same(self) -> bool:
        """Whether the candidate got the very numbers of the baseline."""
        return self.degradation == 0 and not self.standard_error

    def upper(self, errors: float) -> float:
        """Return the degradation and so many standard errors of the whole sample."""
        return self.degradation + errors * (self.standard_error or 0.0) * math.sqrt(self.share)


@dataclass
class _Differences:
    """Sums over the batches seen: differences to the baseline in units of the bound, and counts.

    The mean is a ratio estimate, sum of differences over sum of counts.
    """

    batches: int = 0
    different: int = 0
    difference: float = 0.0
    count: float = 0.0
    _squares: float = 0.0
    _products: float = 0.0
    _counts: float = 0.0

    def add(self, difference: float, count: float) -> None:
        self.batches += 1
        self.different += difference != 0
        self.difference += difference
        self.count += count
        self._squares += difference * difference
        self._products += difference * count
        self._counts += count * count

    @property
    def mean(self) -> float:
        return self.difference / self.count

    @property
    def spread(self) -> float:
        """The standard deviation of one batch's mean, for a batch of mean count."""
        mean = self.mean
        squares = self._squares - 2 * mean * self._products + mean * mean * self._counts
        variance = max(squares, 0.0) / max(self.batches - 1, 1)
        return math.sqrt(variance) * self.batches / self.count


@dataclass(frozen=True)
class PairedCheck:
    """Decides by the paired mean and two standard errors, as soon as the batches seen leave no doubt.

    At the end a candidate is accepted where mean + 2 standard errors <= epsilon. Of candidates whose noise is
    about as large as the bound, those pass that are lucky on this sample. So where 2 standard errors take
    more than 0.7 of epsilon, 6 are added: only what is better beyond doubt passes. Noise falls
    with the step, so the search goes on with a finer one. Before the end, what is still
    unknown is the mean of the batches to come. Say k of n batches are seen, which hold a share f of the
    counts, with a spread s. Then the mean of all n lies about the one so far with a standard deviation of s
    sqrt((1 - f) / k), as in a sample without replacement (Cochran, section 2.6). The check ends once the
    verdict is the same three such deviations up and down, from batch 6 on. Three instead of two, since there
    is a look after every batch; and they are widened to Student's t of k - 1 degrees of freedom at the same
    probability (Wallace, Annals of Mathematical Statistics 30, 1959), since s is an estimate. The spread is
    taken to be at least epsilon / sqrt(k). How often that decides otherwise than the whole sample is
    simulated by tests/search/test_early_verdict.py. So a search asks once more, of the whole sample, about
    the candidate that it takes.

    Nothing is accepted early while more than half of the batches show no difference at all, as those of an
    accuracy often do: they do not prove that there is none to come.

    All this takes batches that come in no particular order; where the baseline's do not, it waits for all.

    Attributes:
        bound: which way is better.
        stops_early: decide before the last batch where that is possible.
        settings: how sure a verdict is.
    """

    bound: Bound
    stops_early: bool = True
    settings: SearchSettings = SEARCH_DEFAULTS

    def judge(
        self, measured: Measured, baseline: Baseline, epsilon: float, *, whole: bool = False
    ) -> Verdict:
        """Compare a candidate with the baseline.

        Args:
            measured: what the evaluation of the candidate gives; a generator is closed when it is decided.
            baseline: what it gave for the original state.
            epsilon: the degradation accepted.
            whole: accept by the whole sample alone; what clearly breaks the bound is refused early.

        Raises:
            UsageError: it does not give the batches of the baseline. A metric that is not finite is no error:
                the candidate is refused.
        """
        number = as_number(measured)
        if baseline.is_zero:
            return self._refused(NO_SHARE, _Differences(count=0.0), baseline)
        if number is not None:
            if baseline.is_paired:
                raise UsageError("evaluate gave batches for the original and a number now", hint=_SAME_DATA)
            return self._judge_number(number, baseline, epsilon)
        if not baseline.is_paired:
            raise UsageError("evaluate gave a number for the original and batches now", hint=_SAME_DATA)
        with closing(as_batches(measured)) as batches:
            return self._judge_batches(batches, baseline, epsilon, whole=whole)

    def _judge_number(self, number: float, baseline: Baseline, epsilon: float) -> Verdict:
        if not abs(self.bound.degradation(number, baseline.value)) < _FAR:
            return self._refused(f"the metric is {number}", _Differences(batches=1, count=1.0), baseline)
        found = _Differences()
        found.add(self.bound.degradation(number, baseline.value), 1.0)
        return self._verdict(found, baseline, epsilon, accepted=found.mean <= epsilon)

    def _judge_batches(
        self, batches: Generator[Batch], baseline: Baseline, epsilon: float, *, whole: bool
    ) -> Verdict:
        found, value, total = _Differences(), baseline.value, len(baseline.batches)
        looks = self.stops_early and baseline.order <= self.settings.ordered
        first = self.settings.least_batches if looks else total
        for index, (candidate, count) in enumerate(batches):
            wrong = baseline.other(index, count)
            if wrong is not None:
                raise UsageError(wrong, hint=_SAME_DATA)
            worse = self.bound.worse_by(candidate - baseline.batches[index][0], value)
            found.add(worse, count)
            if not abs(worse) < _FAR * count:
                return self._refused(f"batch {index + 1} is {candidate}", found, baseline)
            if first <= found.batches < total:
                clear = _clear(found, baseline, epsilon, self.settings)
                if clear is False or (clear and not whole):
                    return self._verdict(found, baseline, epsilon, accepted=clear)
        if found.batches < total:
            missing = baseline.other(found.batches, math.nan)
            raise UsageError(f"{missing}", hint=_SAME_DATA)
        doubt = _doubt(found.spread / math.sqrt(total), epsilon, self.settings)
        return self._verdict(found, baseline, epsilon, accepted=found.mean + doubt <= epsilon)

    def _verdict(self, found: _Differences, baseline: Baseline, epsilon: float, *, accepted: bool) -> Verdict:
        total = len(baseline.batches)
        error = found.spread / math.sqrt(found.batches) if found.batches > 1 else None
        doubt = "" if error is None else f" ± {error:.3%}"
        seen = f" after {found.batches} of {total} batches" if baseline.is_paired else ""
        is_noisy = found.mean + self.settings.errors * found.spread / math.sqrt(total) <= epsilon
        keeps = "keeps" if accepted else "is too noisy to tell of" if is_noisy else "breaks"
        return Verdict(
            accepted=accepted,
            degradation=found.mean,
            standard_error=error,
            batches=found.batches,
            share=found.count / baseline.count,
            is_early=found.batches < total,
            reason=f"{keeps} {epsilon:.3%}: {found.mean:+.3%}{doubt}{seen}",
        )

    def _refused(self, why: str, found: _Differences, baseline: Baseline) -> Verdict:
        return Verdict(
            accepted=False,
            degradation=math.inf,
            standard_error=None,
            batches=found.batches,
            share=found.count / baseline.count,
            is_early=found.batches < len(baseline.batches),
            reason=f"breaks any bound: {why}",
        )


def _clear(found: _Differences, baseline: Baseline, epsilon: float, settings: SearchSettings) -> bool | None:
    """Return the verdict that the batches to come can hardly change, or None while they can."""
    seen, unseen = found.batches, max(1 - found.count / baseline.count, 0.0)
    error = found.spread / math.sqrt(len(baseline.batches))
    wary = max(found.spread, epsilon / math.sqrt(seen))
    margin = _student(settings.early_errors, seen - 1) * wary * math.sqrt(unseen / seen)
    # The spread is an estimate as well, with a relative deviation of about 1 / sqrt(2 (k - 1)).
    off = settings.early_errors / math.sqrt(2 * (seen - 1))
    least, most = (found.mean + _doubt(error, epsilon, settings, by) for by in (1 - off, 1 + off))
    if least - margin > epsilon:
        return False
    return True if most + margin < epsilon and 2 * found.different >= seen else None


def _doubt(error: float, epsilon: float, settings: SearchSettings, factor: float = 1.0) -> float:
    """Return what has to fit under the bound beside the mean, if a standard error is that times a factor."""
    is_noisy = settings.errors * error * factor > settings.noisy * epsilon
    return (settings.certain if is_noisy else settings.errors) * error


def _student(normal: float, degrees: int) -> float:
    """Return the quantile of Student's t that is as likely as `normal` is of the normal distribution."""
    widened = normal * (8 * degrees + 3) / (8 * degrees + 1)
    return math.sqrt(degrees * math.expm1(widened * widened / degrees))


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

    def __init__(self, bound: Bound, option: str = 'goal="{}"') -> None:
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
