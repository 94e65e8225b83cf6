"""How the learning rate of a run moves."""

import math
from dataclasses import dataclass
from typing import Protocol


class Schedule(Protocol):
    """A learning rate for each step."""

    @property
    def peak(self) -> float:
        """The learning rate after the warm-up."""
        ...

    def rate(self, step: int, steps: int, /) -> float:
        """Return the learning rate of one step of `steps`."""
        ...


@dataclass(frozen=True)
class Cosine:
    """A linear warm-up, then half a cosine.

    Attributes:
        peak: the learning rate after the warm-up.
        floor: the share of the peak at the last step.
        warm: steps of the warm-up.
    """

    peak: float
    floor: float
    warm: int

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of one step of `steps`."""
        if step < self.warm:
            return self.peak * (step + 1) / self.warm
        done = (step - self.warm) / max(steps - self.warm, 1)
        return self.peak * (self.floor + (1 - self.floor) * (1 + math.cos(math.pi * done)) / 2)


@dataclass(frozen=True)
class Constant:
    """A linear warm-up, then always the same.

    Attributes:
        peak: the learning rate after the warm-up.
        warm: steps of the warm-up.
    """

    peak: float
    warm: int

    def rate(self, step: int, _steps: int) -> float:
        """Return the learning rate of one step, however many there are."""
        return self.peak * min((step + 1) / max(self.warm, 1), 1.0)


def is_constant(schedule: Schedule, start: int, end: int, steps: int) -> bool:
    """Tell whether all steps from `start` to before `end` have the peak's rate, in a run of `steps`."""
    return all(schedule.rate(step, steps) == schedule.peak for step in range(start, end))
