"""What a run has learnt of how quality follows from error."""

import math
from dataclasses import dataclass

_DRIFT, _LEAST_NOISE = 0.2, 0.03
_FORGOTTEN = 0.2  # of the gap to the best, from commit to commit
_WIDENING = 1.5  # of the error that is trusted, from commit to commit, at least
_REGAINED = 0.3  # of what it is behind the largest, in its logarithm


@dataclass
class Belief:
    """What degradation a unit of weighted error brings: the mean of its logarithm, and how sure that is.

    It begins with what two runs showed halfway: half, within a factor of four or so. Quality does not follow
    error that simply. Codes kept by hysteresis average over steps, which may even be better than the
    original, and a little coarser is far worse. So an error is tried at most twice as large as one accepted.

    Attributes:
        mean: of the logarithm.
        deviation: of the logarithm.
        trusted: no error above this one is proposed.
    """

    mean: float = math.log(0.5)
    deviation: float = 1.0
    trusted: float = math.inf

    def age(self, best: float, farthest: float) -> None:
        """Know less than at the last commit; what was worse than the best known may be no more.

        Args:
            best: the smallest mean of all beliefs.
            farthest: the largest error that one of them trusts.
        """
        self.mean += _FORGOTTEN * (best - self.mean)
        self.deviation = math.hypot(self.deviation, _DRIFT)
        if self.trusted < math.inf:
            behind = farthest / self.trusted if self.trusted > 0 and farthest < math.inf else 1.0
            self.trusted *= max(behind**_REGAINED, _WIDENING)

    def learn(self, seen: float, noise: float) -> None:
        """Take in a degradation for a unit of error, and the deviation of its logarithm."""
        gap = math.log(seen) - self.mean
        # A surprise says that what was known was worth less.
        known = max(self.deviation, abs(gap) / 2)
        gain = known**2 / (known**2 + noise**2 + _LEAST_NOISE**2)
        self.mean += gain * gap
        self.deviation = known * math.sqrt(1 - gain)

    def most(self, epsilon: float, caution: float) -> float:
        """Return the largest error that is predicted to keep the bound."""
        return min(epsilon / self.predict(1.0, caution), self.trusted)

    def predict(self, error: float, caution: float) -> float:
        """Return the degradation of an error, so many deviations up."""
        return error * math.exp(self.mean + caution * self.deviation)
