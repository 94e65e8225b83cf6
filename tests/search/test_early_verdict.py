"""Checks against a baseline: what is accepted, when it is clear, how often early verdicts are other ones."""

import math

import numpy as np
import pytest

from mvcs.errors import UsageError
from mvcs.search import Baseline, Bound, PairedCheck

EPSILON = 0.01
CHECK = PairedCheck(Bound(EPSILON))
WHOLE = PairedCheck(Bound(EPSILON), stops_early=False)


def shuffled(batches=40, seed=0):
    """A baseline of a loss of about 2, with batches far more different from each other than the bound."""
    random = np.random.default_rng(seed)
    counts = np.full(batches, 64.0)
    counts[-1] = 17
    return Baseline.measure(list(zip(random.normal(2, 0.3, batches) * counts, counts, strict=True)))


def candidate(baseline, degradation, noise=0.0, seed=1):
    random = np.random.default_rng(seed)
    mean = baseline.value
    for total, count in baseline.batches:
        yield total + mean * count * (degradation + noise * random.standard_normal()), count


def test_the_bound_decides():
    baseline = shuffled()
    assert WHOLE.judge(candidate(baseline, 0.0099), baseline, EPSILON).accepted
    assert not WHOLE.judge(candidate(baseline, 0.0101), baseline, EPSILON).accepted
    assert WHOLE.judge(candidate(baseline, -0.5), baseline, EPSILON).accepted


def test_two_standard_errors_must_fit():
    baseline = shuffled(36)
    verdict = WHOLE.judge(candidate(baseline, 0.005, noise=0.03), baseline, EPSILON)
    differences = [
        (now - before) / baseline.value
        for (now, _), (before, _) in zip(candidate(baseline, 0.005, 0.03), baseline.batches, strict=True)
    ]
    means = np.array(differences) / [count for _, count in baseline.batches]
    assert verdict.degradation == pytest.approx(sum(differences) / baseline.count)
    assert verdict.standard_error == pytest.approx(means.std(ddof=1) / 6, rel=0.1)
    assert not verdict.accepted
    assert verdict.degradation < EPSILON < verdict.degradation + 2 * verdict.standard_error
    assert verdict.share == 1
    assert not verdict.is_early


@pytest.mark.parametrize(
    ("degradation", "accepted"), [(0.0, True), (-0.1, True), (0.03, False), (1.0, False)]
)
def test_a_clear_case_ends_early_and_the_generator_is_closed(degradation, accepted):
    baseline, closed = shuffled(), []

    def batches():
        try:
            yield from candidate(baseline, degradation, noise=0.002)
        finally:
            closed.append(True)

    verdict = CHECK.judge(batches(), baseline, EPSILON)
    assert verdict.accepted is accepted
    assert verdict.is_early
    assert 6 <= verdict.batches <= 12
    assert verdict.share == pytest.approx(verdict.batches * 64 / baseline.count)
    assert closed == [True]


def test_batches_that_all_say_the_same_are_not_believed_at_once():
    baseline = shuffled()
    nearly = [
        CHECK.judge(candidate(baseline, share * EPSILON), baseline, EPSILON) for share in (1e-6, 0.5, 0.8)
    ]
    assert all(verdict.accepted for verdict in nearly)
    assert 6 == nearly[0].batches < nearly[1].batches < nearly[2].batches < 40


def test_answers_that_seldom_differ_are_all_looked_at():
    """Of 500 batches of four answers the first eleven have none that the candidate gets wrong."""
    check, right = PairedCheck(Bound(EPSILON, "max")), [(4, 4)] * 500
    wrong = [(3, 4) if index > 10 and index % 5 == 0 else (4, 4) for index in range(500)]
    baseline = Baseline.measure(right)
    assert not check.judge(wrong, baseline, EPSILON).accepted
    same = check.judge(right, baseline, EPSILON)
    assert (same.accepted, same.batches, same.is_early) == (True, 500, False)


