"""What tests of the training hook share: a repository, and torch on one thread."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from mvcs.repository import Repository


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with Repository.init(tmp_path / "run") as made:
        yield made
