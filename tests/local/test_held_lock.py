"""A process that was stopped while it held the lock of `.mvcs` stops nobody else."""

import fcntl
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from mvcs import Checkpointer, Repository, local_files
from mvcs.errors import StorageError
from tests.repository.states import modified_model

WAIT = 0.2


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return modified_model(tmp_path / "work")


@pytest.fixture
def holder(work: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A process that is stopped while it holds the lock."""
    monkeypatch.setattr(local_files, "LOCK_SECONDS", WAIT)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        descriptor = os.open(work / ".mvcs/local/lock", os.O_RDWR)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(writer, b"held")
        signal.pause()
    os.read(reader, 4)
    os.kill(child, signal.SIGSTOP)
    yield child
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reader)
    os.close(writer)


@pytest.mark.usefixtures("holder")
def test_commits_and_checks_go_on(work: Path) -> None:
    with Repository.open(work) as repo:
        made = repo.commit_files([work / "model.safetensors"], message="two")
        assert repo.fsck().ok
        assert repo.resolve("main").id == made.id


@pytest.mark.usefixtures("holder")
def test_a_run_goes_on(work: Path) -> None:
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Repository.open(work) as repo:
        with Checkpointer(repo, model, optimizer, branch="run", every=1) as saving:
            for step in range(3):
                saving.after_step(step)
        assert [commit.step for commit in repo.log("run")][:3] == [2, 1, 0]


def test_who_holds_it_is_said_and_the_lock_works_once_it_is_let_go_of(work: Path, holder: int) -> None:
    path = work / ".mvcs/local/lock"
    with pytest.raises(StorageError, match="has held it") as caught, local_files.locked(path):
        pass
    assert f"process {holder}" in caught.value.message
    assert f"kill -CONT {holder}" in str(caught.value.hint)
    os.kill(holder, signal.SIGKILL)
    os.waitid(os.P_PID, holder, os.WEXITED | os.WNOWAIT)
    with local_files.locked(path):
        pass
