"""How long one thing takes beside another: processor time, the two in turn; machines are noisy and shared."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mvcs.reports import Report

Work = Callable[[], object]


@dataclass(frozen=True)
class Pairs(Report):
    """Two things that ran in turn.

    Attributes:
        first_s: median seconds of the first.
        second_s: median seconds of the second.
        ratio: median over the pairs of first over second.
        low: lower quartile of that.
        high: upper quartile of that.
    """

    first_s: float
    second_s: float
    ratio: float
    low: float
    high: float

    @classmethod
    def of(cls, found: Sequence[tuple[float, float]]) -> "Pairs":
        """Return what pairs of seconds come to."""
        low, ratio, high = (float(each) for each in np.quantile([a / b for a, b in found], (0.25, 0.5, 0.75)))
        ours, others = zip(*found, strict=True)
        return cls(statistics.median(ours), statistics.median(others), ratio, low, high)


def compare(
    first: Work, second: Work, pairs: int, *, warm: int = 1, clock: Callable[[], float] = time.process_time
) -> Pairs:
    """Run two things in turn, A B A B, and return the seconds of both by a clock.

    The first `warm` pairs do not count: memory is slow when it is touched for the first time. The clock is
    the processor's of this process and all its threads, unless another is given.
    """
    return Pairs.of([(seconds(first, clock), seconds(second, clock)) for _ in range(warm + pairs)][warm:])


def seconds(work: Work, clock: Callable[[], float] = time.process_time) -> float:
    """Return what some work takes by a clock."""
    started = clock()
    work()
    return max(clock() - started, 1e-9)


def copying(size: int) -> float:
    """Return the seconds of the processor that a copy of so many bytes takes, which are in memory."""
    return seconds(np.frombuffer(bytearray(size), np.uint8).copy)


@dataclass(frozen=True)
class Speed(Report):
    """How fast something went.

    Attributes:
        gigabytes: 10^9 bytes of values a second of the processor.
        memcpy: the same as a share of what memcpy reached beside it.
    """

    gigabytes: float
    memcpy: float


class Clock:
    """Times work on some number of bytes, with a copy of as many bytes in every round."""

    def __init__(self, size: int, rounds: int) -> None:
        """Take the median of `rounds` with `size` bytes."""
        self.size = max(size, 1)
        self._rounds = rounds
        self._source = np.ones(self.size, np.uint8)
        self._target = np.zeros(self.size, np.uint8)
        self._copies: list[float] = []
        self._copy()

    @property
    def copied(self) -> float:
        """Gigabytes a second of the copies so far."""
        return self.size / statistics.median(self._copies) / 1e9

    def time(self, work: Work) -> Speed:
        """Run `work` in every round and return its speed."""
        found = compare(self._copy, work, self._rounds, warm=0)
        self._copies.append(found.first_s)
        return Speed(self.size / found.second_s / 1e9, found.ratio)

    def _copy(self) -> None:
        np.copyto(self._target, self._source)
