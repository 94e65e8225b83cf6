"""Evaluating in a child process: the same verdicts, and no death of it ends the run."""

import os

import pytest
import torch

from mvcs.errors import EvaluationError, MvcsError, UsageError
from mvcs.search import Bound
from mvcs.train import Evaluator
from tests.train import evaluations
from tests.train.evaluation.test_evaluator import coarse
from tests.train.evaluations import Run

BOUND = Bound(0.05)


@pytest.fixture(autouse=True, params=["forkserver", pytest.param("spawn", marks=pytest.mark.slow)])
def context(request):
    """How children start: forked from a process that has torch loaded, or all anew as they do elsewhere."""
    if request.param == "forkserver":
        request.getfixturevalue("forked_replicas")


@pytest.fixture
def run():
    torch.set_num_threads(1)
    made = Run()
    for _ in range(5):
        made.step()
    return made


def replicated(run, evaluate, factory=evaluations.make):
    return Evaluator(run.model, evaluate, BOUND, replica=factory)


def test_the_child_finds_what_the_model_itself_would(run):
    before = run.bits()
    with replicated(run, evaluations.batches) as evaluator:
        here = Evaluator(run.model, evaluations.batches, BOUND)
        for step in range(2):
            baseline = evaluator.baseline(step)
            assert baseline == here.baseline(step)
            for size in (1e-5, 0.5):
                weights = coarse(run.model, size)
                assert evaluator.judge(step, weights, baseline) == here.judge(step, weights, baseline)
            assert run.bits() == before
            run.step()
            before = run.bits()
        some = {"0.weight": torch.zeros(32, 12)}
        assert evaluator.judge(2, some, baseline) == here.judge(2, some, baseline)


def test_the_child_has_one_thread_and_another_process(run):
    with replicated(run, evaluations.threads_and_process) as evaluator:
        threads, process = (total for total, _ in evaluator.baseline(0).batches)
        assert threads == 1
        assert process != os.getpid()
        assert evaluator.baseline(1).batches[1][0] == process


def test_errors_come_back_and_the_child_lives_on(run):
    with replicated(run, evaluations.fails_in_three_ways) as evaluator:
        for message in [
            "step 4 failed: ValueError: no such file",
            "failed: OSError: the data is gone",
            "evaluate trains the model",
        ]:
            with pytest.raises(EvaluationError, match=message):
                evaluator.baseline(4)
        here = Evaluator(run.model, evaluations.number, BOUND)
        assert evaluator.baseline(4, repeat=0) == here.baseline(4)


def test_a_death_is_named(run):
    before = run.bits()
    with (
        replicated(run, evaluations.dies_later) as evaluator,
        pytest.raises(EvaluationError, match="process that evaluates ended with status 9"),
    ):
        evaluator.baseline(0)
    assert run.bits() == before


def test_after_a_death_there_is_another_child(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with replicated(run, evaluations.dies_once) as evaluator:
        with pytest.raises(EvaluationError, match="ended with status 7"):
            evaluator.baseline(0)
        assert evaluator.baseline(1) == Evaluator(run.model, evaluations.number, BOUND).baseline(1)


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (evaluations.make_other, r"the model has no ordinary parameter or buffer '0\.weight'"),
        (evaluations.make_nothing, "RuntimeError: no such model"),
    ],
)
def test_a_replica_that_is_another_model_is_refused(run, factory, message):
    with replicated(run, evaluations.number, factory) as evaluator, pytest.raises(MvcsError, match=message):
        evaluator.baseline(0)


def test_functions_that_no_process_can_import_are_refused(run):
    with pytest.raises(UsageError, match="cannot be handed to another process") as refused:
        replicated(run, lambda _model: 1.0).baseline(0)
    assert "top of a module" in refused.value.hint


def first_batch_only(evaluator):
    with evaluator.measuring(0) as measured:
        next(measured)
        raise KeyError


def test_an_error_of_the_block_cuts_the_conversation_off(run):
    with replicated(run, evaluations.batches) as evaluator:
        with pytest.raises(KeyError):
            first_batch_only(evaluator)
        assert len(evaluator.baseline(0).batches) == evaluations.BATCHES
