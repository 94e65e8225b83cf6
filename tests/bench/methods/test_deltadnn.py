"""Delta-DNN's steps and runs of zeros, worked by hand."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvcs.bench.methods.coding import decompressed
from mvcs.bench.methods.deltadnn import DeltaDNN, of_zero_runs, zero_runs
from mvcs.bench.methods.method import unpack

SETTING = {"error": 0.1}
STEP = 2 * np.log(1.1)  # 0.1906
WEIGHTS = np.array([[0.45, -0.3], [0.095, 0.0954]], np.float32)


def test_values_are_rounded_to_whole_steps() -> None:
    payload, state = DeltaDNN().encode({"w": WEIGHTS}, None, SETTING)
    head, widths, raw, coded = unpack(payload)[3:]
    # 2.36, -1.57, 0.498 and 0.5005 steps
    assert decompressed(coded, 4) == struct.pack("<4b", 2, -2, 0, 1)
    assert (head, widths, raw) == (struct.pack("<dQ", 0.1, 0), bytes([1]), b"")
    assert np.allclose(state.tensors["w"], [[2 * STEP, -2 * STEP], [0, STEP]], rtol=1e-6)


def test_differences_are_from_what_was_restored() -> None:
    method = DeltaDNN()
    _, first = method.encode({"w": WEIGHTS}, None, SETTING)
    payload, second = method.encode({"w": WEIGHTS + np.float32(STEP)}, first, SETTING)
    assert decompressed(unpack(payload)[6], 4) == bytes([1, 1, 1, 1])
    assert np.allclose(second.tensors["w"] - first.tensors["w"], STEP)


@pytest.mark.parametrize(("value", "width"), [(24.0, 1), (24.5, 2), (6245.0, 2), (6250.0, 4), (1e9, 0)])
def test_steps_have_the_bytes_that_the_largest_needs(value: float, width: int) -> None:
    payload, state = DeltaDNN().encode({"w": np.array([[value, 0.0]], np.float32)}, None, SETTING)
    assert unpack(payload)[4] == bytes([width])
    assert np.abs(state.tensors["w"] - [[value, 0]]).max() < STEP


def test_runs_of_zeros_are_chosen_where_they_take_less() -> None:
    weights = np.zeros((200, 200), np.float32)
    places = np.random.default_rng(0).choice(weights.size, 300, replace=False)
    weights.flat[places] = STEP
    payload, state = DeltaDNN().encode({"w": weights}, None, SETTING)
    head, _, _, coded = unpack(payload)[3:]
    (_, size) = struct.unpack("<dQ", head)
    assert decompressed(coded, size) == zero_runs((weights.ravel() > 0).astype(np.uint8))
    assert np.allclose(state.tensors["w"], weights)


def test_a_run_is_a_zero_and_its_length_below_256() -> None:
    assert zero_runs(np.array([0] * 300 + [7, 0], np.uint8)) == bytes([0, 255, 0, 45, 7, 0, 1])


@given(st.lists(st.sampled_from([0, 0, 0, 1, 255]), max_size=600))
def test_runs_give_their_bytes_back(data: list[int]) -> None:
    found = np.array(data, np.uint8)
    assert np.array_equal(of_zero_runs(np.frombuffer(zero_runs(found), np.uint8), found.size), found)


@pytest.mark.parametrize("runs", [[0, 0], [0, 9], [5]])
def test_runs_of_other_bytes_are_refused(runs: list[int]) -> None:
    with pytest.raises(ValueError, match="run"):
        of_zero_runs(np.array(runs, np.uint8), 8)
