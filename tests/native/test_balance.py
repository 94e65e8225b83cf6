"""Balancing gives its readable twin's codes at every level, and keeps what it promises."""

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
twin_balance = once(twin.balance)


def balance(values, codes, run, start=0, step=UNIT):
    found = codes.copy()
    moved = mvcs_native.balance(values, step, run, start, found)
    expected, count = twin_balance(values, codes, step, run, start)
    assert np.array_equal(found, expected)
    assert moved == count == np.count_nonzero(found != codes)
    return found


def held(values, lag=0.3, hysteresis=0.25):
    """Codes kept near those of values that all were smaller before."""
    before = twin.lattice(values - np.float32(lag), UNIT)
    return twin.lattice(values, UNIT, before, hysteresis)


def weights(count, seed=0):
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32) * 3


def test_the_step_of_these_tests_is_one():
    assert twin.step_of(UNIT) == 1


@each_level
@given(data=st.data(), step=st.integers(220, 240), run=st.integers(1, 40), start=st.integers(0, 2**64 - 1))
def test_any_values_and_codes_give_the_twins(data, step, run, start):
    values = data.draw(hnp.arrays(np.float32, st.integers(0, 90), elements=any_float | quarters))
    nearest = twin.lattice(values, step)
    balance(values, nearest, run, start, step)
    moves = data.draw(hnp.arrays(np.int16, values.size, elements=st.integers(-1, 1)))
    balance(values, np.maximum(nearest, -32767) + moves, run, start, step)
    balance(values, data.draw(hnp.arrays(np.int16, values.size)), run, start, step)


@pytest.mark.parametrize("run", [8, 9, 64, 576, 1024, 5000, 70_000])
@pytest.mark.parametrize("start", [0, 100])
def test_long_rows_give_the_twins(run, start):
    values = weights(60_001)
    balance(values, twin.lattice(values, UNIT), run, start)
    balance(values, held(values), run, start)


@pytest.mark.parametrize("eighths", [3, -3, 4, -4])
def test_of_codes_equally_wrong_the_first_are_moved(eighths):
    values = np.full(64, eighths / 8, np.float32)
    found = balance(values, np.zeros(64, np.int16), 64)
    assert list(found) == [np.sign(eighths)] * abs(8 * eighths) + [0] * (64 - abs(8 * eighths))


@each_level
@given(seed=st.integers(0, 999), run=st.integers(8, 300), lag=st.sampled_from([-0.4, 0.0, 0.1, 0.3]))
def test_errors_of_a_row_add_up_to_half_a_step_at_most(seed, run, lag):
    values = weights(run * 5, seed)
    codes = held(values, lag)
    found = balance(values, codes, run)
    before, after = (values.astype(np.float64) - some for some in (codes, found))
    assert np.abs(after).max() <= 0.75
    sums, sums_before = np.abs(after.reshape(5, run).sum(1)), before.reshape(5, run).sum(1)
    movable = (before * np.repeat(np.sign(sums_before), run) > 0.25).reshape(5, run).sum(1)
    enough = movable > np.abs(sums_before)
    assert (sums[enough] <= 0.5 + run * 2.0**-20).all()
    assert (sums <= np.abs(sums_before) + 1e-3).all()


def test_a_row_without_wrong_codes_stays():
    values = np.full(100, 0.25, np.float32)
    assert not balance(values, np.zeros(100, np.int16), 100).any()


def test_short_rows_and_rows_with_an_exception_stay():
    values = np.full(24, 0.4, np.float32)
    assert not balance(values, np.zeros(24, np.int16), 7).any()
    assert not balance(values, np.zeros(24, np.int16), 1).any()
    values[3] = np.nan
    codes = twin.lattice(values, UNIT)
    found = balance(values, codes, 12)
    assert np.array_equal(found[:12], codes[:12])
    assert found[12:].sum() == 5


def test_parts_of_a_row_are_balanced_by_themselves():
    values = np.full(40, 0.4, np.float32)
    found = balance(values, np.zeros(40, np.int16), 20, start=1_000_010)
    assert [int(part.sum()) for part in np.split(found, [10, 30])] == [4, 8, 4]
    found = balance(values, np.zeros(40, np.int16), 20, start=13)
    assert [int(part.sum()) for part in np.split(found, [7, 27])] == [0, 8, 5]


@pytest.mark.parametrize("sign", [1, -1])
def test_no_code_leaves_its_range(sign):
    values = np.full(16, sign * 32767.4, np.float32)
    values[8:] -= sign
    codes = twin.lattice(values, UNIT)
    found = balance(values, codes, 16)
    assert list(found) == [sign * 32767] * 14 + [sign * 32766] * 2


def test_nothing_is_balanced_to_nothing():
    assert balance(np.zeros(0, np.float32), np.zeros(0, np.int16), 9).size == 0


F, C = np.zeros(16, np.float32), np.zeros(16, np.int16)


@pytest.mark.parametrize(
    "call",
    [
        lambda: mvcs_native.balance(F, 256, 8, 0, C.copy()),
        lambda: mvcs_native.balance(F, 0, 0, 0, C.copy()),
        lambda: mvcs_native.balance(F, 0, 8, 0, C[1:].copy()),
    ],
)
def test_broken_contracts_are_value_errors(call):
    with pytest.raises(ValueError, match=r"\w+"):
        call()
