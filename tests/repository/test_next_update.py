"""The error of the next update: recorded with every bounded commit, and what torch itself would make it."""

import copy

import pytest
import torch

from mvcs import Repository

OPTIMIZERS = {
    "adam": lambda found: torch.optim.Adam(found, lr=0.01, weight_decay=0.1),
    "adamw": lambda found: torch.optim.AdamW(found, lr=0.01, betas=(0.9, 0.95), weight_decay=0.1),
    "amsgrad": lambda found: torch.optim.AdamW(found, lr=0.01, amsgrad=True),
    "sgd": lambda found: torch.optim.SGD(found, lr=0.1, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda found: torch.optim.SGD(found, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "damped": lambda found: torch.optim.SGD(found, lr=0.1, momentum=0.9, dampening=0.5),
}


@pytest.fixture
def repo(tmp_path):
    with Repository.init(tmp_path / "run") as repository:
        yield repository


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(40, 30), torch.nn.ReLU(), torch.nn.Linear(30, 20))


def trained(make):
    """A model after some steps, and the state it hands over."""
    found = model()
    optimizer = make(found.parameters())
    for _ in range(6):
        optimizer.zero_grad()
        found(torch.randn(16, 40)).square().mean().backward()
        optimizer.step()
    return copy.deepcopy({"model": found.state_dict(), "optimizer": optimizer.state_dict()})


def next_update(make, state):
    """What torch changes in the weights when the next gradient is zero."""
    found = model()
    optimizer = make(found.parameters())
    found.load_state_dict(state["model"])
    optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
    before = [parameter.detach().double().clone() for parameter in found.parameters()]
    for parameter in found.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    after = [parameter.detach().double() for parameter in found.parameters()]
    return torch.cat([(new - old).flatten() for new, old in zip(after, before, strict=True)])


@pytest.mark.parametrize("tier", ["resume", "light", "exact"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_it_is_the_difference_that_torch_makes(repo, name, tier):
    make = OPTIMIZERS[name]
    state = trained(make)
    info = repo.commit(state, step_size=0.5, moments=tier)
    exact, restored = next_update(make, state), next_update(make, repo.checkout())
    found = info.errors.get("next update")
    if (restored - exact).abs().max() < 1e-7:
        assert found is None or found["relative"] < 1e-4
        return
    assert found["count"] == exact.numel()
    assert found["relative"] == pytest.approx(float((restored - exact).norm() / exact.norm()), rel=2e-3)
    assert found["max_abs"] == pytest.approx(float((restored - exact).abs().max()), rel=2e-2)
