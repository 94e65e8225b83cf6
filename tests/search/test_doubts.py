"""An evaluation that is too noisy for its bound says so, and how many batches would do."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import fmean

import numpy as np
import pytest

from mvcs.search import (
    Attempt,
    Baseline,
    Bound,
    LatticeChoice,
    LatticeSearch,
    PairedCheck,
    SampleSize,
    SamplingNoise,
    StepCost,
    Verdict,
)
from mvcs.search.early_verdict import doubt_of
from tests.search.lone import Lone

EPSILON = 0.01


def judged(batches: int, noise: float, worse: float = 0.002, seed: int = 0) -> tuple[Verdict, Baseline]:
    """Return the verdict on a candidate whose batches differ by `noise`, and what it was compared with."""
    generator = np.random.default_rng(seed)
    losses = generator.normal(2.0, 0.3, batches)
    baseline = Baseline.measure([(loss, 1.0) for loss in losses])
    drawn = generator.normal(size=batches)
    drawn = (drawn - drawn.mean()) / drawn.std(ddof=1)  # so that no luck is in mean and deviation
    candidate = losses + baseline.value * (worse + noise * drawn)
    check = PairedCheck(Bound(EPSILON), stops_early=False)
    return check.judge([(loss, 1.0) for loss in candidate], baseline, EPSILON), baseline


def test_noise_that_leaves_most_of_the_bound_is_not_told() -> None:
    verdict, baseline = judged(64, 0.01)
    assert verdict.accepted
    assert SamplingNoise().note([verdict], baseline, EPSILON) is None


@pytest.mark.parametrize("luck", [0.0, 0.3, 0.9, 1.3])
def test_a_measured_improvement_within_the_noise_is_no_reason_to_accept(luck: float) -> None:
    """Whatever was measured: such candidates are accepted because the sample was kind to them."""
    verdict, _ = judged(16, 0.023, worse=-luck * EPSILON)
    assert not verdict.accepted
    if verdict.upper(2) <= EPSILON:
        assert verdict.reason.startswith("is too noisy to tell of 1.000%")
    sure, _ = judged(16, 0.023, worse=-5 * EPSILON)
    assert sure.accepted


def test_what_was_refused_for_a_part_of_the_bound_is_not_too_noisy() -> None:
    verdict, baseline = judged(64, 0.01)
    assert SamplingNoise().note([replace(verdict, accepted=False)], baseline, EPSILON) is None


def test_what_is_too_noisy_and_what_would_do_is_told_once() -> None:
    verdict, baseline = judged(16, 0.025, worse=-0.01)
    told, noise = SamplingNoise(), 2 * (verdict.standard_error or 0)
    note = told.note([verdict], baseline, EPSILON)
    assert note is not None
    assert f"16 batches tell a degradation to ± {noise:.2%}" in note
    assert told.note([verdict], baseline, EPSILON) is None


@pytest.mark.parametrize("seed", range(5))
def test_as_many_batches_as_it_asks_for_are_enough(seed: int) -> None:
    note = SamplingNoise().note([(few := judged(20, 0.025, -0.01, seed))[0]], few[1], EPSILON)
    wanted = re.search(r"give about (\d+) such batches", note or "")
    assert wanted is not None
    verdict, baseline = judged(int(wanted[1]), 0.025, seed=seed + 100)
    doubt = doubt_of([verdict], baseline)
    assert doubt == pytest.approx(0.3 * EPSILON, rel=0.05)


def test_a_verdict_that_came_early_speaks_for_the_whole_sample() -> None:
    generator = np.random.default_rng(1)
    losses = generator.normal(2.0, 0.3, 100)
    baseline = Baseline.measure([(loss, 1.0) for loss in losses])
    worse = losses + baseline.value * generator.normal(0.1, 0.02, 100)
    verdict = PairedCheck(Bound(EPSILON)).judge([(loss, 1.0) for loss in worse], baseline, EPSILON)
    assert verdict.is_early
    doubt = doubt_of([verdict], baseline)
    assert doubt == pytest.approx(2 * 0.02 / 10, rel=0.6)


def test_a_number_and_a_bound_of_nothing_are_no_reason_to_ask_for_batches() -> None:
    verdict, baseline = judged(16, 0.023)
    number = Baseline.measure(2.0)
    alone = PairedCheck(Bound(EPSILON)).judge(2.001, number, EPSILON)
    assert SamplingNoise().note([alone], number, EPSILON) is None
    assert SamplingNoise().note([verdict], baseline, 0.0) is None


def test_nothing_judged_is_nothing_to_say() -> None:
    _, baseline = judged(16, 0.023)
    assert SamplingNoise().note([], baseline, EPSILON) is None


@pytest.mark.parametrize("noise", [0.002, 0.01, 0.05])
def test_later_commits_take_as_many_batches_as_the_bound_needs(noise: float) -> None:
    size, taken = SampleSize(10), []
    for seed in range(12):
        assert size.batches is not None
        verdict, baseline = judged(size.batches, noise, seed=seed)
        taken.append(size.batches)
        size.learn([verdict], baseline, EPSILON)
    needed = max(10.0, (2 * noise / (0.3 * EPSILON)) ** 2)
    assert needed / 2.5 <= np.median(taken[5:]) <= needed * 2.5
    assert all(after <= 4 * before for before, after in pairwise(taken))
    assert min(taken) == 10


def test_all_batches_are_taken_where_nobody_said_how_many() -> None:
    size, (verdict, baseline) = SampleSize(None), judged(16, 0.05)
    size.learn([verdict], baseline, EPSILON)
    assert size.batches is None


@dataclass
class Noisy(Lone):
    """One layer type. Degradation grows like the error, noise like its root; kept codes keep their luck."""

    noise: float = 1.0
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    luck: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def hystereses(self) -> tuple[float, ...]:
        return (0.0,) if self.parent is None else (0.5,)

    def cost(self, kind: str, step: int, hysteresis: float) -> StepCost:  # noqa: ARG002 - a space's
        bits = math.log2(1 + 2.0 ** ((216 - step) / 4)) * (0.1 if step == self.parent else 1.0)
        return StepCost(1e5 * bits, 2.0 ** ((step - 212) / 2) * EPSILON)

    def true(self, step: int) -> float:
        return 0.6 * self.cost("weights", step, 0.0).error

    def judge(self, point: LatticeChoice, *, whole: bool = False) -> Verdict:
        step = point.steps["weights"]
        luck = self.luck.setdefault(step, self.rng.standard_normal(16))
        spread = 4 * self.noise * EPSILON * math.sqrt(self.cost("weights", step, 0.0).error / EPSILON)
        batches = [(1 + self.true(step) + spread * one, 1.0) for one in luck]
        return PairedCheck(Bound(EPSILON)).judge(batches, Baseline(((1.0, 1.0),) * 16), EPSILON, whole=whole)

    def commits(self, count: int) -> Iterator[tuple[float, float]]:
        """Yield what is recorded and what is true of each commit."""
        search = LatticeSearch()
        for _ in range(count):
            chosen = search.run([Attempt(self, self.judge, EPSILON, thorough=self.parent is None)]).chosen
            assert chosen is not None
            self.parent = step = chosen.point.steps["weights"]
            yield chosen.verdict.degradation, self.true(step)
            self.luck = {step: 0.9 * self.luck[step] + math.sqrt(0.19) * self.rng.standard_normal(16)}


@pytest.mark.parametrize("noise", [0.1, 0.3, 0.6, 1.2, 3.0])
def test_what_is_recorded_is_not_better_than_what_is_true(noise: float) -> None:
    """Standard errors of so many bounds at the error that just keeps it."""
    spaces = [Noisy(noise=noise, rng=np.random.default_rng(seed)) for seed in range(8)]
    found = [pair for space in spaces for pair in space.commits(25)]
    assert abs(fmean(told - true for told, true in found)) <= 0.2 * EPSILON
    assert max(true for _, true in found) <= EPSILON
