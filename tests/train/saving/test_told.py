"""What a loop tells `after_step`: what is no number costs neither the commit nor the run."""

import logging
from typing import Any

import pytest

from mvcs.errors import UsageError
from mvcs.repository import Repository
from mvcs.train import Checkpointer
from tests.train.runs import Run

ODD: list[Any] = [
    {"loss": 1.0, "flag": True},
    {"loss": 1.0, "flag": None},
    {"loss": 1.0, "flag": "high"},
    {"loss": 1.0, 5: 2.0},
    {"loss": 1.0, "flag": [1, 2]},
]


@pytest.mark.parametrize("metrics", ODD, ids=repr)
def test_a_metric_that_is_no_number_costs_itself_alone(
    repo: Repository, caplog: pytest.LogCaptureFixture, metrics: Any
) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, every=1) as checkpointer:
        with caplog.at_level(logging.WARNING, "mvcs.train"):
            for step in range(3):
                checkpointer.after_step(step, metrics)
        assert not checkpointer.failures
    assert [commit.metrics for commit in repo.log()] == [{"loss": 1.0}] * 3
    assert sum("commits are made without it" in record.message for record in caplog.records) == 1


def test_metrics_without_names_cost_themselves_alone(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, every=1) as checkpointer:
        checkpointer.after_step(0, [0.5])  # type: ignore[arg-type]
    assert [commit.metrics for commit in repo.log()] == [{}]
    assert "metrics cannot be [0.5]" in caplog.text


@pytest.mark.parametrize("step", ["9", 9.5, True, None])
def test_a_step_that_is_not_whole_is_refused_at_once(repo: Repository, step: Any) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, every=1) as checkpointer:
        for told in (checkpointer.after_step, checkpointer.save):
            with pytest.raises(UsageError, match="step cannot be"):
                told(step)
