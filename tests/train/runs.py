"""A small training run whose result depends on every part of its state."""

import threading
from typing import Any

import torch
from torch import nn

from mvcs.repository import Repository
from mvcs.train import Checkpointer


class Data:
    """Draws batches from a generator of its own."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(7)

    def next(self) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(16, 24, generator=self.generator)
        return x, x.sin().sum(1, keepdim=True)

    def state_dict(self) -> dict[str, Any]:
        return {"generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"])


class Run:
    """A net with dropout and tied weights, AdamW, a schedule, and a stateful source of data."""

    def __init__(self, seed: int = 0) -> None:
        torch.manual_seed(seed)
        middle = nn.Linear(48, 48)
        self.model = nn.Sequential(
            nn.Linear(24, 48),
            nn.GELU(),
            middle,
            nn.Dropout(0.2),
            middle,
            nn.BatchNorm1d(48),
            nn.Linear(48, 1),
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 50)
        self.data = Data()

    @property
    def parts(self) -> tuple[Any, Any]:
        return self.model, self.optimizer

    @property
    def options(self) -> dict[str, Any]:
        return {"scheduler": self.scheduler, "loader": self.data}

    def step(self) -> float:
        x, y = self.data.next()
        loss = (self.model(x) - y).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        return loss.item()

    def weights(self) -> dict[str, list[int]]:
        """The bits of every weight and buffer."""
        tensors = self.model.state_dict()
        return {name: list(tensor.cpu().numpy().tobytes()) for name, tensor in tensors.items()}


class CudaRun(Run):
    """The same on a CUDA device, in a precision, with AdamW as it is asked for."""

    def __init__(self, seed: int = 0, precision: torch.dtype | None = None, **adam: Any) -> None:
        super().__init__(seed)
        self.model.cuda()
        self.precision = precision
        self.optimizer = torch.optim.AdamW(self.model.parameters(), **{"lr": 1e-2} | adam)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 50)
        halves = precision is torch.float16
        self.scaler = torch.amp.GradScaler("cuda", init_scale=2.0**10, growth_interval=3, enabled=halves)

    @property
    def options(self) -> dict[str, Any]:
        return super().options | ({"scaler": self.scaler} if self.scaler.is_enabled() else {})

    def backward(self) -> float:
        x, y = (part.cuda() for part in self.data.next())
        with torch.autocast("cuda", dtype=self.precision, enabled=self.precision is not None):
            loss = (self.model(x) - y).square().mean()
        self.scaler.scale(loss).backward()
        return loss.item()

    def step(self) -> float:
        loss = self.backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        self.scheduler.step()
        return loss


def undisturbed(steps: int, run: Run | None = None) -> Run:
    run = run or Run()
    for _ in range(steps):
        run.step()
    return run


def train(checkpointer: Checkpointer, run: Run, steps: range) -> None:
    for step in steps:
        checkpointer.after_step(step, {"loss": run.step()})


def steps_of(repo: Repository, rev: str = "HEAD") -> list[int | None]:
    return [commit.step for commit in repo.log(rev)]


class Gate:
    """Progress that holds a commit up until it is opened, or does something in the middle of it."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.reached = threading.Event()
        self.once = None

    def start(self, _stage: str, _total: int | None, _unit: str) -> None:
        self.reached.set()
        action, self.once = self.once, None
        if action is not None:
            action()
        assert self.opened.wait(600)

    def advance(self, _amount: int) -> None:
        pass

    def finish(self) -> None:
        pass

    def note(self, _message: str) -> None:
        pass
