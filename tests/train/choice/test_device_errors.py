"""Errors of the device while a candidate is tried: they cost the search, never the commit, never a weight."""

import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mvcs import Repository
from mvcs.errors import MvcsError
from mvcs.train import Checkpointer
from tests.repository.models import bits
from tests.train import evaluations
from tests.train.evaluations import Run, undisturbed

TOO_MUCH = "CUDA out of memory. Tried to allocate 20.00 GiB"


class OutOfMemory(TorchDispatchMode):
    """Lets torch itself run out of memory when an operator is called, from some call on, so many times."""

    def __init__(self, name: str, first: int, times: int = 1) -> None:
        super().__init__()
        self.name, self.first, self.times, self.calls = name, first, times, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name == f"aten::{self.name}":
            self.calls += 1
            if self.first <= self.calls < self.first + self.times:
                raise torch.OutOfMemoryError(TOO_MUCH)
        return func(*args, **kwargs or {})


def raising_at(call: int, error: type[BaseException] = RuntimeError) -> Callable[[Any], float]:
    """An evaluation that fails at one of its calls."""
    calls = 0

    def evaluate(model: torch.nn.Module) -> float:
        nonlocal calls
        calls += 1
        if calls == call:
            raise error(TOO_MUCH)
        return float(evaluations.number(model))

    return evaluate


def commit(
    repo: Repository, run: Run, mode: TorchDispatchMode | None = None, **settings: Any
) -> Checkpointer:
    """Commit after five steps of training, while torch fails."""
    for _ in range(5):
        run.step()
    settings = {"evaluate": evaluations.batches, "max_degradation": 0.02, **settings}
    with Checkpointer(repo, run.model, run.optimizer, **settings) as checkpointer:
        if mode is None:
            checkpointer.save(4)
        else:
            with mode:
                checkpointer.save(4)
    return checkpointer


def require_whole(repo: Repository, run: Run) -> None:
    """The commit restores what was handed over, and training never noticed."""
    assert run.bits() == undisturbed(5)
    assert (repo.head().step, repo.head().exactness) == (4, "exact")
    assert bits(repo.checkout()["model"]) == bits(run.model.state_dict())


# The third is of bad weights, the fifth looks which are used: what fails with those alone is no fault.
@pytest.mark.parametrize("call", [1, 2, 4, 6])
def test_a_device_that_has_no_memory_for_an_evaluation_costs_the_search(
    repo: Repository, call: int, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run()
    with caplog.at_level(logging.WARNING, "mvcs.train"):
        checkpointer = commit(repo, run, evaluate=raising_at(call))
    assert checkpointer.failures == []
    require_whole(repo, run)
    assert TOO_MUCH in caplog.text
    assert "exact, since" in caplog.text


# First the baseline's loan takes values back, then each candidate's writes them and takes them back.
@pytest.mark.parametrize("first", [1, 5, 12, 13, 23, 30, 40])
def test_torch_that_has_no_memory_while_weights_are_swapped_costs_the_search(
    repo: Repository, first: int
) -> None:
    run, mode = Run(), OutOfMemory("copy_", first)
    checkpointer = commit(repo, run, mode)
    assert mode.calls >= first
    assert checkpointer.failures == []
    assert run.bits() == undisturbed(5)
    assert repo.head().step == 4


@pytest.mark.parametrize("name", ["sum", "linear", "addmm", "native_batch_norm"])
def test_torch_that_has_no_memory_anywhere_else_costs_the_search(repo: Repository, name: str) -> None:
    for first in (1, 2, 7):
        run = Run()
        checkpointer = commit(repo, run, OutOfMemory(name, first))
        assert checkpointer.failures == []
        assert run.bits() == undisturbed(5)
        assert repo.head().step == 4


def test_unchecked_commits_go_on_with_the_last_settings(repo: Repository) -> None:
    run = Run()
    commit(repo, run)
    assert repo.head().bounded
    evaluate = raising_at(1)
    with Checkpointer(
        repo, run.model, run.optimizer, evaluate=evaluate, on_evaluation_failure="unchecked"
    ) as checkpointer:
        checkpointer.save(5)
    assert checkpointer.failures == []
    assert (repo.head().step, repo.head().degradation) == (5, "not measured")


def test_weights_that_cannot_be_put_back_end_the_run_and_the_commit_is_made(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    """A device that is gone for good: what was copied is safe, and nobody trains on with other weights."""
    run = Run()
    for _ in range(5):
        run.step()
    before = bits(run.model.state_dict())
    with (
        caplog.at_level(logging.WARNING, "mvcs.train"),
        pytest.raises(MvcsError, match="could not be put back"),
        Checkpointer(repo, run.model, run.optimizer, evaluate=evaluations.batches) as checkpointer,
        OutOfMemory("copy_", 15, times=10**6),
    ):
        checkpointer.save(4)
    assert checkpointer.failures == []
    assert (repo.head().step, repo.head().exactness) == (4, "exact")
    assert bits(repo.checkout()["model"]) == before


@pytest.mark.parametrize("call", [1, 3])
def test_who_ends_the_program_while_a_candidate_is_tried_is_heard(repo: Repository, call: int) -> None:
    run = Run()
    with pytest.raises(KeyboardInterrupt):
        commit(repo, run, evaluate=raising_at(call, KeyboardInterrupt))
    assert run.bits() == undisturbed(5)
    assert repo.head() is None


@pytest.mark.parametrize("call", [1, 3])
def test_a_signal_whose_handler_ends_the_program_while_a_candidate_is_tried_is_heard(
    repo: Repository, call: int
) -> None:
    def leave(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    calls = 0

    def evaluate(model: torch.nn.Module) -> float:
        nonlocal calls
        calls += 1
        if calls == call:
            os.kill(os.getpid(), signal.SIGUSR1)
        return float(evaluations.number(model))

    run, before = Run(), signal.signal(signal.SIGUSR1, leave)
    try:
        with pytest.raises(SystemExit):
            commit(repo, run, evaluate=evaluate)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert run.bits() == undisturbed(5)
    assert repo.head() is None


@pytest.mark.parametrize("error", [SystemExit, GeneratorExit])
@pytest.mark.parametrize("call", [1, 6])
def test_an_evaluation_that_ends_the_program_itself_has_failed(
    repo: Repository, error: type[BaseException], call: int
) -> None:
    run = Run()
    commit(repo, run, evaluate=raising_at(call, error))
    require_whole(repo, run)
    assert f"the evaluation of step 4 failed: {error.__name__}: CUDA" in repo.head().not_evaluated


def test_sigterm_while_a_candidate_is_tried_ends_the_run_behind_its_commit(repo: Repository) -> None:
    def evaluate(model: torch.nn.Module) -> float:
        os.kill(os.getpid(), signal.SIGTERM)
        return float(evaluations.number(model))

    run, before = Run(), signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit) as ended:
            commit(repo, run, evaluate=evaluate)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.value.code == 143
    assert repo.head().step == 4


def test_scores_that_have_no_memory_cost_neither_the_step_nor_the_commit(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run()
    with (
        caplog.at_level(logging.WARNING, "mvcs.train"),
        Checkpointer(
            repo, run.model, run.optimizer, evaluate=evaluations.batches, method="inshrinkerator", every=5
        ) as checkpointer,
    ):
        for step in range(5):
            with OutOfMemory("zeros", 2):  # which only averages are made with
                run.step()
            checkpointer.after_step(step)
    assert run.bits() == undisturbed(5)
    assert checkpointer.failures == []
    assert repo.head().step == 4
    assert TOO_MUCH in caplog.text
