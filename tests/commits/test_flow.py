"""How much a reader of a bounded commit passes through: files and functions, resume included."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import mvcs

ROOT = f"{Path(mvcs.__file__).parent}/"
MOST_FILES, MOST_FUNCTIONS = 180, 1750


class Flow:
    """The functions that were called, lambdas, comprehensions and bodies of modules left out."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str, int]] = set()

    @property
    def files(self) -> set[str]:
        return {file for file, _, _ in self.functions}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Look at one call, as `sys.setprofile` gives it."""
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOT) and not code.co_name.startswith("<"):
            self.functions.add((code.co_filename, code.co_name, code.co_firstlineno))

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count in all threads."""
        sys.setprofile(self)
        threading.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


def test_a_bounded_commit_passes_through_few_files_and_functions(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    inputs, targets = torch.randn(64, 32), torch.randn(64, 8)

    def evaluate(model: torch.nn.Module) -> Iterator[tuple[float, int]]:
        yield torch.nn.functional.mse_loss(model(inputs), targets, reduction="sum").item(), 64

    def train(steps: int, repo: mvcs.Repository) -> None:
        with mvcs.Checkpointer(
            repo, model, optimizer, every=5, evaluate=evaluate, max_degradation=0.05
        ) as checkpointer:
            for step in range(checkpointer.resume(), steps):
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(model(inputs), targets).backward()
                optimizer.step()
                checkpointer.after_step(step)

    train(10, mvcs.Repository.init(tmp_path))
    flow = Flow()
    with flow.counted():
        train(15, mvcs.Repository.open(tmp_path))
    assert 50 < len(flow.files) <= MOST_FILES
    assert len(flow.functions) <= MOST_FUNCTIONS