@pytest.mark.parametrize("degradation", [-0.1, 0.1 * EPSILON])
def test_whoever_asks_for_the_whole_sample_gets_its_verdict(degradation):
    baseline = shuffled()
    early = CHECK.judge(candidate(baseline, degradation, noise=0.002), baseline, EPSILON)
    whole = CHECK.judge(candidate(baseline, degradation, noise=0.002), baseline, EPSILON, whole=True)
    assert (early.accepted, early.is_early) == (True, True)
    assert whole == WHOLE.judge(candidate(baseline, degradation, noise=0.002), baseline, EPSILON)
    refused = CHECK.judge(candidate(baseline, 0.5), baseline, EPSILON, whole=True)
    assert (refused.accepted, refused.is_early) == (False, True)


def test_a_bound_of_nothing_needs_every_batch():
    baseline = shuffled()
    assert CHECK.judge(baseline.batches, baseline, 0.0).share == 1
    assert CHECK.judge(baseline.batches, baseline, 0.0).accepted
    changed = [*baseline.batches[:-1], (baseline.batches[-1][0] + 1e-6, 17)]
    assert not CHECK.judge(changed, baseline, 0.0).accepted


def test_batches_in_an_order_are_all_looked_at():
    baseline = Baseline.measure([(index, 1) for index in range(1, 50)])
    verdict = CHECK.judge(candidate(baseline, 0.0), baseline, EPSILON)
    assert verdict.accepted
    assert verdict.share == 1


def test_accuracy_is_worse_where_it_is_lower():
    check = PairedCheck(Bound(EPSILON, "max"))
    baseline = Baseline.measure([(90, 100)] * 30)
    assert check.judge([(90, 100)] * 30, baseline, EPSILON).accepted
    assert not check.judge([(80, 100)] * 30, baseline, EPSILON).accepted
    assert check.judge([(99, 100)] * 30, baseline, EPSILON).accepted


def test_numbers_are_compared_as_they_are():
    baseline = Baseline.measure(2.0)
    verdict = CHECK.judge(2.019, baseline, EPSILON)
    assert verdict.accepted
    assert verdict.degradation == pytest.approx(0.0095)
    assert verdict.standard_error is None
    assert (verdict.batches, verdict.share, verdict.is_early) == (1, 1, False)
    assert not CHECK.judge(2.021, baseline, EPSILON).accepted


@pytest.mark.parametrize("goal", ["min", "max"])
@pytest.mark.parametrize("batches", [[(0.0, 4)] * 8, [(1.0, 4), (-1.0, 4)] * 4, [(5e-324, 1)] * 8])
def test_nothing_is_told_to_keep_a_share_of_a_metric_of_zero(goal, batches):
    verdict = PairedCheck(Bound(EPSILON, goal)).judge(batches, Baseline.measure(batches), EPSILON)
    assert not verdict.accepted
    assert "gives 0 for the original" in verdict.reason


@pytest.mark.parametrize("scale", [1e-9, 1e-12, 1e-150, 1e-305])
@pytest.mark.parametrize("goal", ["min", "max"])
@pytest.mark.parametrize("sign", [1, -1])
def test_verdicts_do_not_depend_on_the_unit_of_the_metric(scale, goal, sign):
    check = PairedCheck(Bound(EPSILON, goal))
    losses = np.random.default_rng(0).normal(2.0, 0.3, 24)
    worse = [(sign * loss * (1 + 0.02 * (sign if goal == "min" else -sign)), 1) for loss in losses]
    baseline = [(sign * loss, 1) for loss in losses]
    told = check.judge(worse, Baseline.measure(baseline), EPSILON)
    small = Baseline.measure([(total * scale, 1) for total, _ in baseline])
    found = check.judge([(total * scale, 1) for total, _ in worse], small, EPSILON)
    assert not found.accepted
    assert found.degradation == pytest.approx(told.degradation)


def test_a_difference_that_is_too_far_for_a_float_is_refused():
    baseline = Baseline.measure([(1e-300, 1)] * 8)
    for candidate in ([(1e10, 1)] * 8, [(-1e10, 1)] * 8):
        assert not CHECK.judge(candidate, baseline, EPSILON).accepted


