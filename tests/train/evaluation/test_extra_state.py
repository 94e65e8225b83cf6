"""What a module gives as its extra state is part of training: an evaluation leaves it as it was."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from mvcs.repository import Repository
from mvcs.train import Checkpointer


class Counting(nn.Module):
    """Trains by how often it was called."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(64, 64)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        result: torch.Tensor = self.linear(x) * (1 + 0.001 * self.calls)
        return result

    def get_extra_state(self) -> Any:
        return self.calls

    def set_extra_state(self, state: Any) -> None:
        self.calls = state


class Listing(Counting):
    def get_extra_state(self) -> Any:
        return {"calls": [self.calls], "none": None}

    def set_extra_state(self, state: Any) -> None:
        self.calls = state["calls"].pop()


class InTensor(Counting):
    def get_extra_state(self) -> Any:
        return torch.tensor([float(self.calls)])

    def set_extra_state(self, state: Any) -> None:
        self.calls = int(state.item())


def trained(repo: Repository, made: Any, steps: range, **options: Any) -> tuple[list[float], int, list[Any]]:
    model = made()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(1))

    def loss(of: nn.Module) -> torch.Tensor:
        return (of(x) - x.roll(1, 1)).square().mean()

    if options:
        options["evaluate"] = lambda of: loss(of).item()
    with Checkpointer(repo, model, optimizer, every=2, final=False, **options) as run:
        assert run.resume() == steps.start
        for step in steps:
            optimizer.zero_grad()
            loss(model).backward()
            optimizer.step()
            run.after_step(step)
        return model.linear.weight.tolist(), model.calls, list(run.not_evaluated)


@pytest.mark.parametrize("made", [Counting, Listing, InTensor])
def test_calls_are_counted_in_training_alone(repo: Repository, tmp_path: Path, made: Any) -> None:
    with Repository.init(tmp_path / "plain") as plain:
        expected = trained(plain, made, range(8))
    trained(repo, made, range(4), max_degradation=0.05)
    assert trained(repo, made, range(4, 8), max_degradation=0.05) == expected
    assert {commit.exactness for commit in repo.log()} == {"bounded"}
