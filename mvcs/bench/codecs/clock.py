"""Speed as a ratio to memcpy of the same number of bytes in the same run; machines differ and are noisy."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mvcs.reports import Report

_WARM = 3


@dataclass(frozen=True)
class Speed(Report):
    """How fast something went.

    Attributes:
        gigabytes: 10^9 bytes of values a second.
        memcpy: the same as a share of what memcpy reached beside it.
    """

    gigabytes: float
    memcpy: float


class Clock:
    """Times work on some number of bytes, with a copy of as many bytes in every round."""

    def __init__(self, size: int, rounds: int) -> None:
        """Take the best of `rounds` with `size` bytes."""
        self.size = max(size, 1)
        self._rounds = rounds
        self._source = np.ones(self.size, np.uint8)
        self._target = np.zeros(self.size, np.uint8)
        # Memory is slow when it is touched for the first time.
        self._copy = min(self._copied() for _ in range(_WARM))

    @property
    def copied(self) -> float:
        """Gigabytes a second of the best copy so far."""
        return self.size / self._copy / 1e9

    def time(self, work: Callable[[], object]) -> Speed:
        """Run `work` in every round and return its best speed."""
        best = float("inf")
        for _ in range(self._rounds):
            self._copy = min(self._copy, self._copied())
            best = min(best, _seconds(work))
        return Speed(self.size / best / 1e9, self._copy / best)

    def _copied(self) -> float:
        return _seconds(lambda: np.copyto(self._target, self._source))


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return max(time.perf_counter() - started, 1e-9)
