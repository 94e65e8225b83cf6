"""The search for steps on simulated commits: it keeps the bound, is cheap, and comes close to brute force."""

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from mvcs.search.early_verdict import Verdict
from mvcs.search.settings import SEARCH_DEFAULTS
from mvcs.search.step_search import Attempt, LatticeChoice, LatticeSearch, StepCost

EPSILON = 0.01


def step_value(step: int) -> float:
    return (4 + step % 4) * 2.0 ** (step // 4 - 60)


@dataclass
class Simulated:
    """Layer types whose codes cost their entropy and whose squared error is that of rounding.

    `truth` is the degradation of one unit of error of each layer type, which the search does not know.
    """

    spreads: dict[str, float]
    counts: dict[str, int]
    truth: dict[str, float]
    moved: float = 0.1
    starts: dict[str, int] = field(default_factory=dict)
    parents: dict[str, int] = field(default_factory=dict)

    def cost(self, kind: str, step: int, hysteresis: float) -> StepCost:
        value, count, spread = step_value(step), self.counts[kind], self.spreads[kind]
        share = min(1.0, self.moved * spread / value * (0.6 if hysteresis else 1.0))
        if self.parents and self.parents[kind] != step:
            share = max(share, 0.3)
        bits = -share * math.log2(share) + 1.5 * share if share < 1 else math.log2(spread / value) + 2.05
        error = count * value**2 / 12 * (1.5 if hysteresis else 1.0) / (spread**2 * sum(self.counts.values()))
        return StepCost(int(count * max(bits, 0.001) / 8), error)

    @property
    def hystereses(self) -> tuple[float, ...]:
        return SEARCH_DEFAULTS.hystereses

    @property
    def held(self) -> frozenset[str]:
        return frozenset()

    @property
    def settled(self) -> dict[str, int]:
        return self.parents

    @property
    def coarsest(self) -> dict[str, int]:
        return dict.fromkeys(self.spreads, 255)

    def degradation(self, point: LatticeChoice) -> float:
        return sum(
            self.truth[kind] * self.cost(kind, step, point.hysteresis).error
            for kind, step in point.steps.items()
        )

    def stored(self, point: LatticeChoice) -> int:
        return sum(self.cost(kind, step, point.hysteresis).stored for kind, step in point.steps.items())


def simulated(rng: np.random.Generator, kinds: int = 5, uneven: float = 0.0) -> Simulated:
    names = [f"kind{i}" for i in range(kinds)]
    spreads = {name: float(0.02 * 2 ** rng.uniform(-2, 2)) for name in names}
    starts = {
        name: min(range(256), key=lambda step, s=spread: abs(math.log(step_value(step) / (0.5 * s))))
        for name, spread in spreads.items()
    }
    counts = {name: int(rng.integers(50_000, 2_000_000)) for name in names}
    truth = {name: float(0.4 * 2 ** rng.normal(0, uneven)) for name in names}
    return Simulated(spreads, counts, truth, starts=starts)


def verdict(degradation: float, epsilon: float = EPSILON, noise: float = 0.0002) -> Verdict:
    accepted = degradation + 2 * noise <= epsilon
    return Verdict(accepted, degradation, noise, 16, 1.0, False, "")


def few(seeds: range, quick: int) -> list[object]:
    """The first seeds, and the others for the slow suite."""
    return [pytest.param(seed, marks=[pytest.mark.slow] * (seed >= quick)) for seed in seeds]


@pytest.mark.parametrize("seed", few(range(5), 2))
def test_a_run_keeps_the_bound_with_few_evaluations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    space, search, tests = simulated(rng, uneven=0.5), LatticeSearch(), 0
    for commit in range(40):
        space.moved = 0.15 * 0.93**commit
        space.truth = {kind: value * float(2 ** rng.normal(0, 0.15)) for kind, value in space.truth.items()}
        outcome = search.run([Attempt(space, lambda point: verdict(space.degradation(point)), EPSILON)])
        assert outcome.chosen is not None
        assert space.degradation(outcome.chosen.point) <= EPSILON
        assert outcome.chosen.stored == space.stored(outcome.chosen.point)
        space.parents = space.starts = dict(outcome.chosen.point.steps)
        tests += len(outcome.tested)
    assert tests <= 2.2 * 40  # with the baseline that is 3.2 evaluations a commit


def brute_force(space: Simulated) -> float:
    """The fewest bytes among all points near the starts, one axis a layer type, that keep the bound."""
    least = math.inf
    for hysteresis in SEARCH_DEFAULTS.hystereses:
        stored, degradation = np.zeros(()), np.zeros(())
        for kind, start in space.starts.items():
            costs = [space.cost(kind, start + offset, hysteresis) for offset in range(-8, 9)]
            stored = stored[..., None] + [cost.stored for cost in costs]
            degradation = degradation[..., None] + [space.truth[kind] * cost.error for cost in costs]
        least = min(least, stored[degradation <= EPSILON].min(initial=math.inf))
    return least


@pytest.mark.parametrize("seed", range(8))
def test_the_bytes_are_close_to_those_of_brute_force(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    space = simulated(rng, kinds=3)
    search = LatticeSearch()
    for _ in range(6):
        outcome = search.run(
            [Attempt(space, lambda point: verdict(space.degradation(point), noise=0.0), EPSILON)]
        )
    assert outcome.chosen is not None
    assert outcome.chosen.stored <= 1.03 * brute_force(space)


def test_what_no_step_can_keep_is_not_chosen() -> None:
    space = simulated(np.random.default_rng(0))
    outcome = LatticeSearch().run([Attempt(space, lambda _: verdict(math.inf), EPSILON)])
    assert outcome.chosen is None
    assert 0 < len(outcome.tested) <= LatticeSearch().most


def test_no_point_is_evaluated_twice() -> None:
    space, seen = simulated(np.random.default_rng(1)), []

    def judge(point: LatticeChoice) -> Verdict:
        seen.append((tuple(sorted(point.steps.items())), point.hysteresis))
        return verdict(2 * EPSILON)

    LatticeSearch().run([Attempt(space, judge, EPSILON)])
    assert len(seen) == len(set(seen))


def test_evaluations_are_kept_to_a_mean_of_the_run() -> None:
    """Differences so noisy that every second point is refused."""
    rng = np.random.default_rng(7)
    space, search, spent = simulated(rng), LatticeSearch(mean=2.5), 0.0
    for commit in range(40):
        space.moved = 0.15 * 0.93**commit
        outcome = search.run(
            [
                Attempt(
                    space,
                    lambda point: verdict(space.degradation(point) * float(2 ** rng.normal(0, 1))),
                    EPSILON,
                )
            ]
        )
        spent += 1 + len(outcome.tested)
        space.starts = space.parents = dict(outcome.chosen.point.steps) if outcome.chosen else space.parents
    assert spent <= 40 * 2.5 + 1


def test_a_second_attempt_belongs_to_the_same_commit() -> None:
    """Where what was held keeps no bound, the budget counts one baseline, and models age once."""
    space, search = simulated(np.random.default_rng(2)), LatticeSearch()
    search.run([Attempt(space, lambda point: verdict(space.degradation(point)), EPSILON)])
    space.parents = space.starts
    refused = Attempt(space, lambda _: verdict(2 * EPSILON), EPSILON, most=2)
    kept = Attempt(space, lambda point: verdict(space.degradation(point)), EPSILON)
    before = replace(search)
    outcome = search.run([refused, kept])
    assert not any(each.verdict.accepted for each in outcome.tested[:2])
    assert outcome.chosen in outcome.tested
    assert search.kept == before.kept + 1
    spent = search._spent - before._spent
    assert spent == 1 + len(outcome.tested)
