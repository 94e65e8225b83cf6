"""An evaluation that looks like an accuracy, where nobody said that higher is better."""

from collections.abc import Sequence
from typing import Final

from mvcs.search.baseline import Baseline, Batch
from mvcs.search.bound import Bound

_LEAST_COUNT: Final = 10  # so few answers in a single batch are a whole number by chance
_OPTION: Final = 'goal="{}"'


class ForgottenGoal:
    """Looks at the first baseline that can tell.

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
