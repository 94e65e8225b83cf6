"""An evaluation that fails costs no commit, and is told of where somebody looks: log, commits, summary."""

import logging
import traceback
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from mvcs import Repository
from mvcs.cli import main
from mvcs.errors import EvaluationError, UsageError
from mvcs.search import Bound
from mvcs.train import Checkpointer, Evaluator
from tests.train import evaluations
from tests.train.evaluations import Run

LINE = "ValueError: no batch left ( in the second line) (test_failed_evaluations.py:{}, in _batch)"


def _batch() -> float:
    raise ValueError("no batch left (\n in the second line)")


RAISED = _batch.__code__.co_firstlineno + 1


def deeply(_: nn.Module) -> Iterator[tuple[float, int]]:
    yield 1.0, 1
    yield _batch(), 1


def in_torch(_: nn.Module) -> float:
    return float(torch.nn.functional.linear(torch.ones(3), torch.ones(2, 4)).sum())


def fails_at(steps: set[int], run: Run) -> object:
    def evaluate(model: nn.Module) -> float:
        if run.done in steps:
            _batch()
        return float(evaluations.number(model))

    return evaluate


def test_commits_stand_and_say_that_they_are_not_evaluated(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run()
    run.done = 0
    with (
        caplog.at_level(logging.WARNING, "mvcs.train"),
        Checkpointer(repo, run.model, run.optimizer, evaluate=fails_at({1, 3}, run)) as checkpointer,
    ):
        for step in range(4):
            run.step()
            run.done = step
            checkpointer.save(step)
    why = f"the evaluation of step 3 failed: {LINE.format(RAISED)}"
    found = {commit.step: commit for commit in repo.log()}
    assert {step: commit.not_evaluated is None for step, commit in found.items()} == {
        0: True, 1: False, 2: True, 3: False,
    }  # fmt: skip
    assert (found[3].not_evaluated, found[3].exactness, found[3].metrics) == (why, "exact", {})
    assert checkpointer.not_evaluated == [1, 3]
    assert checkpointer.failures == []
    assert checkpointer.summary().startswith("4 committed, 0 failed, 0 skipped, 2 not evaluated; ")
    told = [record.getMessage() for record in caplog.records if record.name == "mvcs.train"]
    assert [text for text in told if "step 3" in text] == [f"commit {found[3].short}: exact, since {why}"]
    assert told[-1] == "committed, but not evaluated: steps 1, 3; 'mvcs log' tells why"


def test_the_command_line_marks_such_a_commit(repo: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run()
    with Checkpointer(repo, run.model, run.optimizer, evaluate=deeply) as checkpointer:
        checkpointer.save(0)

    def said(*words: str) -> str:
        assert main(["-C", str(repo.top), *words]) == 0
        return " ".join(capsys.readouterr().out.split())

    quality = f"Quality: not measured, since the evaluation of step 0 failed: {LINE.format(RAISED)}"
    for command in ("log", "show"):
        assert quality in said(command)
        assert said(command).count("no batch left") == 1
    assert said("log", "--oneline").endswith("not evaluated]")
    assert "not evaluated]" in said("status")


def test_the_line_is_that_of_ones_own_code_not_of_what_it_calls() -> None:
    line = in_torch.__code__.co_firstlineno + 1
    evaluator = Evaluator(Run().model, in_torch, Bound(0.01))
    with pytest.raises(EvaluationError, match=rf"\(test_failed_evaluations.py:{line}, in in_torch\)"):
        evaluator.baseline(0)


@pytest.mark.usefixtures("forked_replicas")
def test_a_child_process_tells_the_line_too() -> None:
    run = Run()
    with (
        Evaluator(run.model, evaluations.raises, Bound(0.01), replica=evaluations.make) as evaluator,
        pytest.raises(EvaluationError, match=r"no such file \(evaluations.py:\d+, in raises\)"),
    ):
        evaluator.baseline(0)


def test_a_traceback_shows_the_hint() -> None:
    with pytest.raises(UsageError) as refused:
        Bound(0.01, goal="up")  # type: ignore[arg-type]
    shown = "".join(traceback.format_exception(refused.value))
    assert shown.endswith("goal cannot be 'up'\nhint: use 'min' for a loss, 'max' for an accuracy\n")
