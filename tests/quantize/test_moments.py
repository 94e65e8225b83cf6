"""Optimizer moments: second ones on a log lattice with offsets, first ones over the root of the second."""

import numpy as np
import pytest

from mvcs.quantize import LogGrid, RootSums, root_codes, root_signs, root_sums, root_values, step_value

ROWS, COLS = 96, 250


def second(seed=0, shape=(ROWS, COLS)):
    """Second moments as Adam has them: rows and columns of very different sizes, and noise."""
    random = np.random.default_rng(seed)
    logs = random.standard_normal((shape[0], 1)) * 3 + random.standard_normal((1, shape[1])) * 2 - 30
    return np.exp2(logs + random.standard_normal(shape) * 0.6).astype(np.float32)


def octaves(restored, values):
    """Errors in octaves of the float32 pattern."""
    return np.abs(restored.view(np.int32).astype(np.int64) - values.view(np.int32)) / 2**23


@pytest.mark.parametrize(("scale", "largest"), [(22, 0.25), (23, 0.5), (24, 1.0)])
def test_second_moments_are_off_by_half_a_step_at_most(scale, largest):
    values = second().reshape(-1)
    grid = LogGrid.fit([values], (ROWS, COLS), scale)
    restored = grid.values(grid.codes(values), values.size)
    assert octaves(restored, values).max() <= largest


def test_offsets_of_rows_and_columns_leave_little_to_code():
    values = second().reshape(-1)
    grid, plain = LogGrid.fit([values], (ROWS, COLS), 23), LogGrid(23, COLS)
    assert (grid.rows.size, grid.cols.size) == (ROWS, COLS)
    assert grid.codes(values).std() < 1
    assert plain.codes(values).std() > 3


def test_offsets_do_not_depend_on_how_a_tensor_is_cut():
    values = second().reshape(-1)
    whole = LogGrid.fit([values], (ROWS, COLS), 23)
    parts = LogGrid.fit(np.array_split(values, 7), (ROWS, COLS), 23)
    assert np.array_equal(whole.rows, parts.rows)
    assert np.array_equal(whole.cols, parts.cols)
    starts = np.cumsum([0, *(part.size for part in np.array_split(values, 7))])
    codes = [whole.codes(part, start) for part, start in zip(np.array_split(values, 7), starts, strict=False)]
    assert np.array_equal(np.concatenate(codes), whole.codes(values))
    back = whole.values(codes[3], codes[3].size, int(starts[3]))
    assert np.array_equal(back, whole.values(whole.codes(values), values.size)[starts[3] : starts[4]])


def test_rank_one_is_within_a_few_octaves():
    values = second().reshape(-1)
    grid = LogGrid.fit([values], (ROWS, COLS), 23)
    errors = octaves(grid.values(None, values.size), values)
    assert np.sqrt(np.mean(errors**2)) < 0.7


def test_offsets_stay_while_they_move_by_a_quarter_step():
    values = second().reshape(-1)
    before = LogGrid.fit([values], (ROWS, COLS), 23)
    nudged = values * np.float32(1.1)
    after = LogGrid.fit([nudged], (ROWS, COLS), 23, before)
    assert np.array_equal(after.rows, before.rows)
    assert np.array_equal(after.cols, before.cols)
    far = LogGrid.fit([values * np.float32(4)], (ROWS, COLS), 23, before)
    assert np.all(far.rows - before.rows == 8)
    for other in (
        LogGrid(23, COLS),
        LogGrid.fit([values], (ROWS, COLS), 24),
        LogGrid.fit([values], (COLS, ROWS), 23),
    ):
        again = LogGrid.fit([values], (ROWS, COLS), 23, other)
        assert np.array_equal(again.rows, before.rows)


@pytest.mark.parametrize("shape", [(), (7,), (1, 7), (7, 1), (4, 5), (0, 5), (5, 0)])
def test_vectors_and_small_matrices_get_no_offsets(shape):
    values = np.full(shape, 1e-6, np.float32).reshape(-1)
    grid = LogGrid.fit([values], shape, 23)
    assert (grid.rows.size, grid.cols.size) == (0, 0)
    assert octaves(grid.values(grid.codes(values), values.size), values).max(initial=0) <= 0.5


def test_convolutions_are_matrices_of_their_first_size():
    values = second(shape=(64, 27)).reshape(-1)
    grid = LogGrid.fit([values], (64, 3, 3, 3), 23)
    assert (grid.rows.size, grid.cols.size, grid.columns) == (64, 27, 27)


def test_rows_and_columns_of_zeros_stay_zeros_and_cost_nothing():
    values = second()
    values[5], values[:, 7], values[9, 11] = 0, 0, 0
    grid = LogGrid.fit([values.reshape(-1)], (ROWS, COLS), 24)
    codes = grid.codes(values.reshape(-1)).reshape(ROWS, COLS)
    assert not codes[5].any()
    assert not codes[:, 7].any()
    assert codes[9, 11] == -32767
    restored = grid.values(codes.reshape(-1), values.size).reshape(ROWS, COLS)
    assert np.array_equal(restored == 0, values == 0)


def test_what_is_no_second_moment_is_an_exception():
    values = np.array([1, -1, np.nan, np.inf, 1e-40, 0, 3e38], np.float32)
    codes = LogGrid(23, 7).codes(values)
    assert list(np.flatnonzero(codes == -32768)) == [1, 2, 3, 4]


def test_first_moments_over_the_root_of_the_second():
    roots = second(1).reshape(-1)
    values = np.random.default_rng(2).standard_normal(roots.size).astype(np.float32) * np.sqrt(roots) / 5
    assert step_value(228) == 0.5
    codes = root_codes(values, roots, 228)
    restored = root_values(codes, roots, 228)
    assert np.all(np.abs(restored - values) <= np.sqrt(roots) * 0.5 * 0.55 * (1 + 1e-6))
    assert np.abs(codes).max() < 4


def test_signs_restore_to_the_mean():
    roots = second(1).reshape(-1)
    values = np.random.default_rng(2).standard_normal(roots.size).astype(np.float32) * np.sqrt(roots) / 5
    halves = [root_sums(values[half], roots[half]) for half in (slice(100), slice(100, None))]
    sums = halves[0] + halves[1]
    assert sums.count == values.size
    assert sums.total / sums.count == pytest.approx(0.2 * np.sqrt(2 / np.pi), rel=0.02)
    restored = root_values(root_signs(values, roots), roots, sums.sign_step)
    assert np.array_equal(np.sign(restored), np.sign(values))
    assert np.mean(np.abs(restored) / np.sqrt(roots)) == pytest.approx(sums.total / sums.count, rel=0.13)
    assert RootSums().sign_step == 0


def test_an_update_is_always_finite():
    roots = np.array([0, 0, 1e-38, 3e38, np.inf, np.nan, -1, 1], np.float32)
    values = np.array([1, 0, 1e-19, 1, 1, 1, 1, np.inf], np.float32)
    codes = root_codes(values, roots, 228)
    assert list(np.flatnonzero(codes == -32768)) == [7]
    restored = root_values(codes, roots, 228)[:7]
    assert np.isfinite(restored).all()
    assert list(np.flatnonzero(restored)) == [2]
