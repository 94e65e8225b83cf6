"""When a run commits: every so many steps or seconds, or as often as a share of its time allows."""

import logging
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from statistics import median
from time import perf_counter
from typing import Protocol

from mvcs.errors import UsageError, real, whole

_logger = logging.getLogger("mvcs.train")

DEFAULT_EVERY = 500
PROFILED = 8  # steps that are timed before the first commit, which is the second thing to be measured
COSTS = 3  # commits that the price of the next one is estimated from
STEPS = 32  # steps that the time of the next one is estimated from
SHORTER = 0.8  # an interval that could be shorter stays until it could be shorter than this share of itself

Clock = Callable[[], float]
"""Gives seconds since any moment, and never goes back."""


@dataclass(frozen=True)
class Cost:
    """What one commit took, in seconds.

    Attributes:
        blocked: the training stood still.
        processor: of all threads that worked beside the training.
        wall: from the moment the state was handed over until it was durable.
        full: it was the whole state, not the weights alone.
    """

    blocked: float
    processor: float
    wall: float
    full: bool = True

    @property
    def seconds(self) -> float:
        """What the training paid."""
        return self.blocked + self.processor


class Cadence(Protocol):
    """Decides which steps are committed. The training thread calls all methods but `measured`."""

    def due(self, step: int) -> bool:
        """Tell whether the state after `step` is to be committed; called once after every step."""
        ...

    def taken(self, blocked: float, *, full: bool = True) -> None:
        """Take note of a state that was handed over, due or not, after so many seconds of standing still."""
        ...

    def left_out(self) -> None:
        """Take note that what was due could not be handed over."""
        ...

    def measured(self, cost: Cost) -> None:
        """Take note of what a commit cost, or an attempt; called from any thread, once for each `taken`."""
        ...

    def __str__(self) -> str: ...


class EverySteps:
    """Commits after steps `every - 1`, `2 * every - 1` and so on, whatever happens in between.

    Attributes:
        every: how many steps lie between commits.
    """

    def __init__(self, every: int, name: str = "every") -> None:
        """Count so many steps, a setting of this name.

        Raises:
            UsageError: that is no number of steps.
        """
        self.every = whole(name, every, "commit after every 1 or more steps, a whole number")
        self._before: int | None = None

    def due(self, step: int) -> bool:
        """Tell whether the step is one of those, or steps are counted by twos and it is the one after."""
        before = step - 1 if self._before is None or self._before >= step else self._before
        self._before = step
        return (step + 1) // self.every > (before + 1) // self.every

    def taken(self, blocked: float, *, full: bool = True) -> None:
        """Change nothing."""

    def left_out(self) -> None:
        """Change nothing."""

    def measured(self, cost: Cost) -> None:
        """Change nothing."""

    def __str__(self) -> str:
        return f"every {self.every} steps"


class EverySeconds:
    """Commits after the first step that ends so many seconds after the last commit was handed over."""

    def __init__(self, seconds: float, clock: Clock = perf_counter) -> None:
        """Count seconds from the end of the first step on.

        Raises:
            UsageError: that is no time.
        """
        hint = "give a time above 0"
        self._seconds = real("seconds", seconds, hint)
        if not (math.isfinite(self._seconds) and self._seconds > 0):
            raise UsageError(f"seconds cannot be {seconds}", hint=hint)
        self._clock = clock
        self._since: float | None = None

    def due(self, _step: int) -> bool:
        """Tell whether the time has passed."""
        now = self._clock()
        if self._since is None:
            self._since = now
        return now - self._since >= self._seconds

    def taken(self, _blocked: float, *, full: bool = True) -> None:
        """Begin anew, unless only weights were taken."""
        if full:
            self._since = self._clock()

    def left_out(self) -> None:
        """Begin anew."""
        self._since = self._clock()

    def measured(self, cost: Cost) -> None:
        """Change nothing."""

    def __str__(self) -> str:
        return f"every {self._seconds:g} seconds"


