"""Resume probes: what an arm is behind, and what is said when the user's function does not do."""

import math

import numpy as np
import pytest
import torch

from mvcs.errors import EvaluationError, UsageError
from mvcs.quantize import LatticeConfig, MomentsConfig
from mvcs.train.probing import bounded_copy, compared, probe


def falling(behind):
    """Losses that fall by 0.01 a step, a number of steps behind."""
    return lambda steps: [5 - 0.01 * (step - behind) for step in range(steps)]


def by_state(state, steps):
    return state["losses"](steps)


def test_an_arm_that_is_behind():
    found = probe(by_state, {"losses": falling(0)}, {"losses": falling(4)}, 20)
    assert found.steps == list(range(1, 21))
    assert found.lost_steps == pytest.approx(4)
    assert found.excess == pytest.approx(100 * 0.04 / np.mean(found.exact))
    assert found.excess_late > found.excess


def test_pairs_of_step_and_loss():
    def train(state, steps):
        yield from ((step, loss) for step, loss in enumerate(state["losses"](steps)) if step % 2 == 0)

    found = probe(train, {"losses": falling(0)}, {"losses": falling(1)}, 20)
    assert found.steps == list(range(0, 20, 2))
    assert found.lost_steps == pytest.approx(1)


def test_progress_is_not_told_where_the_loss_does_not_fall():
    random = np.random.default_rng(0)
    flat = (1 + 0.1 * random.standard_normal(40)).tolist()
    assert compared(list(range(40)), flat, [loss + 0.01 for loss in flat]).lost_steps is None
    assert compared([1, 2, 3], [3.0, 2.0, 1.0], [3.0, 2.0, 1.0]).lost_steps is None


def test_an_arm_that_goes_to_pieces_is_infinitely_worse():
    def train(state, steps):
        return [math.nan if state and step > 3 else 1 - step / 100 for step in range(steps)]

    found = probe(train, None, "restored", 10)
    assert found.excess == math.inf
    assert found.lost_steps is None
    assert found.restored[-1] == math.inf


def test_both_arms_draw_the_same_random_numbers():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    found = probe(lambda _, steps: torch.randn(steps).tolist(), None, None, 8)
    assert found.exact == found.restored
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("train", "what"),
    [
        (lambda _, steps: [1.0] * (steps - 1), "gave 9 losses for 10 steps of the exact state"),
        (lambda *_: 1.0, "gave a 'float'"),
        (lambda _, steps: [math.nan] * steps, "not finite at step 1"),
        (lambda *_: [(2, 1.0), (1, 1.0)], "those of steps 2, 1"),
        (lambda state, _: [(1, 1.0), (2 + bool(state), 1.0)], "those of other steps: 1, 3, not 1, 2"),
    ],
)
def test_functions_that_do_not_do(train, what):
    with pytest.raises(UsageError, match=what):
        probe(train, None, "restored", 10)


def test_a_function_that_raises():
    def train(state, steps):
        if state:
            raise ValueError("no such key")
        return [1.0] * steps

    with pytest.raises(EvaluationError, match="from the restored state failed: ValueError: no such key"):
        probe(train, None, "restored", 10)


def test_no_steps():
    with pytest.raises(UsageError, match="0 steps"):
        probe(by_state, {}, {}, 0)


def state():
    torch.manual_seed(0)
    moments = {"exp_avg": torch.randn(40, 30), "exp_avg_sq": torch.rand(40, 30)}
    settings = torch.optim.AdamW([torch.zeros(1)]).state_dict()["param_groups"]
    optimizer = {"state": {0: {**moments, "step": torch.tensor(7.0)}}, "param_groups": settings}
    return {"model": {"w": torch.randn(40, 30)}, "optimizer": optimizer, "note": "x" * 5000, "step": 7}


def test_what_a_bounded_commit_would_restore():
    given = state()
    config = LatticeConfig(moments=MomentsConfig.LIGHT)
    whole, moments = bounded_copy(given, config), bounded_copy(given, config, only_moments=True)
    assert not torch.equal(whole["model"]["w"], given["model"]["w"])
    assert torch.equal(moments["model"]["w"], given["model"]["w"])
    for found in (whole, moments):
        assert not found["optimizer"]["state"][0]["exp_avg"].any()
        assert found["optimizer"]["state"][0]["exp_avg_sq"].gt(0).all()
        assert (found["note"], found["step"]) == (given["note"], 7)
    moments["model"]["w"].zero_()
    assert given["model"]["w"].any()
