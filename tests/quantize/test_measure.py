"""Measured errors add up and take nothing for granted."""

import math

import numpy as np
import pytest

from mvcs.quantize import ErrorSums, ProgressSums, measure_errors, measure_progress


def floats(*values):
    return np.array(values, np.float32)


def test_errors_of_a_few_values():
    sums = measure_errors(floats(3, -4, 0), floats(3, -3, 0))
    assert sums == ErrorSums(count=3, largest=1.0, squares=1.0, scale=25.0)
    assert sums.rms == pytest.approx(math.sqrt(1 / 3))
    assert sums.relative == pytest.approx(0.2)


def test_sums_add_up():
    random = np.random.default_rng(0)
    exact, restored = (random.standard_normal(1000).astype(np.float32) for _ in range(2))
    whole = measure_errors(exact, restored)
    halves = measure_errors(exact[:300], restored[:300]) + measure_errors(exact[300:], restored[300:])
    assert (halves.count, halves.largest) == (whole.count, whole.largest)
    assert halves.relative == pytest.approx(whole.relative)


def test_nothing_lost_is_zero():
    for values in (floats(), floats(0, 0), floats(1, np.inf, np.nan)):
        sums = measure_errors(values, values.copy())
        assert (sums.largest, sums.rms, sums.relative) == (0.0, 0.0, 0.0)


def test_a_lost_infinity_is_an_infinite_error():
    assert measure_errors(floats(1, np.inf), floats(1, 5)).relative == math.inf
    assert measure_errors(floats(1, np.nan), floats(1, 5)).largest == math.inf
    assert measure_errors(floats(0, 0), floats(0, 1)).relative == math.inf
    assert measure_errors(floats(1, 2), floats(1, np.inf)).largest == math.inf


def test_all_progress_is_kept_where_nothing_is_lost():
    before, now = floats(1, 2, 3), floats(1.5, 1, 3)
    assert measure_progress(now, now, before).retained == 1.0
    assert measure_progress(before, before, before).retained == 1.0


def test_what_snaps_back_keeps_no_progress():
    """Updates below half a step around values on a lattice all round back."""
    before = np.arange(-500, 500).astype(np.float32)
    moves = (np.random.default_rng(5).random(1000, np.float32) - np.float32(0.5)) * np.float32(0.9)
    assert measure_progress(np.rint(before + moves), before + moves, before).retained == 0.0
    large = before + moves * np.float32(100)
    assert measure_progress(np.rint(large), large, before).retained == pytest.approx(1, abs=0.01)


def test_progress_adds_up_and_leaves_out_what_is_not_finite():
    random = np.random.default_rng(0)
    restored, now, before = (random.standard_normal(999).astype(np.float32) for _ in range(3))
    whole = measure_progress(restored, now, before)
    parts = measure_progress(restored[:16], now[:16], before[:16])
    parts += measure_progress(restored[16:], now[16:], before[16:])
    assert parts.retained == pytest.approx(whole.retained)
    expected = np.dot((restored - before).astype(float), (now - before).astype(float))
    assert whole.kept == pytest.approx(expected, rel=1e-5)
    odd = measure_progress(floats(1, np.inf, 2), floats(2, 1, np.nan), floats(0, 0, 0))
    assert odd == ProgressSums(kept=2.0, moved=4.0)
