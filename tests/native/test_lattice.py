"""The lattices give what their readable twins give at every level, and refuse what breaks their contract."""

import threading

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import mvcs_native
from tests.native.special_floats import SPECIAL
from tests.reference import lattice as twin
from tests.reference import measure as sums

pytestmark = pytest.mark.usefixtures("level")

NONE = np.zeros(0, np.int16)
any_float = st.floats(width=32, allow_subnormal=True)
near_codes = st.integers(-40000 * 4, 40000 * 4).map(lambda quarters: np.float32(quarters / 4))
each_level = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def lattice(values, step, base=NONE, hysteresis=0.0):
    codes = np.empty(values.size, np.int16)
    found = mvcs_native.lattice(values, step, base, hysteresis, codes)
    assert found == np.count_nonzero(codes == twin.EXCEPTION)
    return codes


def samples(step, count=3001, seed=0):
    """Random values, every tie and limit, and special values."""
    random = np.random.default_rng(seed)
    unit = twin.step_of(step)
    ties = (np.arange(-40, 41).astype(np.float32) / 4) * unit
    limits = np.array([32766.5, 32767, 32767.5, 32768, 39999, 41000, -32767.5, -32768], np.float32) * unit
    near = np.concatenate(
        [limits, np.nextafter(limits, np.float32(0)), np.nextafter(limits, np.float32(np.inf))]
    )
    return np.concatenate([random.standard_normal(count).astype(np.float32) * unit * 5, ties, near, SPECIAL])


@pytest.mark.parametrize("step", [0, 1, 120, 203, 206, 255])
def test_lattice_is_its_twin(step):
    values = samples(step)
    assert np.array_equal(lattice(values, step), twin.lattice(values, step))


@pytest.mark.parametrize("hysteresis", [0.0, 0.25, 0.1, 0.999])
def test_hysteresis_is_its_twin(hysteresis):
    values = samples(203)
    around = np.clip(twin.lattice(values, 203) + np.resize([0, 1, -1, 2, 0], values.size), -32768, 32767)
    base = around.astype(np.int16)
    codes = lattice(values, 203, base, hysteresis)
    assert np.array_equal(codes, twin.lattice(values, 203, base, hysteresis))


@each_level
@given(
    values=hnp.arrays(np.float32, st.integers(0, 70), elements=any_float | near_codes),
    step=st.integers(0, 255),
    data=st.data(),
)
def test_any_values_give_the_twins_codes(values, step, data):
    assert np.array_equal(lattice(values, step), twin.lattice(values, step))
    base = data.draw(hnp.arrays(np.int16, values.size))
    assert np.array_equal(lattice(values, step, base, 0.25), twin.lattice(values, step, base, 0.25))


@pytest.mark.parametrize("hysteresis", [0.0, 0.25, 0.5])
def test_an_error_is_at_most_half_a_step_and_the_hysteresis(hysteresis):
    values = np.random.default_rng(3).standard_normal(20_000).astype(np.float32)
    base = np.zeros(values.size, np.int16)
    for _ in range(8):
        values = values + np.float32(0.02) * np.random.default_rng(base[0]).standard_normal(
            values.size
        ).astype("f4")
        base = lattice(values, 4 * (60 - 5) + 1, base, hysteresis)
        back = twin.unlattice(base, 4 * (60 - 5) + 1)
        assert np.abs(values - back).max() <= (0.5 + hysteresis) * 5 / 32 * (1 + 1e-6)


@pytest.mark.parametrize("step", [0, 3, 140, 255])
def test_restored_values_are_exact_products(step):
    codes = np.arange(-32768, 32768).astype(np.int16)
    values = np.empty(codes.size, np.float32)
    mvcs_native.unlattice(codes, step, values)
    assert np.array_equal(values, twin.unlattice(codes, step))
    assert np.array_equal(values.astype(np.float64), codes.astype(np.float64) * float(twin.step_of(step)))
    assert not np.signbit(values[32768])


def test_a_thread_that_flushes_subnormals_gets_the_same():
    roots = np.array([1e-38 * 2**-10, 4e-38, 1.0], np.float32)
    codes, restored = np.array([1, 3, -2], np.int16), np.empty(3, np.float32)

    def run():
        torch.set_flush_denormal(True)
        mvcs_native.root_unlattice(codes, roots, 2, restored)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert restored.tobytes() == twin.root_unlattice(codes, roots, 2).tobytes()


