"""A run that is told to end: its last commit is bounded where there is time, else exact and says so."""

import logging
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from mvcs import Checkpointer, Repository
from mvcs.train.choice import search
from tests.train import evaluations
from tests.train.evaluations import Run


@pytest.fixture(autouse=True)
def chained() -> Iterator[None]:
    """A program of one's own that handles SIGTERM, and does not end of it."""
    torch.set_num_threads(1)
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    yield
    signal.signal(signal.SIGTERM, before)


def ended(repo: Repository, run: Run, *, steps: int = 8, **options: Any) -> Checkpointer:
    """Train, with a SIGTERM in the last step, which no commit is due after."""
    options = {"every": 3, "evaluate": evaluations.batches, "max_degradation": 0.05, **options}
    with Checkpointer(repo, run.model, run.optimizer, **options) as checkpointer:
        for step in range(checkpointer.resume(), steps):
            run.step()
            if step == steps - 1:
                os.kill(os.getpid(), signal.SIGTERM)
            checkpointer.after_step(step)
    assert checkpointer.failures == []
    return checkpointer


@pytest.mark.parametrize("method", ["lattice", "inshrinkerator"])
def test_the_last_commit_is_bounded_by_one_candidate_and_resumes_bit_for_bit(
    repo: Repository, method: str
) -> None:
    run = Run()
    saving = ended(repo, run, method=method, evaluate=evaluations.easy)
    last = repo.resolve("HEAD")
    assert (last.step, last.exactness) == (7, "bounded")
    assert last.errors["evaluation"]["candidates"] == 1
    assert saving.timings[-1].evaluations <= 2.001
    again = Run()
    with Checkpointer(repo, again.model, again.optimizer) as resumed:
        assert resumed.resume() == 8
    again.step()
    assert again.bits() == evaluations.undisturbed(9)


def refuses_the_last(run: Run) -> Callable[[nn.Module], Iterator[tuple[float, int]]]:
    """Something is worse than the original only at the end of the run."""

    def evaluate(model: nn.Module) -> Iterator[tuple[float, int]]:
        own = model.state_dict()["0.weight"].numpy().tobytes()
        original.setdefault(run.done, own)
        worse = 100.0 if run.done == 7 and own != original[7] else 1.0
        for total, count in evaluations.batches(model):
            yield worse * total, count

    original: dict[int, bytes] = {}
    return evaluate


def test_it_is_exact_where_the_candidate_is_refused(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run()
    run.done, step = -1, run.step

    def counted() -> None:
        run.done += 1
        step()

    run.step = counted
    with caplog.at_level(logging.WARNING):
        ended(repo, run, evaluate=refuses_the_last(run))
    last = repo.resolve("HEAD")
    assert (last.step, last.exactness) == (7, "exact")
    assert last.errors["evaluation"]["candidates"] == 1
    why = "exact, since the run was told to end (SIGTERM), which left time for one candidate"
    assert f"commit {last.short}: {why}" in caplog.text


@pytest.mark.parametrize(("steps", "seconds"), [(8, 0.0), (2, search.LAST_SECONDS)])
def test_it_is_exact_where_there_is_no_time_or_none_is_known(
    repo: Repository,
    steps: int,
    seconds: float,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(search, "LAST_SECONDS", seconds)
    with caplog.at_level(logging.WARNING):
        ended(repo, Run(), steps=steps)
    last = repo.resolve("HEAD")
    assert (last.step, last.exactness) == (steps - 1, "exact")
    assert "the run was told to end (SIGTERM), and nothing tells that 10 seconds" in last.not_evaluated
    assert f"commit {last.short}: exact, since the run was told to end (SIGTERM)" in caplog.text