class WithinOverhead:
    """Commits as often as a share of the training time pays for, as CheckFreq does (FAST'21, section 4.2).

    A few steps are timed, one commit is made and measured, and from then on there are

        k = ceil(max(cost / overhead, wall) / step time)

    steps between commits. Both times are medians of the newest measurements, so k follows the run: at once
    when commits have to become rarer, with some inertia when they could be more frequent. Since estimates
    err, no commit begins before the training so far has paid for all earlier ones. That pays for the first
    commit too, for those of weights alone, and for those made by hand.

    Equal readings of the clock and equal costs give equal commits.

    Attributes:
        interval: k; None before a commit was measured.
    """

    def __init__(self, overhead: float, clock: Clock = perf_counter) -> None:
        """Spend at most this share of the training time.

        Raises:
            UsageError: that is no share.
        """
        hint = "give a share of the time, such as 0.005 for 0.5 %"
        self._overhead = real("overhead", overhead, hint)
        if not 0 < self._overhead <= 1:
            raise UsageError(f"overhead cannot be {overhead}", hint=hint)
        self.interval: int | None = None
        self._clock = clock
        self._steps: deque[float] = deque(maxlen=STEPS)
        self._costs: deque[Cost] = deque(maxlen=COSTS)
        self._reports: SimpleQueue[Cost] = SimpleQueue()
        self._since = 0
        self._running = 0
        self._spent = 0.0
        self._trained = 0.0
        self._before: float | None = None
        self._told = 0

    def due(self, _step: int) -> bool:
        """Tell whether the interval is over and paid for."""
        self._time_step()
        self._take_reports()
        if self._running:
            return False
        if not self._costs:
            return self._since >= PROFILED
        self._tune()
        paid = self._spent <= self._overhead * self._trained
        return paid and self.interval is not None and self._since >= self.interval

    def taken(self, blocked: float, *, full: bool = True) -> None:
        """Begin the next interval, and leave the time of standing still out of the next step's."""
        self._running += 1
        if self._before is not None:
            self._before += blocked
        if full:
            self._since = 0

    def left_out(self) -> None:
        """Begin the next interval."""
        self._since = 0

    def measured(self, cost: Cost) -> None:
        """Keep a cost until the next step ends."""
        self._reports.put(cost)

    def _time_step(self) -> None:
        now, before = self._clock(), self._before
        self._before = now
        # What goes on before the first step ends is no step's time.
        if before is not None:
            self._since += 1
            self._steps.append(now - before)
            self._trained += now - before

    def _take_reports(self) -> None:
        while True:
            try:
                cost = self._reports.get_nowait()
            except Empty:
                return
            self._running -= 1
            self._spent += cost.seconds
            if cost.full:
                self._costs.append(cost)

    def _tune(self) -> None:
        step = median(self._steps)
        cost, wall = (median(getattr(cost, name) for cost in self._costs) for name in ("seconds", "wall"))
        wanted = max(1, math.ceil(max(cost / self._overhead, wall) / step)) if step > 0 else 1
        if self.interval is not None and SHORTER * self.interval <= wanted <= self.interval:
            return
        self.interval = wanted
        if SHORTER * self._told <= wanted <= self._told / SHORTER:
            return
        self._told = wanted
        text = "commits are %d steps apart: one costs %.4g s, and a step takes %.4g s"
        _logger.info(text, wanted, cost, step)

    def __str__(self) -> str:
        apart = "not measured yet" if self.interval is None else f"now {self.interval} steps apart"
        return f"within {self._overhead:.3g} of the time, {apart}"


def cadence_of(
    every: int | None, seconds: float | None, overhead: float | None, clock: Clock = perf_counter
) -> Cadence:
    """Return the cadence that one of three settings asks for; 500 steps when none does.

    Raises:
        UsageError: there is more than one, or it is out of range.
    """
    settings = {"every": every, "seconds": seconds, "overhead": overhead}
    given = [name for name, value in settings.items() if value is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other", hint="give one cadence")
    if seconds is not None:
        return EverySeconds(seconds, clock)
    if overhead is not None:
        return WithinOverhead(overhead, clock)
    return EverySteps(DEFAULT_EVERY if every is None else every)
