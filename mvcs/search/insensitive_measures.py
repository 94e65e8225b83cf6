"""Evaluations that see no difference: they may not use what they are given."""

from mvcs.search.early_verdict import Verdict
from mvcs.search.settings import SEARCH_DEFAULTS, SearchSettings


class InsensitiveMeasure:
    """Counts the quantized models that an evaluation does not tell from the original, until it tells one."""

    def __init__(self, settings: SearchSettings = SEARCH_DEFAULTS) -> None:
        self._count: int | None = 0
        self._suspicious = settings.suspicious

    def judged(self, verdict: Verdict) -> bool:
        """Take note of one more model; true for the one at which the evaluation becomes suspicious."""
        if not verdict.is_same:
            self.told_apart()
        elif self._count is not None:
            self._count += 1
        return self._count == self._suspicious

    def told_apart(self) -> None:
        """Take note that the evaluation tells other weights from the original, once for all."""
        self._count = None

    @property
    def doubt(self) -> str | None:
        """What there is to ask; None while too few models were judged, and once one was told apart."""
        if self._count is None or self._count < self._suspicious:
            return None
        return (
            f"the evaluation gave for {self._count} quantized models exactly what it gives for the original: "
            "does it use the model that it is given?"
        )
