"""The error of the next update: recorded with every bounded commit, and what torch itself would make it."""

import copy

import pytest
import torch

from mvcs import Repository
from mvcs.quantize import LatticeConfig, MomentsConfig

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


@pytest.mark.parametrize(
    ("name", "told", "tier"),
    [
        ("adamw", "AdamW betas=0.9,0.95", ("carried", "rank-1")),
        ("adam", "Adam betas=0.9,0.999", ("carried", "rank-1")),
        ("sgd", "SGD momentum=0.9", ("sign", 2.0)),
    ],
)
def test_a_commit_records_the_optimizer_and_what_was_chosen_for_it(repo, name, told, tier):
    repo.commit(trained(OPTIMIZERS[name]), step_size=0.5, moments="auto")
    shown = repo.show()
    assert shown.provenance == {"optimizer": told, "moments": "auto"}
    assert (shown.quantizer["first"], shown.quantizer["second"]) == tier
    repo.commit(trained(OPTIMIZERS[name]), step_size=0.5, moments="light")
    assert repo.show().provenance == {"optimizer": told}


def test_a_narrow_bound_keeps_moments_exactly(repo):
    config = LatticeConfig(moments=MomentsConfig.auto(1e-4))
    state = trained(OPTIMIZERS["adamw"])
    info = repo.commit(state, quantizer=config)
    kept = repo.checkout()["optimizer"]["state"][0]["exp_avg"]
    assert torch.equal(kept, state["optimizer"]["state"][0]["exp_avg"])
    assert info.errors["next update"]["relative"] < 0.01


def test_without_an_optimizer_nothing_is_measured_or_told(repo):
    info = repo.commit({"model": model().state_dict()}, step_size=0.5, moments="auto")
    assert "next update" not in info.errors
    assert repo.show().provenance == {}
