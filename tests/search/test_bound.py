"""Which degradation a bound accepts, and what degradation is."""

import math

import pytest

from mvcs.errors import UsageError
from mvcs.search import Bound


def test_worse_is_positive_whichever_way_is_better():
    assert Bound(0.01, "min").degradation(2.1, 2.0) == pytest.approx(0.05)
    assert Bound(0.01, "max").degradation(0.9, 1.0) == pytest.approx(0.1)
    assert Bound(0.01, "max").degradation(1.1, 1.0) == pytest.approx(-0.1)


def test_a_negative_metric_is_relative_to_its_size():
    assert Bound(0.01, "min").degradation(-1.9, -2.0) == pytest.approx(0.05)
    assert Bound(0.01, "max").degradation(-2.1, -2.0) == pytest.approx(0.05)


@pytest.mark.parametrize("baseline", [1e-7, -1e-6, 3e-9, -1e-300, 1e300])
@pytest.mark.parametrize("goal", ["min", "max"])
def test_degradation_is_a_share_of_a_metric_of_any_magnitude(baseline, goal):
    worse = baseline + 0.02 * abs(baseline) * (1 if goal == "min" else -1)
    assert Bound(0.01, goal).degradation(worse, baseline) == pytest.approx(0.02)


def test_a_schedule_is_asked_for_each_step():
    bound = Bound(lambda step: 0.05 if step < 100 else 0.01)
    assert bound.epsilon(99) == 0.05
    assert bound.epsilon(100) == 0.01
    assert Bound(1).epsilon(7) == 1.0


@pytest.mark.parametrize("value", [-0.01, math.nan, math.inf, "much", None])
def test_a_bound_is_a_finite_number_of_at_least_nothing(value):
    with pytest.raises(UsageError, match="max_degradation cannot be"):
        Bound(value)
    with pytest.raises(UsageError, match="max_degradation of step 3 cannot be"):
        Bound(lambda _step: value).epsilon(3)


def test_the_goal_is_checked():
    with pytest.raises(UsageError, match="goal cannot be 'lower'"):
        Bound(0.01, "lower")
