"""An evaluation that is too noisy for its bound says so, and how many batches would do."""

import re
from itertools import pairwise

import numpy as np
import pytest

from mvcs.search import Baseline, Bound, PairedCheck, SampleSize, SamplingNoise, Verdict
from mvcs.search.sampling_noise import doubt_of

EPSILON = 0.01


def judged(batches: int, noise: float, worse: float = 0.002, seed: int = 0) -> tuple[Verdict, Baseline]:
    """Return the verdict on a candidate whose batches differ by `noise`, and what it was compared with."""
    generator = np.random.default_rng(seed)
    losses = generator.normal(2.0, 0.3, batches)
    baseline = Baseline.measure([(loss, 1.0) for loss in losses])
    candidate = losses + baseline.value * generator.normal(worse, noise, batches)
    check = PairedCheck(Bound(EPSILON), stops_early=False)
    return check.judge([(loss, 1.0) for loss in candidate], baseline, EPSILON), baseline


def test_noise_that_leaves_most_of_the_bound_is_not_told() -> None:
    verdict, baseline = judged(64, 0.01)
    assert SamplingNoise().note([verdict], baseline, EPSILON) is None


def test_what_is_left_and_what_would_do_is_told_once() -> None:
    verdict, baseline = judged(16, 0.023)
    told, noise = SamplingNoise(), 2 * (verdict.standard_error or 0)
    note = told.note([verdict], baseline, EPSILON)
    assert note is not None
    assert "16 batches" in note
    assert f"leaves {EPSILON - noise:.2%} of the bound of 1.00%" in note
    assert told.note([verdict], baseline, EPSILON) is None


@pytest.mark.parametrize("seed", range(5))
def test_as_many_batches_as_it_asks_for_leave_as_much_as_it_says(seed: int) -> None:
    note = SamplingNoise().note([(few := judged(30, 0.03, seed=seed))[0]], few[1], EPSILON)
    wanted = re.search(r"about (\d+) such batches would leave half", note or "")
    assert wanted is not None
    verdict, baseline = judged(int(wanted[1]), 0.03, seed=seed + 100)
    doubt = doubt_of([verdict], baseline)
    assert doubt == pytest.approx(EPSILON / 2, rel=0.4)


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
    note = SamplingNoise().note([verdict], baseline, 0.0)
    assert note is not None
    assert note.endswith("leaves nothing of the bound of 0.00%")


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
