"""UltraDelta's levels, shares and factor, worked by hand."""

import numpy as np
import pytest

from mvcs.bench.methods.ultradelta import UltraDelta

SETTING = {"sparsity": 0.0, "bits": 2, "factor": 1.0}
METHOD = UltraDelta()


def tuned(moved: dict[str, np.ndarray], **changed: float) -> dict[str, np.ndarray]:
    """What a fine-tune moved after coding, from a base of zeros."""
    base = {name: np.zeros(one.shape, np.float32) for name, one in moved.items()}
    _, state = METHOD.encode(base, None, SETTING)
    _, state = METHOD.encode(moved, state, {**SETTING, **changed})
    return dict(state.tensors)


def test_differences_go_to_the_nearest_of_equal_levels() -> None:
    found = tuned({"w": np.array([[-3, -1.2, 1.1, 3]], np.float32)})
    assert found["w"].tolist() == [[-3, -1, 1, 3]]


def test_each_level_loses_the_same_share_and_what_stays_grows() -> None:
    moved = np.repeat(np.array([[-1, 2]], np.float32), 100, axis=1)
    found = tuned({"w": moved}, sparsity=0.75)["w"][0]
    # One tensor is all there is, in the last third: its share is the sparsity.
    assert np.unique(found[:100], return_counts=True)[1].tolist() == [25, 75]
    assert np.unique(found).tolist() == [-4, 0, 8]


def test_the_factor_makes_what_stays_smaller() -> None:
    moved = np.repeat(np.array([[-1, 2]], np.float32), 100, axis=1)
    assert np.unique(tuned({"w": moved}, sparsity=0.75, factor=0.5)["w"]).tolist() == [-2, 0, 4]


def test_tensors_that_vary_most_lose_least() -> None:
    drawn = np.random.default_rng(0)
    moved = {
        name: drawn.normal(0, scale, (100, 100)).astype(np.float32)
        for name, scale in zip("cab", (3, 1, 2), strict=True)
    }
    found = tuned(moved, sparsity=0.5, bits=8)
    kept = {name: float((one != 0).mean()) for name, one in found.items()}
    assert kept["a"] == pytest.approx(0.49, abs=0.004)
    assert kept["b"] == pytest.approx(0.50, abs=0.004)
    assert kept["c"] == pytest.approx(0.51, abs=0.004)


def test_the_base_is_the_first_checkpoint_and_not_the_one_before() -> None:
    first, second = np.zeros((4, 4), np.float32), np.arange(16, dtype=np.float32).reshape(4, 4)
    _, state = METHOD.encode({"w": first}, None, SETTING)
    _, state = METHOD.encode({"w": second}, state, SETTING)
    assert not state.known["base"]["w"].any()


def test_a_constant_difference_is_kept() -> None:
    assert tuned({"w": np.full((3, 3), 0.25, np.float32)}, sparsity=0.97)["w"].tolist() == [[0.25] * 3] * 3
