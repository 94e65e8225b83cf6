"""Settings of optimizers are read from a state that may hold anything."""

import math

import numpy as np
import pytest
import torch

from mvcs.quantize.next_update import AdamRule, SgdRule, update_rule

ADAM = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1, "amsgrad": False}
SGD = {"lr": 0.1, "momentum": 0.9, "dampening": 0, "nesterov": False, "weight_decay": 0}


def test_known_optimizers():
    known = update_rule({**ADAM, "decoupled_weight_decay": True}, 7)
    assert known == AdamRule(1e-3, (0.9, 0.95), 1e-8, decoupled=True, amsgrad=False, step=7)
    assert update_rule(SGD, None) == SgdRule(0.1, 0.9, nesterov=False)


def taken_by_torch(make, steps=6):
    """An optimizer's settings and moments after some steps, and what it takes for a gradient of zero."""
    torch.manual_seed(0)
    weight = torch.zeros(1000, requires_grad=True)
    optimizer = make([weight])
    for step in range(steps + 1):
        weight.grad = torch.randn(1000) if step < steps else torch.zeros(1000)
        state = {name: value.clone() for name, value in optimizer.state[weight].items()}
        before = weight.detach().double()
        optimizer.step()
    return optimizer.state_dict()["param_groups"][0], state, (before - weight.detach().double()).numpy()


@pytest.mark.parametrize(
    "make",
    [
        lambda found: torch.optim.Adam(found, lr=0.01),
        lambda found: torch.optim.AdamW(found, lr=0.01, betas=(0.9, 0.95), weight_decay=0),
        lambda found: torch.optim.AdamW(found, lr=0.01, amsgrad=True, weight_decay=0),
        lambda found: torch.optim.SGD(found, lr=0.1, momentum=0.9),
        lambda found: torch.optim.SGD(found, lr=0.1, momentum=0.9, nesterov=True),
        lambda found: torch.optim.SGD(found, lr=0.1, momentum=0.9, dampening=0.5),
    ],
    ids=["adam", "adamw", "amsgrad", "sgd", "nesterov", "damped"],
)
def test_an_update_is_what_torch_takes_for_a_gradient_of_zero(make):
    settings, state, expected = taken_by_torch(make)
    rule = update_rule(settings, float(state["step"]) if "step" in state else None)
    found = rule.update({name: state[name].numpy() for name in rule.moments})
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lr", None),
        ("lr", -1),
        ("lr", True),
        ("lr", math.nan),
        ("eps", math.inf),
        ("eps", "small"),
        ("betas", (0.9, 1.0)),
        ("betas", (0.9,)),
        ("betas", 0.9),
        ("betas", (-0.1, 0.9)),
        ("weight_decay", 1e300),
        pytest.param("lr", 10**400, id="lr-huge"),
        pytest.param("betas", (10**400, 0.9), id="betas-huge"),
        ("momentum_decay", 0.004),
    ],
)
def test_settings_that_no_run_has_are_refused(name, value):
    assert update_rule({**ADAM, name: value}, 7) is None


@pytest.mark.parametrize("step", [None, -1, math.nan, math.inf])
def test_adam_needs_a_step(step):
    assert update_rule(ADAM, step) is None


def test_other_optimizers_and_sgd_without_momentum_are_none():
    assert update_rule({"lr": 0.1}, 1) is None
    assert update_rule({**SGD, "momentum": 0}, 1) is None
    assert update_rule({**SGD, "momentum": 1.0}, 1) is None
    assert update_rule({**SGD, "alpha": 0.99}, 1) is None


def test_an_update_of_zeros_is_finite():
    zeros = np.zeros(3, np.float32)
    moments = {"exp_avg": zeros, "exp_avg_sq": zeros}
    assert not update_rule(ADAM, 0).update(moments).any()
