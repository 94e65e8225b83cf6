"""An evaluation of too few batches: most of a bound is then taken by doubt."""

import math
from collections.abc import Sequence

from mvcs.search.baseline import Baseline
from mvcs.search.early_verdict import Verdict
from mvcs.search.settings import SEARCH_DEFAULTS, SearchSettings


class SamplingNoise:
    """Tells how much of a bound an evaluation's sampling error takes, when that is more than it should.

    A candidate is accepted where its mean degradation and two standard errors keep the bound (`PairedCheck`).
    So what the mean may be is the bound less two standard errors. Those fall with the root of the number of
    batches (Cochran, Sampling Techniques, 3rd ed., section 2.6).
    """

    def __init__(self, settings: SearchSettings = SEARCH_DEFAULTS) -> None:
        self._settings = settings
        self._told = 0.0

    def note(self, verdicts: Sequence[Verdict], baseline: Baseline, epsilon: float) -> str | None:
        """Return what there is to say of a commit's evaluations; None where nothing new is.

        Args:
            verdicts: of its candidates, in order; the last accepted one counts, else the surest.
            baseline: what they were compared with.
            epsilon: the degradation accepted.
        """
        accepted = [verdict for verdict in verdicts if verdict.accepted]
        doubts = [self.doubt(verdict, baseline) for verdict in accepted[-1:] or verdicts]
        doubt = min((each for each in doubts if each is not None), default=0.0)
        if doubt <= self._settings.noisy * epsilon or doubt <= 2 * self._told:
            return None
        self._told = doubt
        return _told(doubt, baseline, epsilon, self._settings.noisy, relative=verdicts[-1].is_relative)

    def doubt(self, verdict: Verdict, baseline: Baseline) -> float | None:
        """Return what a verdict on the whole sample adds to the mean; None where there is no error."""
        error = verdict.standard_error
        if error is None or not math.isfinite(error):
            return None
        return self._settings.errors * error * math.sqrt(verdict.batches / len(baseline.batches))


def _told(doubt: float, baseline: Baseline, epsilon: float, share: float, *, relative: bool) -> str:
    show = "{:.2%}".format if relative else "{:.3g}".format
    count = len(baseline.batches)
    leaves = show(epsilon - doubt) if doubt < epsilon else "nothing"
    told = (
        f"the evaluation's {count} batches tell a degradation to ± {show(doubt)} (two standard errors), "
        f"which leaves {leaves} of the bound of {show(epsilon)}"
    )
    if not epsilon:
        return told
    wanted = _rounded(count * (doubt / epsilon / share) ** 2)
    return f"{told}: about {wanted} such batches would leave {1 - share:.0%} of it"


def _rounded(batches: float) -> int:
    """Round up to one digit and a half: more would say more than is known."""
    digits = max(math.floor(math.log10(batches)) - 1, 0)
    unit = int(10**digits) * (5 if digits else 1)
    return math.ceil(batches / unit) * unit
