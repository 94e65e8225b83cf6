"""Measured errors add up and take nothing for granted."""

import math

import numpy as np
import pytest

from mvcs.quantize import ErrorSums, measure


def floats(*values):
    return np.array(values, np.float32)


def test_errors_of_a_few_values():
    sums = measure(floats(3, -4, 0), floats(3, -3, 0))
    assert sums == ErrorSums(count=3, largest=1.0, squares=1.0, scale=25.0)
    assert sums.rms == pytest.approx(math.sqrt(1 / 3))
    assert sums.relative == pytest.approx(0.2)


def test_sums_add_up():
    random = np.random.default_rng(0)
    exact, restored = (random.standard_normal(1000).astype(np.float32) for _ in range(2))
    whole = measure(exact, restored)
    halves = measure(exact[:300], restored[:300]) + measure(exact[300:], restored[300:])
    assert (halves.count, halves.largest) == (whole.count, whole.largest)
    assert halves.relative == pytest.approx(whole.relative)


def test_nothing_lost_is_zero():
    for values in (floats(), floats(0, 0), floats(1, np.inf, np.nan)):
        sums = measure(values, values.copy())
        assert (sums.largest, sums.rms, sums.relative) == (0.0, 0.0, 0.0)


def test_a_lost_infinity_is_an_infinite_error():
    assert measure(floats(1, np.inf), floats(1, 5)).relative == math.inf
    assert measure(floats(1, np.nan), floats(1, 5)).largest == math.inf
    assert measure(floats(0, 0), floats(0, 1)).relative == math.inf
    assert measure(floats(1, 2), floats(1, np.inf)).largest == math.inf
