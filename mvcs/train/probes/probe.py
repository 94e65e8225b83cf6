"""Resume probes: training on from a restored state, against training on from the exact one."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvcs.errors import EvaluationError, MvcsError, UsageError, some_of
from mvcs.reports import Report
from mvcs.train.evaluation.call_evaluate import located
from mvcs.train.state import rng

Losses = Iterable[float] | Iterable[tuple[int, float]]
Train = Callable[[Any, int], Losses]

_SURE = 2.0  # standard errors that a slope has to be away from none
_FEWEST = 8
_TOLD = 6


@dataclass(frozen=True)
class Probe(Report):
    """Losses of two arms that trained on over the same data.

    Attributes:
        steps: where losses were taken, counted as `train` counts them, or from 1.
        exact: losses of the arm that continued from the exact state.
        restored: losses of the other arm; infinite from where one was not finite.
        excess: the mean of restored - exact over the mean magnitude of exact, in %; positive is worse.
        excess_late: the same over the second half of the losses.
        lost_steps: how many steps of progress the restored arm is behind, over the second half; None where
            the exact arm's loss does not fall clearly enough to say.
    """

    steps: list[int]
    exact: list[float]
    restored: list[float]
    excess: float
    excess_late: float
    lost_steps: float | None


def probe(train: Train, exact_state: object, restored_state: object, steps: int) -> Probe:
    """Train on from two states over the same data and compare the losses.

    Both arms start from the same state of the global random generators, which are as before in the end.

    Args:
        train: the user's function: builds model and optimizer from a state (a nested dict as `checkout`
            returns it), trains so many steps, and returns or yields a loss for each of them, or pairs
            (step, loss) for as many as it likes. It may change the state. The data must depend on nothing but
            the state.
        exact_state: what was handed over to the commit.
        restored_state: what is restored.
        steps: how many steps to train.

    Raises:
        UsageError: `train` gives no losses, too few, other steps for the second arm than for the first, or a
            loss of the exact state that is not finite.
        EvaluationError: `train` raised an error.
    """
    arms = {"restored": lambda: restored_state}
    return probe_all(train, lambda: exact_state, arms, steps)["restored"]


def probe_all(
    train: Train, exact: Callable[[], object], arms: Mapping[str, Callable[[], object]], steps: int
) -> dict[str, Probe]:
    """Train on once from an exact state, and from every other one; see `probe`.

    Args:
        train: the user's function.
        exact: makes the exact state.
        arms: make the other states, by name; each is asked for when its turn comes.
        steps: how many steps to train.
    """
    if steps < 1:
        raise UsageError(f"a probe cannot train {steps} steps", hint="use 1 or more; 100 tell enough")
    places, losses = _exact_arm(train, exact(), steps)
    return {name: _against(train, made(), name, (places, losses), steps) for name, made in arms.items()}


def _exact_arm(train: Train, state: object, steps: int) -> tuple[list[int], list[float]]:
    places, exact = _arm(train, state, steps, "exact")
    broken = next((step for step, loss in zip(places, exact, strict=True) if not math.isfinite(loss)), None)
    if broken is not None:
        raise UsageError(
            f"the loss of the exact state is not finite at step {broken} of the probe",
            hint="the function must train on from the state it is given",
        )
    return places, exact


def _against(
    train: Train, state: object, name: str, exact: tuple[list[int], list[float]], steps: int
) -> Probe:
    places, restored = _arm(train, state, steps, name)
    if places != exact[0]:
        raise UsageError(
            f"losses of the {name} state are those of other steps: {_told(places)}, not {_told(exact[0])}",
            hint="a probe's function must take the same steps whatever the state",
        )
    return compared(*exact, restored)


def compared(steps: list[int], exact: list[float], restored: list[float]) -> Probe:
    """Return a probe of losses that were measured already.

    Steps of progress are the excess over the slope of a straight line through the exact arm's losses.
    """
    seen = np.minimum.accumulate(np.isfinite(restored))
    found = np.where(seen, restored, np.inf)
    late = slice(len(steps) // 2, None)
    base, excess = np.asarray(exact), found - np.asarray(exact)
    slope = _slope(np.asarray(steps, float), base)
    lost = None if slope is None or not seen.all() else float(excess[late].mean() / -slope)
    return Probe(
        steps, exact, found.tolist(), _percent(excess, base), _percent(excess[late], base[late]), lost
    )


def _percent(excess: NDArray[np.float64], base: NDArray[np.float64]) -> float:
    scale = float(np.abs(base).mean())
    return float(100 * excess.mean() / scale) if scale else math.inf if excess.any() else 0.0


def _slope(steps: NDArray[np.float64], losses: NDArray[np.float64]) -> float | None:
    """Return how the loss moves with every step; None unless it falls clearly."""
    if len(steps) < _FEWEST:
        return None
    centered = steps - steps.mean()
    spread = float(centered @ centered)
    slope = float(centered @ losses) / spread
    rest = losses - losses.mean() - slope * centered
    error = math.sqrt(float(rest @ rest) / (len(steps) - 2) / spread)
    return slope if slope < -_SURE * error else None


def _arm(train: Train, state: object, steps: int, name: str) -> tuple[list[int], list[float]]:
    with _same_random_numbers(), _named(name):
        given = train(state, steps)
        if not isinstance(given, Iterable):
            raise UsageError(
                f"a probe's function gave a '{type(given).__name__}'",
                hint="return or yield a loss for every step, or pairs of step and loss",
            )
        items = list(given)
        pairs = [item for item in items if isinstance(item, tuple)]
        if len(items) != steps and not pairs:
            raise UsageError(
                f"a probe's function gave {len(items)} losses for {steps} steps of the {name} state",
                hint="return or yield a loss for every step, or pairs of step and loss",
            )
        found = pairs or list(enumerate(items, 1))
        return _ascending([int(step) for step, _ in found], name), [float(loss) for _, loss in found]


def _ascending(steps: list[int], name: str) -> list[int]:
    if steps != sorted(set(steps)):
        raise UsageError(
            f"the losses of the {name} state are those of steps {_told(steps)}",
            hint="give the loss of every step once, in order",
        )
    return steps


def _told(steps: list[int]) -> str:
    return some_of([str(step) for step in steps], _TOLD)


@contextmanager
def _same_random_numbers() -> Iterator[None]:
    """Let the global generators be in the end as they were before, so that both arms draw the same."""
    before = rng.capture()
    try:
        yield
    finally:
        rng.restore(before)


@contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        yield
    except MvcsError:
        raise
    except Exception as error:
        raise EvaluationError(f"training on from the {name} state failed: {located(error)}") from error