def log_lattice(values, *grid):
    codes = np.empty(values.size, np.int16)
    found = mvcs_native.log_lattice(values, *grid, codes)
    assert found == np.count_nonzero(codes == twin.EXCEPTION)
    return codes


def log_unlattice(codes, *grid, count=None):
    values = np.empty(codes.size if count is None else count, np.float32)
    mvcs_native.log_unlattice(codes, *grid, values)
    return values


@st.composite
def log_grids(draw):
    columns, rows, scale = draw(st.integers(1, 40)), draw(st.integers(1, 9)), draw(st.integers(16, 24))
    start = draw(st.integers(0, rows * columns))
    usual = st.integers(-600, 4000) | st.sampled_from([-32768, -32767, 32767])
    offsets = [draw(st.just(NONE) | hnp.arrays(np.int16, size, elements=usual)) for size in (rows, columns)]
    return scale, *offsets, columns, start, rows * columns - start


@each_level
@given(grid=log_grids(), data=st.data())
def test_log_lattice_is_its_twin(grid, data):
    *grid, count = grid
    values = data.draw(hnp.arrays(np.float32, count, elements=any_float | st.floats(0, 2, width=32)))
    codes = log_lattice(values, *grid)
    assert np.array_equal(codes, twin.log_lattice(values, *grid))
    found = data.draw(hnp.arrays(np.int16, count) | st.just(codes))
    restored = log_unlattice(found, *grid)
    assert restored.tobytes() == twin.log_unlattice(found, *grid).tobytes()
    alone = log_unlattice(NONE, *grid, count=count)
    assert alone.tobytes() == twin.log_unlattice(np.zeros(count, np.int16), *grid).tobytes()


@each_level
@given(grid=log_grids(), data=st.data(), by_column=st.booleans())
def test_log_sums_are_their_twin(grid, data, by_column):
    scale, rows, _, columns, start, count = grid
    values = data.draw(hnp.arrays(np.float32, count, elements=any_float))
    number = columns if by_column else (start + count) // columns
    totals, counts = np.zeros((2, number), np.int64)
    mvcs_native.log_sums(values, scale, rows, columns, start, by_column, totals, counts)
    expected = twin.log_sums(values, scale, rows, columns, start, by_column, number)
    assert np.array_equal(totals, expected[0])
    assert np.array_equal(counts, expected[1])


@pytest.mark.parametrize("scale", [16, 22, 23, 24])
def test_a_log_step_bounds_the_ratio(scale):
    values = np.exp(np.random.default_rng(1).standard_normal(5000) * 8 - 20).astype(np.float32)
    codes = log_lattice(values, scale, NONE, NONE, 5000, 0)
    back = log_unlattice(codes, scale, NONE, NONE, 5000, 0)
    octaves = np.abs(back.view(np.int32).astype(np.int64) - values.view(np.int32)) / 2**23
    assert octaves.max() <= 2 ** (scale - 24)


def test_zeros_are_a_symbol_and_come_back_as_zeros():
    values = np.array([0.0, -0.0, 1e-30, 0.0], np.float32)
    codes = log_lattice(values, 23, NONE, NONE, 4, 0)
    assert list(codes[[0, 1, 3]]) == [twin.ZERO] * 3
    back = log_unlattice(codes, 23, NONE, NONE, 4, 0)
    assert not np.signbit(back).any()
    assert np.array_equal(back == 0, values == 0)


def roots_of(count, seed=0):
    random = np.random.default_rng(seed)
    return np.concatenate(
        [np.square(random.standard_normal(count).astype(np.float32)) * np.float32(1e-6), SPECIAL]
    )


@pytest.mark.parametrize("step", [0, 231, 236, 255])
def test_roots_are_their_twins(step):
    roots = roots_of(2003)
    values = np.resize(np.concatenate([samples(step, 500) * np.float32(1e-3), SPECIAL]), roots.size)
    codes, signs = np.empty((2, roots.size), np.int16)
    found = mvcs_native.root_lattice(values, roots, step, codes)
    assert np.array_equal(codes, twin.root_lattice(values, roots, step))
    assert found == np.count_nonzero(codes == twin.EXCEPTION)
    mvcs_native.root_signs(values, roots, signs)
    assert np.array_equal(signs, twin.root_signs(values, roots))
    restored = np.empty(roots.size, np.float32)
    for some in (codes, signs, np.resize(np.arange(-32768, 32768), roots.size).astype(np.int16)):
        mvcs_native.root_unlattice(some, roots, step, restored)
        assert restored.tobytes() == twin.root_unlattice(some, roots, step).tobytes()
        assert np.isfinite(restored).all()


