"""Keeping pace gives its readable twin's codes at every level, and keeps what it promises."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import mvcs_native
from tests.native.once import once
from tests.reference import lattice as twin

pytestmark = pytest.mark.usefixtures("level")

UNIT = 232  # the step byte of one
any_float = st.floats(width=32, allow_subnormal=True)
quarters = st.integers(-40, 40).map(lambda number: np.float32(number / 8))
each_level = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
twin_keep_pace, twin_lattice = once(twin.keep_pace), once(twin.lattice)


def upper_halves(values):
    return np.ascontiguousarray(np.ascontiguousarray(values).view(np.uint16)[1::2])


def upper(values):
    return (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def keep_pace(values, past, codes, run, start=0, step=UNIT):
    found = codes.copy()
    moved = mvcs_native.keep_pace(values, upper_halves(past), step, run, start, found)
    expected, count = twin_keep_pace(values, upper_halves(past), codes, step, run, start)
    assert np.array_equal(found, expected)
    assert moved == count == np.count_nonzero(found != codes)
    return found


def drifting(count, seed=0, noise=0.2):
    """Values, where they were four times as long ago, and codes kept on the way."""
    rng = np.random.default_rng(seed)
    past = rng.standard_normal(count).astype(np.float32) * 3
    drift, codes = rng.standard_normal(count).astype(np.float32) * np.float32(0.1), twin_lattice(past, UNIT)
    for commit in range(1, 5):
        jitter = rng.standard_normal(count).astype(np.float32) * np.float32(noise)
        values = past + drift * np.float32(commit) + jitter
        codes = twin_lattice(values, UNIT, codes, 0.5)
    return values, past, codes


def lag(values, past, codes):
    return (values.astype(np.float64) - codes) * (upper(values) - upper(past))


@each_level
@given(data=st.data(), step=st.integers(220, 240), run=st.integers(1, 40), start=st.integers(0, 2**64 - 1))
def test_any_values_and_codes_give_the_twins(data, step, run, start):
    values = data.draw(hnp.arrays(np.float32, st.integers(0, 90), elements=any_float | quarters))
    past = data.draw(hnp.arrays(np.float32, values.size, elements=any_float | quarters))
    nearest = twin.lattice(values, step)
    keep_pace(values, past, nearest, run, start, step)
    moves = data.draw(hnp.arrays(np.int16, values.size, elements=st.integers(-1, 1)))
    keep_pace(values, past, np.maximum(nearest, -32767) + moves, run, start, step)
    keep_pace(values, past, data.draw(hnp.arrays(np.int16, values.size)), run, start, step)


@pytest.mark.parametrize("run", [8, 9, 64, 576, 1024, 5000, 70_000])
@pytest.mark.parametrize("start", [0, 100])
def test_long_rows_give_the_twins(run, start):
    keep_pace(*drifting(60_001), run, start)
    eighths = np.round(drifting(60_001)[0] * 8) / 8
    keep_pace(eighths, np.round(eighths) / 2, twin.lattice(eighths - 1, UNIT), run, start)


@pytest.mark.parametrize("sign", [1, -1])
def test_of_codes_that_lag_alike_the_first_are_moved(sign):
    values = np.full(64, sign * 0.5, np.float32)
    found = keep_pace(values, np.zeros(64, np.float32), np.zeros(64, np.int16), 64)
    assert list(found) == [sign] * 32 + [0] * 32


@each_level
@given(seed=st.integers(0, 999), run=st.integers(8, 300), noise=st.sampled_from([0.0, 0.2, 0.5]))
def test_a_row_lags_by_half_a_move_at_most(seed, run, noise):
    values, past, codes = drifting(run * 5, seed, noise)
    found = keep_pace(values, past, codes, run)
    before, after = (lag(values, past, some).reshape(5, run) for some in (codes, found))
    largest = np.abs(upper(values) - upper(past)).reshape(5, run).max(axis=1)
    off = np.abs(values.astype(np.float64) - codes).reshape(5, run)
    # As much as codes that may move can make up, a unit of 2^-20 for each element.
    made_up = np.where(
        (before > 0) & (off > 0.25), np.abs(upper(values) - upper(past)).reshape(5, run), 0
    ).sum(1)
    left = np.maximum(before.sum(1) - made_up, 0)
    assert (after.sum(1) <= left + largest * (0.5 + run * 2.0**-20)).all()
    assert (after.sum(1) >= np.minimum(before.sum(1), -largest * (0.5 + run * 2.0**-20))).all()
    moved = (found != codes).reshape(5, run)
    assert np.abs(values.astype(np.float64) - found).reshape(5, run)[moved].max(initial=0) < 0.75


def test_what_moved_lags_less_and_rows_that_are_ahead_stay():
    values, past, codes = drifting(40_000)
    assert lag(values, past, codes).sum() > 100
    assert abs(lag(values, past, keep_pace(values, past, codes, 400)).sum()) < 3
    ahead = twin.lattice(values + np.sign(values - past), UNIT)
    assert np.array_equal(keep_pace(values, past, ahead, 400), ahead)


def test_what_its_upper_half_does_not_tell_is_no_move():
    past = drifting(8000)[0]
    codes = twin.lattice(past, UNIT) + np.int16(1)
    assert np.array_equal(keep_pace(np.nextafter(upper(past), past * 2), past, codes, 80), codes)


def test_rows_without_a_move_with_an_exception_or_short_stay():
    values, past, codes = np.full(48, 0.4, np.float32), np.zeros(48, np.float32), np.zeros(48, np.int16)
    assert not keep_pace(values, values, codes, 12).any()
    assert not keep_pace(values, past, codes, 7).any()
    values[3], past[15], past[30] = np.nan, np.inf, -np.inf
    codes[3] = twin.EXCEPTION
    found = keep_pace(values, past, codes, 12)
    assert np.array_equal(found[:36], codes[:36])
    assert found[36:].sum() == 5


@pytest.mark.parametrize("sign", [1, -1])
def test_no_code_leaves_its_range(sign):
    values = np.full(16, sign * 32767.4, np.float32)
    values[8:] -= sign
    codes = twin.lattice(values, UNIT)
    found = keep_pace(values, np.zeros(16, np.float32), codes, 16)
    assert list(found) == [sign * 32767] * 14 + [sign * 32766] * 2


def test_nothing_keeps_pace_with_nothing():
    assert keep_pace(np.zeros(0, np.float32), np.zeros(0, np.float32), np.zeros(0, np.int16), 9).size == 0


F, H, C = np.zeros(16, np.float32), np.zeros(16, np.uint16), np.zeros(16, np.int16)


@pytest.mark.parametrize(
    "call",
    [
        lambda: mvcs_native.keep_pace(F, H, 256, 8, 0, C.copy()),
        lambda: mvcs_native.keep_pace(F, H, 0, 0, 0, C.copy()),
        lambda: mvcs_native.keep_pace(F, H, 0, 8, 0, C[1:].copy()),
        lambda: mvcs_native.keep_pace(F, H[1:].copy(), 0, 8, 0, C.copy()),
    ],
)
def test_broken_contracts_are_value_errors(call):
    with pytest.raises(ValueError, match=r"\w+"):
        call()
