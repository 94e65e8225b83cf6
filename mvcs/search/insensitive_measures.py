"""An evaluation that no rounding moves: a bound of such a measure bounds nothing."""

from mvcs.search.early_verdict import Verdict
from mvcs.search.settings import SEARCH_DEFAULTS, SearchSettings


class InsensitiveMeasure:
    """Counts the quantized models that an evaluation does not tell from the original, until it tells one."""

    def __init__(self, settings: SearchSettings = SEARCH_DEFAULTS) -> None:
        self._count: int | None = 0
        self._suspicious = settings.suspicious

    def judged(self, verdict: Verdict) -> bool:
        """Take note of one more model; true for the one at which the evaluation becomes suspicious."""
        if self._count is not None:
            same = verdict.degradation == 0 and not verdict.standard_error
            self._count = self._count + 1 if same else None
        return self._count == self._suspicious

    @property
    def doubt(self) -> str | None:
        """What there is to ask; None while too few models were judged, and once one was told apart."""
        if self._count is None or self._count < self._suspicious:
            return None
        return (
            f"the evaluation gave for {self._count} quantized models exactly what it gives for the original: "
            "does it use the model that it is given?"
        )
