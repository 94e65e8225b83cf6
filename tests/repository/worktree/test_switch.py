"""Switching branches: files follow the commit, and stay alone when the commit is the same."""

import pathlib

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mvcs import Repository
from mvcs.errors import ConflictError


@pytest.fixture
def repository(tmp_path: pathlib.Path) -> Repository:
    """Return a repository with one committed file."""
    repository = Repository.init(tmp_path / "run")
    save_file({"w": np.zeros((2, 2), np.float32)}, tmp_path / "run" / "model.safetensors")
    repository.commit_files([tmp_path / "run" / "model.safetensors"], message="first")
    return repository


def test_a_branch_at_the_same_commit_keeps_changes(repository: Repository) -> None:
    """As in git, going to a branch at HEAD's commit carries uncommitted work along."""
    path = pathlib.Path(repository.top or "") / "model.safetensors"
    save_file({"w": np.ones((2, 2), np.float32)}, path)
    repository.create_branch("twin")

    report = repository.switch("twin")

    assert report.written == []
    assert repository.branch == "twin"
    assert load_file(path)["w"].sum() == 4


def test_a_branch_elsewhere_refuses_to_lose_changes(repository: Repository) -> None:
    """A branch at another commit must not overwrite uncommitted work."""
    path = pathlib.Path(repository.top or "") / "model.safetensors"
    repository.create_branch("old")
    save_file({"w": np.ones((2, 2), np.float32)}, path)
    repository.commit_files([path], message="second")
    save_file({"w": np.full((2, 2), 2, np.float32)}, path)

    with pytest.raises(ConflictError):
        repository.switch("old")

    assert repository.branch == "main"
    assert load_file(path)["w"].sum() == 8
