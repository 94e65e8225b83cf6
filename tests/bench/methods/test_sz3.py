"""SZ3's bounds: a share of each tensor's range, or one for all that moved, along a whole chain."""

import numpy as np
import pytest

from mvcs.bench.methods.method import State
from mvcs.bench.methods.sz3 import SZ3, SZ3Delta

pytestmark = pytest.mark.skipif(bool(SZ3().missing), reason="pysz is not installed")


def test_no_weight_is_wrong_by_more_than_a_share_of_the_range() -> None:
    weights = np.random.default_rng(0).normal(0, 5, (60, 40)).astype(np.float32)
    _, state = SZ3().encode({"w": weights}, None, {"bound": 1e-2})
    error = np.abs(state.tensors["w"] - weights).max()
    assert 0 < error <= 1e-2 * np.ptp(weights)


def test_errors_do_not_add_up_along_a_chain() -> None:
    drawn = np.random.default_rng(1)
    weights = drawn.normal(0, 0.05, (60, 40)).astype(np.float32)
    state: State | None = None
    for _ in range(6):
        weights = weights + drawn.normal(0, 0.003, weights.shape).astype(np.float32)
        _, state = SZ3Delta().encode({"w": weights}, state, {"bound": 1e-3})
        assert np.abs(state.tensors["w"] - weights).max() <= 1e-3 * (1 + 1e-4)


def test_a_tensor_that_moved_nowhere_takes_four_bytes_and_its_length() -> None:
    weights = {"w": np.random.default_rng(2).normal(0, 1, (50, 50)).astype(np.float32)}
    _, state = SZ3Delta().encode(weights, None, {"bound": 1e-3})
    payload, _ = SZ3Delta().encode(dict(state.tensors), state, {"bound": 1e-3})
    assert len(payload) < 50


def test_tensors_of_five_dimensions_come_back() -> None:
    weights = np.random.default_rng(3).normal(0, 1, (2, 3, 4, 5, 6)).astype(np.float32)
    _, state = SZ3().encode({"w": weights}, None, {"bound": 1e-3})
    assert np.allclose(state.tensors["w"], weights, atol=1e-3 * np.ptp(weights))
