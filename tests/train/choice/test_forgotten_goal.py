"""An accuracy whose goal was forgotten would be bounded the wrong way round: the log asks, once."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from mvcs import Checkpointer, Repository
from mvcs.search import Baseline, Bound, ForgottenGoal
from tests.train import evaluations
from tests.train.evaluations import Run

ASKS = "as an accuracy's are"


def accuracy(model: nn.Module) -> Iterator[tuple[int, int]]:
    for index in range(evaluations.BATCHES):
        x, y = evaluations.data(index)
        yield int(((model(x) - y).abs() < 1).sum()), len(x)


def told(repo: Repository, caplog: pytest.LogCaptureFixture, **options: Any) -> list[str]:
    run = Run()
    torch.set_num_threads(1)
    with caplog.at_level(logging.WARNING), Checkpointer(repo, run.model, run.optimizer, **options) as saving:
        for step in range(2):
            run.step()
            saving.save(step)
    return [record.getMessage() for record in caplog.records if ASKS in record.getMessage()]


def test_a_forgotten_goal_is_asked_for_once(repo: Repository, caplog: pytest.LogCaptureFixture) -> None:
    first = told(repo, caplog, evaluate=accuracy, max_degradation=0.3)
    assert len(first) == 1
    assert first[0].startswith(f"commit {repo.resolve('HEAD~1').short}: ")
    assert first[0].endswith('give goal="max" if higher is better, goal="min" to say that it is a loss')


@pytest.mark.parametrize(
    "options",
    [
        {"evaluate": accuracy, "goal": "max"},
        {"evaluate": accuracy, "goal": "min"},
        {"evaluate": evaluations.batches},
        {"evaluate": lambda _: 3.0},
    ],
)
def test_nothing_is_asked_where_it_was_said_or_is_a_loss(
    options: dict[str, Any], repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    assert told(repo, caplog, max_degradation=0.3, **options) == []


@pytest.mark.parametrize(
    ("batches", "asks"),
    [
        (((3.0, 8.0), (8.0, 8.0)), True),
        (((3.0, 10.0),), True),
        (((3.0, 9.0),), False),
        (((0.0, 8.0), (0.0, 8.0)), False),
        (((3.0, 8.0), (9.0, 8.0)), False),
        (((3.0, 8.0), (-1.0, 8.0)), False),
        (((3.0, 8.0), (2.5, 8.0)), False),
    ],
)
def test_what_looks_like_an_accuracy(batches: tuple[tuple[float, float], ...], asks: bool) -> None:
    found = ForgottenGoal(Bound.asked(0.01, None)).doubt(Baseline(batches))
    assert (found is not None) is asks


def test_a_model_that_gets_nothing_right_yet_is_looked_at_again() -> None:
    goal = ForgottenGoal(Bound.asked(0.01, None))
    assert goal.doubt(Baseline(((0.0, 8.0), (0.0, 8.0)))) is None
    assert goal.doubt(Baseline(((1.0, 8.0), (0.0, 8.0)))) is not None
    assert goal.doubt(Baseline(((1.0, 8.0), (0.0, 8.0)))) is None