def test_a_single_batch_has_no_standard_error():
    baseline = Baseline.measure([(100, 50)])
    verdict = CHECK.judge([(100.5, 50)], baseline, EPSILON)
    assert verdict.accepted
    assert verdict.standard_error is None


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_candidate_that_is_not_finite_is_refused_at_once(value):
    baseline = shuffled()
    verdict = CHECK.judge([baseline.batches[0], (value, 64)], baseline, EPSILON)
    assert not verdict.accepted
    assert verdict.batches == 2
    assert f"batch 2 is {value}" in verdict.reason
    assert not CHECK.judge(value, Baseline.measure(2.0), EPSILON).accepted


def test_other_batches_than_the_baselines_are_an_error():
    baseline = Baseline.measure([(2.0, 4), (3.0, 4), (1.0, 2)])
    for batches, message in [
        ([(2.0, 4), (3.0, 5)], "batch 2 counts 5, but 4 in the baseline"),
        ([(2.0, 4), (3.0, 4)], "ended after 2 of the baseline's 3 batches"),
        ([*baseline.batches, (1, 1)], "more than the baseline's 3 batches"),
        (2.0, "batches for the original and a number now"),
    ]:
        with pytest.raises(UsageError, match=message) as refused:
            CHECK.judge(batches, baseline, EPSILON)
        assert "same batches" in refused.value.hint
    with pytest.raises(UsageError, match="a number for the original and batches now"):
        CHECK.judge([(1, 1)], Baseline.measure(1.0), EPSILON)


def test_the_reason_is_a_sentence():
    baseline = shuffled()
    verdict = CHECK.judge(candidate(baseline, 0.05, 0.001), baseline, EPSILON)
    assert verdict.reason.startswith("breaks 1.000%: +")
    assert f"after {verdict.batches} of 40 batches" in verdict.reason


NOISE = {
    "normal": lambda random, shape: random.standard_normal(shape),
    "heavy tails": lambda random, shape: random.standard_t(3, shape) / math.sqrt(3),
    "flipped answers": lambda random, shape: (
        (random.poisson(1, shape) - random.poisson(1, shape)) / math.sqrt(2)
    ),
    "skewed": lambda random, shape: random.exponential(1, shape) - 1,
}


def simulate(kind, batches, noise, runs, on_edge=False):
    """Return how many early verdicts differ from that of the whole sample, and the mean share evaluated."""
    random = np.random.default_rng([batches, int(10 * noise)])
    baseline = Baseline.measure(
        list(zip(random.normal(100, 10, batches), np.full(batches, 50.0), strict=True))
    )
    unit = baseline.value * 50
    low, high = (-1, 3) if not on_edge else (1 - 2 * noise / math.sqrt(batches),) * 2
    true = random.uniform(low, high, (runs, 1))
    worse = EPSILON * (true + noise * NOISE[kind](random, (runs, batches)))
    wrong, share = 0, 0.0
    for sums in worse * unit + [total for total, _ in baseline.batches]:
        pairs = list(zip(sums, np.full(batches, 50.0), strict=True))
        early = CHECK.judge(pairs, baseline, EPSILON)
        share += early.share
        wrong += early.is_early and early.accepted != WHOLE.judge(pairs, baseline, EPSILON).accepted
    return wrong, share / runs


@pytest.mark.parametrize(
    ("kind", "allowed"),
    [("normal", 0.005), ("heavy tails", 0.015), ("flipped answers", 0.01), ("skewed", 0.03)],
)
def test_early_verdicts_are_those_of_the_whole_sample(kind, allowed):
    """Allowed is the mean over several simulations, and four deviations of one of them."""
    runs = 150
    found = [simulate(kind, batches, noise, runs) for batches in (10, 20, 60) for noise in (0.3, 1, 3)]
    assert sum(wrong for wrong, _ in found) <= allowed * runs * len(found)
    # What it is for: with little noise most of the sample is never evaluated.
    assert simulate(kind, 60, 0.3, 50)[1] < 0.3


def test_early_verdicts_on_the_edge_of_the_bound():
    found = [simulate("normal", batches, 1, 300, on_edge=True)[0] for batches in (10, 20, 60)]
    assert sum(found) <= 0.02 * 900
