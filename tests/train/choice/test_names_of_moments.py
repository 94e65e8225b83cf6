"""What a model calls its tensors does not matter: what was evaluated is what is restored."""

import pytest
import torch
from torch import nn

from mvcs import Repository
from mvcs.checkpoint import MOMENT_NAMES
from mvcs.train import Checkpointer

MEAN = 5.0
BOUND = 0.02


def inputs(number):
    return torch.randn(32, 16, generator=torch.Generator().manual_seed(number)) + MEAN


def target(x):
    return (x - MEAN)[:, :4].sin()


def evaluate(model):
    for number in range(1000, 1008):
        x = inputs(number)
        yield (model(x) - target(x)).square().mean().item() * 32, 32


def loss_of(model):
    model.eval()
    with torch.no_grad():
        found = list(evaluate(model))
    return sum(total for total, _ in found) / sum(count for _, count in found)


class Normed(nn.Module):
    """Subtracts a running mean of its inputs, and passes a matrix, both called as moments are."""

    def __init__(self, name):
        super().__init__()
        torch.manual_seed(0)
        self.norm, self.mixed = nn.Module(), nn.Module()
        self.name = name
        self.norm.register_buffer(name, torch.full((16,), 3.0))
        self.mixed.register_parameter(name, nn.Parameter(torch.randn(16, 48) / 4))
        self.last = nn.Linear(48, 4)

    def forward(self, x):
        mean, matrix = getattr(self.norm, self.name), getattr(self.mixed, self.name)
        if self.training:
            mean.lerp_(x.detach().mean(0), 0.2)
        return self.last(torch.relu((x - mean) @ matrix))


def train(model, optimizer, number):
    model.train()
    x = inputs(number)
    optimizer.zero_grad()
    (model(x) - target(x)).square().mean().backward()
    optimizer.step()


@pytest.mark.parametrize("name", sorted(MOMENT_NAMES))
def test_a_model_may_call_its_tensors_as_moments_are(tmp_path, name):
    model = Normed(name)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95))
    choices = {"every": 15, "evaluate": evaluate, "max_degradation": BOUND, "extra": {"no loader": 0}}
    with Repository.init(tmp_path / "run") as repo:
        with Checkpointer(repo, model, optimizer, **choices) as checkpointer:
            for step in range(30):
                train(model, optimizer, step)
                checkpointer.after_step(step)
        commits = [commit for commit in repo.log() if commit.bounded]
        assert commits
        for commit in commits:
            assert commit.notes == []
            restored = Normed(name)
            restored.load_state_dict(repo.checkout(commit.id)["model"])
            loss = loss_of(restored)
            assert loss <= (1 + 2 * BOUND) * commit.metrics["evaluation"]
            told = commit.metrics["evaluation"] * (1 + commit.degradation)
            assert loss == pytest.approx(told, rel=BOUND)
        roles = {one.path: one.role for one in repo.show().tensors}
    assert (roles[f"model.norm.{name}"], roles[f"model.mixed.{name}"]) == ("small", "weight")