@each_level
@given(data=st.data(), count=st.integers(0, 50))
def test_sums_are_their_twins_to_the_last_bit(data, count):
    left, right, third = (data.draw(hnp.arrays(np.float32, count, elements=any_float)) for _ in range(3))
    assert mvcs_native.error_sums(left, right) == sums.error_sums(left, right)
    assert mvcs_native.progress_sums(left, right, third) == sums.progress_sums(left, right, third)
    assert mvcs_native.root_sums(left, right) == sums.root_sums(left, right)


def test_long_sums_are_their_twins_to_the_last_bit():
    left, right, third = np.random.default_rng(9).standard_normal((3, 10_007)).astype(np.float32)
    assert mvcs_native.error_sums(left, right) == sums.error_sums(left, right)
    assert mvcs_native.progress_sums(left, right, third) == sums.progress_sums(left, right, third)
    assert mvcs_native.root_sums(left, right) == sums.root_sums(left, right)


F, C, Z = np.zeros(6, np.float32), np.zeros(6, np.int16), np.zeros(6, np.int64)


@pytest.mark.parametrize(
    "call",
    [
        lambda: mvcs_native.lattice(F, 256, NONE, 0.0, C.copy()),
        lambda: mvcs_native.lattice(F, 0, C[1:].copy(), 0.0, C.copy()),
        lambda: mvcs_native.lattice(F, 0, NONE, 0.0, C[1:].copy()),
        lambda: mvcs_native.lattice(F, 0, C, -0.1, C.copy()),
        lambda: mvcs_native.lattice(F, 0, C, float("nan"), C.copy()),
        lambda: mvcs_native.lattice(F, 0, C, 1.0, C.copy()),
        lambda: mvcs_native.unlattice(C, 0, F[1:].copy()),
        lambda: mvcs_native.unlattice(C, 256, F.copy()),
        lambda: mvcs_native.log_lattice(F, 15, NONE, NONE, 6, 0, C.copy()),
        lambda: mvcs_native.log_lattice(F, 25, NONE, NONE, 6, 0, C.copy()),
        lambda: mvcs_native.log_lattice(F, 23, NONE, NONE, 0, 0, C.copy()),
        lambda: mvcs_native.log_lattice(F, 23, C[:1].copy(), NONE, 3, 0, C.copy()),
        lambda: mvcs_native.log_lattice(F, 23, C[:2].copy(), NONE, 3, 1, C.copy()),
        lambda: mvcs_native.log_lattice(F, 23, NONE, C[:2].copy(), 3, 0, C.copy()),
        lambda: mvcs_native.log_lattice(F, 23, NONE, NONE, 3, 2**64 - 1, C.copy()),
        lambda: mvcs_native.log_lattice(F, 23, NONE, NONE, 6, 0, C[1:].copy()),
        lambda: mvcs_native.log_unlattice(C[1:].copy(), 23, NONE, NONE, 6, 0, F.copy()),
        lambda: mvcs_native.log_unlattice(C, 23, C[:1].copy(), NONE, 3, 0, F.copy()),
        lambda: mvcs_native.log_sums(F, 23, NONE, 3, 0, False, Z[:1].copy(), Z[:1].copy()),
        lambda: mvcs_native.log_sums(F, 23, NONE, 3, 0, True, Z[:2].copy(), Z[:2].copy()),
        lambda: mvcs_native.log_sums(F, 23, NONE, 3, 0, True, Z.copy(), Z[:2].copy()),
        lambda: mvcs_native.root_lattice(F, F[1:].copy(), 0, C.copy()),
        lambda: mvcs_native.root_lattice(F, F, 0, C[1:].copy()),
        lambda: mvcs_native.root_lattice(F, F, 256, C.copy()),
        lambda: mvcs_native.root_signs(F, F[1:].copy(), C.copy()),
        lambda: mvcs_native.root_unlattice(C, F[1:].copy(), 0, F.copy()),
        lambda: mvcs_native.root_sums(F, F[1:].copy()),
        lambda: mvcs_native.error_sums(F, F[1:].copy()),
        lambda: mvcs_native.progress_sums(F, F[1:].copy(), F),
    ],
)
def test_broken_contracts_are_value_errors(call):
    with pytest.raises(ValueError, match=r"\w+"):
        call()
