"""A compaction in a process beside a run."""

import logging
import sys
from pathlib import Path

import pytest
import torch

from mvcs.repository import Repository
from mvcs.train import Checkpointer
from tests.compaction.histories import History, check, depths, made

COMMITS = 5


@pytest.fixture
def history(tmp_path: Path) -> History:
    found = made(tmp_path / "work", COMMITS, bounded=True, rows=8)
    with Repository.open(found.folder) as repo:
        repo.config_set("compaction.max_depth", "1")
    return found


def trained(history: History, share: str, steps: int, wait: int | None) -> Checkpointer:
    """Train some steps, with a compaction that is waited for after one of them; return what trained."""
    with Repository.open(history.folder) as repo:
        repo.config_set("compaction.background", share)
    repo = Repository.open(history.folder)
    model = torch.nn.Linear(8, 8)
    with Checkpointer(
        repo, model, torch.optim.SGD(model.parameters(), lr=0.1), every=1, final=False
    ) as checkpointer:
        for step in range(steps):
            checkpointer.after_step(step)
            checkpointer.flush()
            process = checkpointer._line._compaction._process
            if step == wait and process is not None:
                process.wait()
    return checkpointer


def test_it_shortens_the_chains_of_the_history_while_the_run_goes_on(history: History) -> None:
    run = trained(history, "1", 3, wait=0)
    assert not run.failures
    assert max(depths(history, "main~3")) == 1
    check(history)


def test_it_ends_with_the_run_and_the_next_one_goes_on(history: History) -> None:
    run = trained(history, "0.001", 1, wait=None)
    assert run._line._compaction._process is None
    with Repository.open(history.folder) as repo:
        assert repo.status().compacting is None
        assert not repo.status().problems
    check(history)


@pytest.mark.parametrize("share", ["0", "1"])
def test_a_failure_is_told_once_and_the_run_goes_on(
    history: History, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, share: str
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with caplog.at_level(logging.WARNING, "mvcs.train"):
        run = trained(history, share, 3, wait=0)
    assert len(run.timings) == 3
    told = [record.message for record in caplog.records if "compaction" in record.message]
    assert len(told) == int(share)
    with Repository.open(history.folder) as repo:
        assert len([line for line in repo.status().problems if "compaction" in line]) == int(share)


def test_what_cannot_be_started_is_told(
    history: History, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with caplog.at_level(logging.WARNING, "mvcs.train"):
        run = trained(history, "0.5", 2, wait=None)
    assert len(run.timings) == 2
    assert [it.message for it in caplog.records if "no compaction runs" in it.message]
