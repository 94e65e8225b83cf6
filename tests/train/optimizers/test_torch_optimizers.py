"""Every optimizer of torch: what of its state is rounded, and that training goes on from it."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim import (
    ASGD,
    LBFGS,
    SGD,
    Adadelta,
    Adafactor,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Muon,
    NAdam,
    RAdam,
    RMSprop,
    Rprop,
)

from tests.train.optimizers.nets import committed, matrices

ADAM = {"exp_avg", "exp_avg_sq"}


def of(kind: Any, **settings: Any) -> Any:
    return lambda model: kind(model.parameters(), **settings)


def in_groups(model: torch.nn.Module) -> Any:
    flat = [one for one in model.parameters() if one.dim() == 1]
    groups = [{"params": matrices(model), "weight_decay": 0.1}, {"params": flat, "lr": 1e-3}]
    return AdamW(groups, lr=1e-2)


@pytest.mark.parametrize(
    ("made", "name", "rounded", "kept"),
    [
        pytest.param(of(Adam), "Adam betas=0.9,0.999", ADAM, {"step"}, id="Adam"),
        pytest.param(of(AdamW), "AdamW betas=0.9,0.999", ADAM, {"step"}, id="AdamW"),
        pytest.param(
            of(AdamW, amsgrad=True),
            "AdamW betas=0.9,0.999",
            ADAM | {"max_exp_avg_sq"},
            {"step"},
            id="amsgrad",
        ),
        pytest.param(of(AdamW, fused=True), "AdamW betas=0.9,0.999", ADAM, {"step"}, id="fused"),
        pytest.param(of(AdamW, foreach=True), "AdamW betas=0.9,0.999", ADAM, {"step"}, id="foreach"),
        pytest.param(in_groups, "AdamW betas=0.9,0.999", ADAM, {"step"}, id="groups"),
        pytest.param(
            of(AdamW, lr=torch.tensor(1e-2), betas=(torch.tensor(0.9), torch.tensor(0.999)), foreach=False),
            "AdamW betas=0.8999999761581421,0.9990000128746033",
            ADAM,
            {"step"},
            id="tensors",
        ),
        pytest.param(of(NAdam), "NAdam", ADAM, {"step", "mu_product"}, id="NAdam"),
        pytest.param(of(RAdam), "RAdam", ADAM, {"step"}, id="RAdam"),
        pytest.param(of(Adamax), "Adamax", {"exp_avg", "exp_inf"}, {"step"}, id="Adamax"),
        pytest.param(of(Adagrad), "Adagrad", {"sum"}, {"step"}, id="Adagrad"),
        pytest.param(of(Adadelta), "Adadelta", {"square_avg", "acc_delta"}, {"step"}, id="Adadelta"),
        pytest.param(of(RMSprop, lr=1e-3), "RMSprop", {"square_avg"}, {"step"}, id="RMSprop"),
        pytest.param(
            of(RMSprop, lr=1e-3, momentum=0.9),
            "RMSprop",
            {"square_avg", "momentum_buffer"},
            {"step"},
            id="RMSprop-momentum",
        ),
        pytest.param(
            of(RMSprop, lr=1e-3, momentum=0.9, centered=True),
            "centered RMSprop",
            {"momentum_buffer"},
            {"step", "square_avg", "grad_avg"},
            id="RMSprop-centered",
        ),
        pytest.param(of(SGD, lr=0.1, momentum=0.9), "SGD momentum=0.9", {"momentum_buffer"}, set(), id="SGD"),
        pytest.param(of(SGD, lr=0.1), None, set(), set(), id="SGD-plain"),
        pytest.param(of(ASGD, lr=0.1), "ASGD", {"ax"}, {"step", "eta", "mu"}, id="ASGD"),
        pytest.param(of(Rprop, lr=1e-3), "Rprop", set(), {"step", "prev", "step_size"}, id="Rprop"),
        pytest.param(
            of(Adafactor), "Adafactor", set(), {"step", "row_var", "col_var", "variance"}, id="Adafactor"
        ),
        pytest.param(lambda model: Muon(matrices(model)), "Muon", {"momentum_buffer"}, set(), id="Muon"),
        pytest.param(
            of(LBFGS, lr=0.1, max_iter=4),
            "LBFGS",
            set(),
            {"d", "al", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad"},
            id="LBFGS",
        ),
    ],
)
def test_what_is_rounded(tmp_path, made, name, rounded, kept):
    found = committed(tmp_path / "run", made)

    assert (found.optimizer, found.rounded, found.kept) == (name, rounded, kept)
    assert found.commit.notes == []
    assert all(math.isfinite(loss) for loss in found.after)
    assert found.after[0] == pytest.approx(found.before[0], rel=0.02)


def test_a_rate_of_a_schedule_written_with_numpy(tmp_path):
    def made(model: torch.nn.Module) -> AdamW:
        optimizer = AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95))
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * (1 + np.cos(np.float64(0.5)))
            assert type(group["lr"]) is np.float64
        return optimizer

    found = committed(tmp_path / "numpy", made, moments="auto")
    plain = committed(
        tmp_path / "plain", of(AdamW, lr=1e-2 * (1 + math.cos(0.5)), betas=(0.9, 0.95)), moments="auto"
    )

    assert found.tier == plain.tier == ("carried", "rank-1")
    assert found.optimizer == plain.optimizer == "AdamW betas=0.9,0.95"
    assert dict(found.commit.errors) == dict(plain.commit.errors)


@pytest.mark.parametrize(
    ("made", "lie", "rounded"),
    [
        (of(AdamW), {"betas": (0.9, 1.0)}, ADAM),
        (of(AdamW), {"lr": math.nan}, ADAM),
        (of(AdamW), {"eps": math.inf}, ADAM),
        (of(AdamW), {"betas": (1.5, 0.9)}, ADAM),
        (of(AdamW), {"lr": -1.0}, ADAM),
        (of(SGD, lr=0.1, momentum=0.9), {"momentum": 1.0}, {"momentum_buffer"}),
        (of(Adadelta), {"rho": 1.0}, {"square_avg", "acc_delta"}),
        (of(RMSprop, lr=1e-3), {"alpha": math.nan}, {"square_avg"}),
    ],
)
@pytest.mark.parametrize("moments", ["auto", "light"])
def test_settings_that_lie_keep_moments_exactly_and_it_is_said(tmp_path, made, lie, rounded, moments):
    def lying(model: torch.nn.Module) -> Any:
        optimizer = made(model)
        optimizer.register_step_post_hook(lambda *_: optimizer.param_groups[0].update(lie))
        return optimizer

    found = committed(tmp_path / "run", lying, steps=1, moments=moments)

    [(name, value)] = lie.items()
    [note] = found.commit.notes
    assert f"{name}={value}" in note
    assert "kept exactly" in note
    assert found.rounded == set()
    assert found.kept >= rounded
