"""Runs that are resumed from the value layer again and again keep what each round learns."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from mvcs.quantize.measure import measure_progress
from mvcs.repository import Repository
from mvcs.train import Checkpointer

ROUNDS, STEPS = 4, 5


def task() -> tuple[torch.Tensor, torch.Tensor]:
    draws = torch.Generator().manual_seed(0)
    x, mix = torch.randn(600, 32, generator=draws), torch.randn(32, 4, generator=draws)
    return x, torch.sin(x @ mix / 4) @ torch.randn(4, 1, generator=draws)


@dataclass
class Round:
    """A model and what trains it, made anew as another process makes them."""

    rate: float

    def __post_init__(self) -> None:
        torch.manual_seed(1)
        layers = nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)
        self.model = nn.Sequential(*layers)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=self.rate)
        self.x, self.y = task()

    def step(self, number: int) -> None:
        drawn = torch.randint(0, 600, (32,), generator=torch.Generator().manual_seed(number))
        self.optimizer.zero_grad()
        self.loss(drawn).backward()
        self.optimizer.step()

    def loss(self, drawn: Any = slice(None)) -> torch.Tensor:
        return nn.functional.mse_loss(self.model(self.x[drawn]), self.y[drawn])

    def state(self) -> dict[str, torch.Tensor]:
        return {name: value.clone() for name, value in self.model.state_dict().items()}

    def loss_of(self, state: dict[str, torch.Tensor]) -> float:
        self.model.load_state_dict(state)
        with torch.no_grad():
            return self.loss().item()


def resumed(repo: Repository, run: Round, steps: int, **settings: Any) -> dict[str, torch.Tensor]:
    """Train on and commit; return the weights as they were before."""
    with Checkpointer(repo, run.model, run.optimizer, every=10**6, **settings) as checkpointer:
        first = checkpointer.resume()
        run.optimizer.param_groups[0]["lr"] = run.rate
        before = run.state()
        for number in range(first, first + steps):
            run.step(number)
            checkpointer.after_step(number)
    assert checkpointer.failures == []
    return before


@pytest.mark.parametrize("settings", [{"bins": 8}, {"step_size": 0.5}], ids=str)
def test_every_round_of_small_steps_keeps_its_progress(repo: Repository, settings: dict[str, Any]) -> None:
    repo.config_set("retention.exact_layers", "0")
    resumed(repo, Round(rate=0.05), 100, **settings)
    for _ in range(ROUNDS):
        run = Round(rate=1e-3)
        before = resumed(repo, run, STEPS, **settings)
        now, kept = run.state(), repo.restore(prefer_exact=False).state["model"]
        shares = {
            name: measure_progress(*(state[name].numpy() for state in (kept, now, before))).retained
            for name in now
            if name.endswith("weight")
        }
        assert min(shares.values()) >= 0.9
        assert run.loss_of(kept) < run.loss_of(before)
        told = repo.head().errors["snap-back"]
        assert told["retained"] >= 0.9
        assert told["exact"] + told["refined"] >= len(shares)
