"""Two things are compared by what they spend, in turn."""

import itertools

import pytest

from mvcs.bench.codecs.clock import Clock, compare


def test_two_things_run_in_turn():
    order = []
    compare(lambda: order.append("A"), lambda: order.append("B"), 2)
    assert "".join(order) == "ABABAB"


def test_the_ratio_is_the_median_of_the_pairs_with_its_quartiles():
    spent = iter([9, 1, 2, 1, 8, 2, 3, 1])  # a first pair that does not count, then 2, 4 and 3
    now = itertools.accumulate(each for one in spent for each in (0, one))
    found = compare(lambda: None, lambda: None, 3, clock=lambda: next(now))
    assert (found.first_s, found.second_s) == (3, 1)
    assert (found.ratio, found.low, found.high) == pytest.approx((3, 2.5, 3.5))


def test_speed_is_a_share_of_copies_of_as_many_bytes():
    clock = Clock(1 << 20, 3)
    found = clock.time(lambda: None)
    assert found.memcpy > 1
    assert clock.copied > 0
