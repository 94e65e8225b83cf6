"""The numbers a loop tells with a step: what is no number costs itself, and neither commit nor run."""

import logging
from collections.abc import Mapping

from mvcs.errors import UsageError, number, text

_logger = logging.getLogger("mvcs.train")


class Metrics:
    """Takes what a loop gives as metrics, and warns once of each that is left out."""

    def __init__(self) -> None:
        self._warned: set[object] = set()

    def numbers(self, metrics: object) -> dict[str, float]:
        """Return those that are single numbers, by name."""
        if metrics is None:
            return {}
        if not isinstance(metrics, Mapping):
            self._warn(None, f"metrics cannot be {metrics!r}")
            return {}
        found = {}
        for name, value in metrics.items():
            try:
                text("the name of a metric", name)
                found[name] = number(f"the metric '{name}'", value, "")
            except UsageError as error:
                self._warn(name, error.message)
        return found

    def _warn(self, name: object, what: str) -> None:
        if name not in self._warned:
            self._warned.add(name)
            _logger.warning(
                "%s; commits are made without it: give numbers by name, as in {'loss': 0.5}", what
            )
