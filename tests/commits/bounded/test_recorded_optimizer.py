"""What a commit records of its optimizer, and how that decides what is kept of moments."""

import copy

import pytest
import torch

from mvcs import Repository
from mvcs.quantize import LatticeConfig, MomentsConfig

OPTIMIZERS = {
    "adam": lambda found: torch.optim.Adam(found, lr=0.01, weight_decay=0.1),
    "adamw": lambda found: torch.optim.AdamW(found, lr=0.01, betas=(0.9, 0.95), weight_decay=0.1),
    "sgd": lambda found: torch.optim.SGD(found, lr=0.1, momentum=0.9, weight_decay=0.01),
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
    repo.commit(state, quantizer=config)
    kept = repo.checkout()["optimizer"]["state"][0]
    for name in ("exp_avg", "exp_avg_sq"):
        assert torch.equal(kept[name], state["optimizer"]["state"][0][name])


def test_without_an_optimizer_nothing_is_told(repo):
    repo.commit({"model": model().state_dict()}, step_size=0.5, moments="auto")
    assert repo.show().provenance == {}
