"""What a run has learnt of how quality follows from error."""

import math
from dataclasses import dataclass, field

from mvcs.search.settings import SEARCH_DEFAULTS, SearchSettings


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

    def miss(self) -> None:
        """Remember less of how far errors went: as much of it was refused."""
        self.reached *= self.settings.missed

    def most(self, epsilon: float, caution: float) -> float:
        """Return the largest error that is predicted to keep the bound."""
        return min(epsilon / self.predict(1.0, caution), self.limit)

    def predict(self, error: float, caution: float) -> float:
        """Return the degradation of an error, so many deviations up."""
        return error * math.exp(self.mean + caution * self.deviation)
