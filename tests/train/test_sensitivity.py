"""Averages of gradients: the right ones, and a training that does not notice."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mvcs.errors import UsageError
from mvcs.train.sensitivity import NEWEST, Sensitivity

STEPS = 5


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))


def data(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(step)
    return torch.randn(10, 6, generator=rng), torch.randn(10, 4, generator=rng)


def loss_of(model: nn.Module, step: int, part: slice = slice(None)) -> torch.Tensor:
    x, y = data(step)
    return (model(x[part]) - y[part]).square().sum() / 40


def expected(model: nn.Module, gradients: list[dict[str, torch.Tensor]]) -> dict[str, np.ndarray[Any, Any]]:
    """The formula as printed, in double precision."""
    scores = {}
    for name, parameter in model.named_parameters():
        if any(name in of for of in gradients):
            mean = torch.zeros(parameter.shape, dtype=torch.float64)
            for of in gradients:
                mean = NEWEST * of.get(name, torch.zeros(1)).double() + (1 - NEWEST) * mean
            scores[name] = (mean * parameter.detach().double()).abs().numpy()
    return scores


def agree(found: Any, wanted: Any) -> None:
    assert set(found) >= set(wanted)
    for name in wanted:
        assert found[name].dtype == np.float32
        assert np.allclose(found[name], wanted[name], rtol=1e-5, atol=1e-9), name


def taken(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def test_scores_are_those_of_the_formula():
    model = net()
    optimizer, seen = torch.optim.AdamW(model.parameters(), lr=1e-2), []
    with Sensitivity(model, optimizer) as sensitivity:
        for step in range(STEPS):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            seen.append(taken(model))
            optimizer.step()
        agree(sensitivity.importance(), expected(model, seen))
    optimizer.step()
    agree(sensitivity.importance(), expected(model, seen))


def loop(model: nn.Module, optimizer: Any, scaler: Any = None, *, clip: bool = False) -> None:
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        for part in (slice(0, 5), slice(5, None)):
            loss = loss_of(model, step, part)
            (loss if scaler is None else scaler.scale(loss)).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()


@pytest.mark.parametrize(
    "make",
    [
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        lambda parameters: torch.optim.Adam(parameters, lr=0.01, weight_decay=0.1, foreach=True),
        lambda parameters: torch.optim.AdamW(parameters, lr=0.01, fused=True),
    ],
)
@pytest.mark.parametrize("scaled", [False, True])
def test_training_does_not_notice(make: Callable[..., Any], *, scaled: bool):
    weights = []
    for watched in (True, False):
        model = net()
        optimizer = make(model.parameters())
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0) if scaled else None
        sensitivity = Sensitivity(model, optimizer) if watched else None
        loop(model, optimizer, scaler, clip=not scaled)
        if sensitivity:
            sensitivity.importance()
            sensitivity.close()
        weights.append([*model.parameters(), *(p.grad for p in model.parameters())])
        weights[-1] += [t for of in optimizer.state.values() for t in of.values() if torch.is_tensor(t)]
    assert all(torch.equal(mine, plain) for mine, plain in zip(*weights, strict=True))


def test_pieces_of_a_batch_are_one_gradient():
    model, other = net(), net()
    optimizer, plain = (torch.optim.SGD(of.parameters(), lr=0.1) for of in (model, other))
    with Sensitivity(model, optimizer) as pieces, Sensitivity(other, plain) as whole:
        loop(model, optimizer)
        for step in range(STEPS):
            plain.zero_grad()
            loss_of(other, step).backward()
            plain.step()
        agree(pieces.importance(), whole.importance())


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("unscaled", [False, True])
def test_scaled_gradients_are_unscaled(*, fused: bool, unscaled: bool):
    model = net()
    plain = copy.deepcopy(model)
    optimizer, other = (torch.optim.AdamW(of.parameters(), lr=1e-2, fused=fused) for of in (model, plain))
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
    with Sensitivity(model, optimizer) as scaled, Sensitivity(plain, other) as wanted:
        for step in range(STEPS):
            for net_, opt in ((model, optimizer), (plain, other)):
                opt.zero_grad()
                loss = loss_of(net_, step)
                (scaler.scale(loss) if net_ is model else loss).backward()
            if unscaled:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            other.step()
        agree(scaled.importance(), wanted.importance())


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_with_infinities_does_not_count(*, fused: bool):
    model = net()
    optimizer, seen = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=fused), []
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    with Sensitivity(model, optimizer) as sensitivity:
        for step in range(STEPS):
            optimizer.zero_grad()
            scaler.scale(loss_of(model, step)).backward()
            scale = scaler.get_scale()
            if step == 2:
                next(model.parameters()).grad.view(-1)[0] = float("inf")  # type: ignore[union-attr]
            else:
                seen.append({name: grad / scale for name, grad in taken(model).items()})
            scaler.step(optimizer)
            scaler.update()
        assert scaler.get_scale() == 32.0
        agree(sensitivity.importance(), expected(model, seen))


def test_a_closure_computes_its_gradients_itself():
    models = net(), net()
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    watching = [Sensitivity(*both) for both in zip(models, optimizers, strict=True)]
    for step in range(STEPS):

        def closure(step: int = step) -> float:
            optimizers[0].zero_grad()
            loss = loss_of(models[0], step)
            loss.backward()
            return loss.item()

        optimizers[0].step(closure if step % 2 else None) if step % 2 else optimizers[0].step(closure=closure)
        optimizers[1].zero_grad()
        loss_of(models[1], step).backward()
        optimizers[1].step()
    agree(watching[0].importance(), watching[1].importance())


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.middle, self.last = nn.Linear(6, 4), nn.Linear(4, 6), nn.Linear(6, 4)
        self.last.weight = self.first.weight
        self.middle.weight.requires_grad_(requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.middle(self.first(x)))


def test_shared_parameters_have_one_score_and_frozen_ones_none():
    model, seen = Tied(), []
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    with Sensitivity(model, optimizer) as sensitivity:
        for step in range(STEPS):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            seen.append(taken(model))
            optimizer.step()
        found = sensitivity.importance()
    assert "middle.weight" not in found
    assert found["last.weight"] is found["first.weight"]
    agree(found, expected(model, seen))


def test_parameters_come_and_go():
    model, seen = net(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Sensitivity(model, optimizer) as sensitivity:
        for step in range(STEPS):
            if step == 2:
                model.append(nn.Linear(4, 4))
                optimizer.add_param_group({"params": list(model[3].parameters())})
            if step == 3:
                model[2].weight.requires_grad_(requires_grad=False)
            optimizer.zero_grad()
            loss_of(model, step).backward()
            seen.append(taken(model))
            optimizer.step()
        agree(sensitivity.importance(), expected(model, seen))
        model[0] = nn.Linear(6, 8)
        assert "0.weight" not in sensitivity.importance()


def test_only_the_last_steps_before_a_commit_are_averaged():
    model, seen = net(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Sensitivity(model, optimizer, window=2) as sensitivity:
        for _ in range(2):
            sensitivity.expect(STEPS)
            assert sensitivity.importance() == {}
            seen.clear()
            for step in range(STEPS):
                optimizer.zero_grad()
                loss_of(model, step).backward()
                seen.append(taken(model))
                optimizer.step()
                assert bool(sensitivity.importance()) == (step >= STEPS - 2)
            agree(sensitivity.importance(), expected(model, seen[-2:]))
        sensitivity.expect(1)
        optimizer.step()
        assert sensitivity.importance()


def test_sparse_gradients_and_other_types_are_no_trouble():
    torch.manual_seed(0)
    model = nn.ModuleDict({"sparse": nn.Embedding(20, 4, sparse=True), "low": nn.Linear(4, 4).bfloat16()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Sensitivity(model, optimizer) as sensitivity:
        model["low"](model["sparse"](torch.arange(5)).bfloat16()).sum().backward()
        seen = {"low.weight": model["low"].weight.grad.clone()}
        optimizer.step()
        found = sensitivity.importance()
    assert "sparse.weight" not in found
    agree(found, expected(model, [seen]))


def test_a_window_holds_a_step():
    with pytest.raises(UsageError):
        Sensitivity(net(), torch.optim.SGD(net().parameters()), window=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_on_a_device_scores_are_those_of_the_host(*, fused: bool, scaled: bool):
    model = net().cuda()
    optimizer, seen = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=fused), []
    scaler = torch.amp.GradScaler("cuda", init_scale=256.0, enabled=scaled)
    with Sensitivity(model, optimizer) as sensitivity:
        for step in range(STEPS):
            optimizer.zero_grad(set_to_none=bool(step % 2))
            x, y = (part.cuda() for part in data(step))
            scaler.scale((model(x) - y).square().sum() / 40).backward()
            scale = scaler.get_scale() if scaled else 1.0
            if scaled and step == 2:
                next(model.parameters()).grad.view(-1)[0] = float("inf")  # type: ignore[union-attr]
            else:
                seen.append({name: grad.cpu() / scale for name, grad in taken(model).items()})
            scaler.step(optimizer)
            scaler.update()
        agree(sensitivity.importance(), expected(model.cpu(), seen))
