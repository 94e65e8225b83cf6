"""The leading directions of a matrix go, and what lies beside them stays."""

import numpy as np
import pytest

from mvcs.quantize.leading_directions import LEADING_DIRECTIONS, remove_leading_directions


def matrix(rows, columns, seed=0):
    """Twenty strong directions, and noise that is as large in all elements together."""
    rng = np.random.default_rng(seed)
    strong = rng.standard_normal((rows, 20)) @ rng.standard_normal((20, columns))
    noise = rng.standard_normal((rows, columns)) * np.sqrt(20)
    return (strong + noise).astype(np.float32), strong


@pytest.mark.parametrize("shape", [(300, 200), (200, 300), (33, 900), (900, 33)])
def test_what_is_strong_goes_and_the_rest_stays(shape):
    whole, strong = matrix(*shape)
    left = whole.copy()
    assert remove_leading_directions(left)
    before = np.linalg.svd(whole, compute_uv=False)
    after = np.linalg.svd(left, compute_uv=False)
    assert after[0] < before[19]
    assert abs((left * strong).sum() / (strong**2).sum()) < 0.1
    taken = whole - left
    assert np.linalg.matrix_rank(taken, tol=1e-3 * before[0]) <= LEADING_DIRECTIONS
    assert abs((taken * left).sum()) < 1e-3 * (whole**2).sum()  # a projection


def test_a_matrix_of_low_rank_is_taken_whole():
    rng = np.random.default_rng(1)
    left = (rng.standard_normal((90, 8)) @ rng.standard_normal((8, 70))).astype(np.float32)
    size = np.abs(left).max()
    assert remove_leading_directions(left)
    assert np.abs(left).max() < 1e-4 * size


def bad(value):
    found = matrix(60, 70)[0]
    found[7, 9] = value
    return found


@pytest.mark.parametrize(
    "given",
    [
        matrix(LEADING_DIRECTIONS, 500)[0],
        matrix(500, LEADING_DIRECTIONS)[0],
        np.zeros((80, 90), np.float32),
        bad(np.nan),
        bad(np.inf),
        bad(3e38),
        np.zeros((0, 40), np.float32),
    ],
    ids=["few rows", "few columns", "zeros", "not a number", "infinite", "overflow", "empty"],
)
def test_where_nothing_can_be_told_nothing_changes(given):
    left = given.copy()
    assert not remove_leading_directions(left)
    assert left.tobytes() == given.tobytes()


def test_the_same_matrix_gives_the_same_bytes():
    first, second = matrix(100, 120)[0], matrix(100, 120)[0]
    assert remove_leading_directions(first)
    assert remove_leading_directions(second)
    assert first.tobytes() == second.tobytes()
