"""The loop in README.md, as it is printed: killed and started again, it ends as one that was never killed."""

import contextlib
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from mvcs.repository import Repository

pytest.importorskip("torchdata")

# torchdata asks for a switch that torch no longer has.
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")

README = Path(__file__).parents[2] / "README.md"
STEPS, KILLED, SAMPLES = 70, 57, 7 * 32
EVERY = {"every=50,": "every=20,", '"run"': "run", "int(sys.argv[1])": str(STEPS)}


class KilledError(Exception):
    """Ends a run in the middle."""


def loop() -> str:
    """The block of README with a checkpointer, with numbers of a test."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (found,) = [block for block in blocks if "Checkpointer(" in block]
    for printed, meant in EVERY.items():
        assert printed in found
        found = found.replace(printed, meant)
    return found


class Run:
    """What the block leaves to its reader: model with dropout, data, schedule, step, evaluation."""

    def __init__(self, die_before: int | None = None) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.Linear(16, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 10, 0.8)
        self.data = torch.randn(SAMPLES, 8, generator=torch.Generator().manual_seed(1))
        self.die_before, self.steps = die_before, 0

    def train_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        if self.steps == self.die_before:
            raise KilledError
        self.steps += 1
        loss = self.loss(batch[0])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        return loss.detach()

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        return (self.model(x) - x.sum(1, keepdim=True)).square().mean()

    def evaluate(self, model: nn.Module) -> float:
        model.eval()
        with torch.no_grad():
            return float(self.loss(self.data)) + 1

    def train(self, folder: Path) -> list[bytes]:
        task: Any = ModuleType("task")
        task.model, task.optimizer, task.dataset = self.model, self.optimizer, TensorDataset(self.data)
        task.evaluate, task.train_step, task.scheduler = self.evaluate, self.train_step, self.scheduler
        with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
            patch.setitem(sys.modules, "task", task)
            exec(compile(loop(), str(README), "exec"), {"run": folder})  # noqa: S102 - our own page
        return [weight.detach().numpy().tobytes() for weight in self.model.parameters()]


def test_the_loop_of_the_readme_goes_on_bit_for_bit_within_an_epoch(tmp_path: Path) -> None:
    for name in ("whole", "killed"):
        Repository.init(tmp_path / name).close()
    whole = Run().train(tmp_path / "whole")
    with pytest.raises(KilledError):
        Run(die_before=KILLED).train(tmp_path / "killed")
    again = Run()
    assert again.train(tmp_path / "killed") == whole
    assert again.steps == STEPS - 40
    with Repository.open(tmp_path / "killed") as repo:
        assert [(commit.step, commit.exactness) for commit in repo.log()] == [
            (step, "bounded") for step in (69, 59, 39, 19)
        ]
