"""What tests of the training hook share: a repository, and torch on one thread."""

from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest
import torch
from torch import multiprocessing

from mvcs.repository import Repository


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def forked_replicas(forked: ForkServerContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start replicas from a process that has torch loaded: an interpreter of their own takes two seconds."""
    monkeypatch.setattr(multiprocessing, "get_context", lambda _method: forked)


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with Repository.init(tmp_path / "run") as made:
        yield made
