"""Small histories to walk in."""

import numpy as np
import pytest

from mvcs.repository import Repository
from tests.history.counting import CountingBackend


@pytest.fixture
def repo(tmp_path):
    with Repository.init(tmp_path) as repository:
        yield repository


@pytest.fixture
def commit(repo):
    """Commit a small state: `commit(step, **what)`."""

    def make(step, **what):
        return repo.commit({"w": np.full(4, step)}, message=f"step {step}", step=step, **what)

    return make


@pytest.fixture
def counting(repo):
    return CountingBackend(repo.url)
