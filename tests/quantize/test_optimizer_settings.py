"""Settings of optimizers are read from a state that may hold anything."""

import math

import numpy as np
import pytest

from mvcs.quantize.moments.next_update import AdamRule, SgdRule, update_rule

ADAM = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1, "amsgrad": False}
SGD = {"lr": 0.1, "momentum": 0.9, "dampening": 0, "nesterov": False, "weight_decay": 0}


def test_known_optimizers():
    known = update_rule({**ADAM, "decoupled_weight_decay": True}, 7)
    assert known == AdamRule(1e-3, (0.9, 0.95), 1e-8, 0.1, decoupled=True, amsgrad=False, step=7)
    assert update_rule(SGD, None) == SgdRule(0.1, 0.9, 0.0, nesterov=False, decay=0.0)


def test_decay_is_left_out_where_adam_and_adamw_look_alike():
    assert update_rule(ADAM, 7).decay == 0


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
    assert not update_rule(ADAM, 0).update(moments, None).any()
