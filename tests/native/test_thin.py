"""Products with thin matrices, and the spectrum of small ones: the same at every level, and right."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mvcs_native

pytestmark = pytest.mark.usefixtures("level")

each_level = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
sizes = st.tuples(st.integers(1, 40), st.integers(1, 40), st.sampled_from([16, 32, 48]))


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def times_columns(values, factor):
    out = np.full((len(values), factor.shape[1]), np.nan, np.float32)
    mvcs_native.times_columns(values, factor, out)
    return out


def times_rows(values, factor):
    out = np.full((values.shape[1], factor.shape[1]), np.nan, np.float32)
    mvcs_native.times_rows(values, factor, out)
    return out


@each_level
@given(size=sizes, seed=st.integers(0, 1000))
def test_products_are_those_of_the_textbook(size, seed):
    rows, columns, width = size
    values, by_column, by_row = (
        normal(seed, rows, columns),
        normal(seed + 1, columns, width),
        normal(seed + 2, rows, width),
    )
    wide = values.astype(np.float64)
    np.testing.assert_allclose(times_columns(values, by_column), wide @ by_column, rtol=0, atol=1e-4)
    np.testing.assert_allclose(times_rows(values, by_row), wide.T @ by_row, rtol=0, atol=1e-4)
    left, cols = values.copy(), np.ascontiguousarray(by_column.T)
    mvcs_native.less_product(left, by_row, cols)
    np.testing.assert_allclose(left, wide - by_row.astype(np.float64) @ cols, rtol=0, atol=1e-4)


def everything(seed):
    values, factor, other = normal(seed, 301, 1100), normal(seed, 1100, 32), normal(seed, 301, 32)
    left = values.copy()
    mvcs_native.less_product(left, other, np.ascontiguousarray(factor.T))
    rows = times_rows(other, other).astype(np.float64)
    squares = np.zeros(32)
    mvcs_native.spectrum(rows.reshape(-1), squares)
    parts = times_columns(values, factor), times_rows(values, other), left, rows, squares
    return b"".join(part.tobytes() for part in parts)


def test_every_level_gives_the_same_bytes(level):
    at_level = everything(3)
    mvcs_native.use_level("portable")
    assert everything(3) == at_level
    mvcs_native.use_level(level)


@each_level
@given(order=st.integers(1, 24), rank=st.integers(1, 24), seed=st.integers(0, 1000))
def test_a_spectrum_is_that_of_lapack(order, rank, seed):
    thin = normal(seed, order, rank).astype(np.float64)
    matrix = thin @ thin.T
    vectors, values = matrix.copy(), np.full(order, np.nan)
    mvcs_native.spectrum(vectors.reshape(-1), values)
    scale = np.linalg.norm(matrix)
    np.testing.assert_allclose(np.sort(values), np.linalg.eigvalsh(matrix), rtol=0, atol=1e-9 * scale)
    np.testing.assert_allclose((vectors.T * values) @ vectors, matrix, rtol=0, atol=1e-9 * scale)
    large = vectors[values > 1e-6 * scale]
    np.testing.assert_allclose(large @ large.T, np.eye(len(large)), rtol=0, atol=1e-6)


def test_the_spectrum_of_nothing_is_nothing():
    rows, values = np.zeros(9), np.full(3, np.nan)
    mvcs_native.spectrum(rows, values)
    assert not rows.any()
    assert not values.any()


M, T, U = np.zeros((4, 6), np.float32), np.zeros((6, 16), np.float32), np.zeros((4, 16), np.float32)


@pytest.mark.parametrize(
    "call",
    [
        lambda: mvcs_native.times_columns(M, T[:5].copy(), U.copy()),
        lambda: mvcs_native.times_columns(M, T, U[:3].copy()),
        lambda: mvcs_native.times_columns(M, T, np.zeros((4, 32), np.float32)),
        lambda: mvcs_native.times_columns(M, T[:, :8].copy(), U[:, :8].copy()),
        lambda: mvcs_native.times_columns(np.zeros((0, 0), np.float32), T, U.copy()),
        lambda: mvcs_native.times_rows(M, U[:3].copy(), T.copy()),
        lambda: mvcs_native.times_rows(M, U, T[:5].copy()),
        lambda: mvcs_native.times_rows(M, U, np.zeros((6, 32), np.float32)),
        lambda: mvcs_native.less_product(M.copy(), U[:3].copy(), T.T.copy()),
        lambda: mvcs_native.less_product(M.copy(), U, T.T[:8].copy()),
        lambda: mvcs_native.less_product(M.copy(), U, T.T[:, :5].copy()),
        lambda: mvcs_native.spectrum(np.zeros(8), np.zeros(3)),
        lambda: mvcs_native.spectrum(np.zeros(513 * 513), np.zeros(513)),
    ],
)
def test_broken_contracts_are_value_errors(call):
    with pytest.raises(ValueError, match=r"\w+"):
        call()
