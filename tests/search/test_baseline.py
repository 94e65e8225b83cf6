"""What an evaluation may give, and which evaluations are refused."""

import math

import numpy as np
import pytest
import torch

from mvcs.errors import UsageError
from mvcs.search import Baseline, check_repeatable
from mvcs.search.settings import SEARCH_DEFAULTS


@pytest.mark.parametrize("number", [2, 2.0, np.float32(2), np.array(2.0), torch.tensor(2.0), True + True])
def test_a_number(number):
    baseline = Baseline.measure(number)
    assert baseline.value == 2.0
    assert not baseline.is_paired


def test_batches_are_weighted_by_their_counts():
    baseline = Baseline.measure(
        (torch.tensor(total), np.int64(count)) for total, count in [(6.0, 2), (1.0, 8)]
    )
    assert baseline.batches == ((6.0, 2.0), (1.0, 8.0))
    assert baseline.is_paired
    assert baseline.value == pytest.approx(0.7)
    assert baseline.count == 10


@pytest.mark.parametrize("nothing", [None, "0.5", {"loss": 0.5}, object(), torch.ones(3), np.ones(3)])
def test_what_is_neither_is_refused(nothing):
    with pytest.raises(UsageError, match="evaluate returned") as refused:
        Baseline.measure(nothing)
    assert "yield (sum, count)" in refused.value.hint


@pytest.mark.parametrize("batch", [3.0, (1, 2, 3), (1.0, 0), (1.0, -1), (1.0, math.nan), ("a", 1), None])
def test_a_batch_is_a_sum_and_a_count(batch):
    with pytest.raises(UsageError, match="batch 2 of the evaluation"):
        Baseline.measure([(1.0, 1), batch])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_an_original_that_is_not_finite_is_refused(value):
    with pytest.raises(UsageError, match=r"evaluate gave .* for the original state"):
        Baseline.measure(value)
    with pytest.raises(UsageError, match=r"batch 2 .* for the original state"):
        Baseline.measure([(1, 1), (value, 1)])
    with pytest.raises(UsageError, match="no batches"):
        Baseline.measure([])


@pytest.mark.parametrize("batches", [[(1e308, 1), (1e308, 1)], [(1e308, 1e-9)]])
def test_an_original_that_is_finite_and_too_large_to_be_added_up_is_told(batches):
    with pytest.raises(UsageError, match="finite, but too large to be added up") as refused:
        Baseline.measure(batches)
    assert "divide every sum" in refused.value.hint


def test_the_same_again_is_accepted_and_counted():
    sums = [(2.0, 4), (3.0, 4), (1.0, 2)]
    baseline = Baseline.measure(sums)
    assert check_repeatable(sums, baseline, batches=2) == pytest.approx(0.8)
    assert check_repeatable([(2.0 * (1 + 1e-7), 4)], baseline) == pytest.approx(0.4)
    assert check_repeatable(sums, baseline, batches=99) == 1
    assert check_repeatable(0.5, Baseline.measure(0.5)) == 1


@pytest.mark.parametrize("again", [[(2.001, 4)], [(2.0, 5)], [], [(math.nan, 4)]])
def test_something_else_the_second_time_is_refused(again):
    with pytest.raises(UsageError, match="the evaluation is random") as refused:
        check_repeatable(again, Baseline.measure([(2.0, 4), (3.0, 4)]))
    assert "seed" in refused.value.hint
    with pytest.raises(UsageError, match="the metric of the same weights is"):
        check_repeatable(0.5, Baseline.measure(0.6))
    with pytest.raises(UsageError, match="a number once and batches"):
        check_repeatable(0.5, Baseline.measure([(1, 1)]))


def test_tiny_metrics_are_compared_in_their_own_unit():
    tiny = [(2e-15, 1), (1e-30, 1)]
    assert check_repeatable(tiny, Baseline.measure(tiny), batches=2) == 1
    with pytest.raises(UsageError, match="the evaluation is random"):
        check_repeatable([(2.1e-15, 1)], Baseline.measure(tiny))


def test_a_second_evaluation_stops_after_the_batches_compared():
    done = []

    def batches():
        try:
            for index in range(5):
                done.append(index)
                yield 1.0, 1
        finally:
            done.append("closed")

    check_repeatable(batches(), Baseline.measure([(1.0, 1)] * 5), batches=2)
    assert done == [0, 1, "closed"]


def test_batches_in_an_order_are_told_from_shuffled_ones():
    random = np.random.default_rng(0)
    sums = random.normal(100, 5, 60)
    assert Baseline.measure([(total, 50) for total in np.sort(sums)]).order > SEARCH_DEFAULTS.ordered
    assert Baseline.measure([(total, 50) for total in sums]).order < SEARCH_DEFAULTS.ordered
    assert Baseline.measure([(1.0, 2)] * 20).order == 0
