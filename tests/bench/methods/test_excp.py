"""ExCP's thresholds, centres and moments, worked by hand."""

import numpy as np
import pytest

from mvcs.bench.methods.excp import ExCP
from mvcs.bench.methods.method import State
from mvcs.errors import UsageError

SETTING = {"A": 5e-5, "B": 2, "bits": 4}
BASE = np.zeros((2, 4), np.float32)
MOVED = np.array([[1, -2, 3, 4], [-5, 6, 7, 8]], np.float32)
FIRST = np.array([[9, 0, 0, 0], [0, 0, 0, 10]], np.float32)


def moments(second: float) -> dict[str, dict[str, np.ndarray]]:
    return {"exp_avg": {"w": FIRST}, "exp_avg_sq": {"w": np.full((2, 4), second, np.float32)}}


def moved(second: float) -> tuple[bytes, State]:
    """The state after weights moved from 0."""
    _, state = ExCP().encode({"w": BASE}, None, SETTING)
    return ExCP().encode({"w": MOVED}, state, SETTING, moments=moments(second))


def test_differences_above_the_threshold_stay() -> None:
    # 5e-5 / sqrt(mean(v)) is 1.5, and the median 4.5.
    _, state = moved((1e-4 / 3) ** 2)
    assert state.tensors["w"].tolist() == [[0, 0, 0, 0], [0, 0, 7, 8]]


def test_the_threshold_is_at_most_two_and_a_half_medians() -> None:
    _, state = moved(0)
    assert not state.tensors["w"].any()


def test_moments_stay_where_the_first_is_large_and_the_difference_stays() -> None:
    # |m| > 2 · 19/8 holds at both ends; d stays only at the last.
    known = moved((1e-4 / 3) ** 2)[1].known["moments"]
    assert known["exp_avg"]["w"].tolist() == [[0, 0, 0, 0], [0, 0, 0, 10]]


def test_second_moments_below_half_precision_become_zero() -> None:
    known = moved((1e-4 / 3) ** 2)[1].known["moments"]
    assert not known["exp_avg_sq"]["w"].any()


def test_four_bits_make_fifteen_centres() -> None:
    values = np.random.default_rng(0).normal(0, 1, (40, 50)).astype(np.float32)
    _, state = ExCP().encode({"w": np.zeros((40, 50), np.float32)}, None, SETTING)
    huge = {kind: {"w": np.ones((40, 50), np.float32)} for kind in ("exp_avg", "exp_avg_sq")}
    _, state = ExCP().encode({"w": values}, state, SETTING, moments=huge)
    assert np.unique(state.tensors["w"]).size == 15
    assert np.sqrt(np.mean((state.tensors["w"] - values) ** 2)) < 0.12  # 0.108 with the best 15 levels


def test_moments_of_tensors_that_are_raw_come_back_exactly() -> None:
    _, state = ExCP().encode({"w": BASE}, None, SETTING, moments=moments(1e-9))
    assert np.array_equal(state.known["moments"]["exp_avg_sq"]["w"], moments(1e-9)["exp_avg_sq"]["w"])


def test_moments_of_a_tensor_that_is_not_finite_are_exact() -> None:
    _, state = ExCP().encode({"w": BASE}, None, SETTING)
    _, state = ExCP().encode({"w": BASE + np.nan}, state, SETTING, moments=moments(1e-9))
    assert np.array_equal(state.known["moments"]["exp_avg"]["w"], FIRST)


def test_moments_that_are_not_finite_are_exact() -> None:
    _, state = ExCP().encode({"w": BASE}, None, SETTING)
    _, state = ExCP().encode({"w": MOVED}, state, SETTING, moments=moments(np.inf))
    assert np.isinf(state.known["moments"]["exp_avg_sq"]["w"]).all()


def test_bytes_of_moments_are_no_bytes_of_weights() -> None:
    _, state = ExCP().encode({"w": BASE}, None, SETTING)
    payload, _ = ExCP().encode({"w": MOVED}, state, SETTING, moments=moments(1e-9))
    kept = {**moments(1e-9), "exp_avg": {"w": FIRST, "bias": np.ones((9, 9), np.float32)}}
    larger, _ = ExCP().encode({"w": MOVED}, state, SETTING, moments=kept)
    assert len(larger) > len(payload) + 9 * 9 * 4
    assert ExCP().weight_bytes(larger) == ExCP().weight_bytes(payload)


def test_a_run_without_adam_is_refused() -> None:
    _, state = ExCP().encode({"w": BASE}, None, SETTING)
    with pytest.raises(UsageError, match="excp needs Adam's moments"):
        ExCP().encode({"w": MOVED}, state, SETTING, moments={"momentum_buffer": {"w": FIRST}})
