"""The end of a run is committed: its last step, once, whatever the cadence, unless an exception ended it."""

from typing import Any

import pytest

from mvcs.repository import Repository
from mvcs.train import Checkpointer
from tests.repository.models import bits
from tests.train import evaluations
from tests.train.runs import Run, steps_of, train, undisturbed


def run_for(repo: Repository, steps: range, **settings: Any) -> Checkpointer:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, **settings) as checkpointer:
        train(checkpointer, run, steps)
    return checkpointer


@pytest.mark.parametrize(
    ("steps", "settings", "committed"),
    [
        (120, {"every": 50}, [119, 99, 49]),
        (400, {}, [399]),
        (100, {"every": 50}, [99, 49]),
        (9, {"every": 5, "final": False}, [4]),
        (9, {"seconds": 1e9}, [8]),
        (7, {"overhead": 1e-9}, [6]),
        (4, {"every": 3, "on_full": "skip", "message": lambda step, _: f"step {step}"}, [3, 2]),
    ],
)
def test_the_last_step_is_committed_once(
    repo: Repository, steps: int, settings: dict[str, Any], committed: list[int]
) -> None:
    checkpointer = run_for(repo, range(steps), **settings)
    assert steps_of(repo) == committed
    assert checkpointer.failures == []
    assert set(repo.head().metrics) == {"loss"}


def test_the_last_step_restores_what_the_run_ended_with(repo: Repository) -> None:
    run_for(repo, range(8), every=5)
    assert bits(repo.checkout()["model"]) == bits(undisturbed(8).model.state_dict())
    again = Run(seed=3)
    with Checkpointer(repo, *again.parts, **again.options, every=5) as checkpointer:
        assert checkpointer.resume() == 8
        # Nothing is left to do, so nothing is committed.
    assert steps_of(repo) == [7, 4]


def test_what_was_saved_by_hand_is_not_committed_twice(repo: Repository) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, every=50) as checkpointer:
        train(checkpointer, run, range(7))
        checkpointer.save(6, message="the end")
    assert [commit.message for commit in repo.log()] == ["the end"]


def test_weights_alone_are_not_the_end(repo: Repository) -> None:
    run_for(repo, range(4), every=50, weights_every=2)
    assert [(commit.step, commit.weights_only) for commit in repo.log()] == [(3, False), (3, True), (1, True)]


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt, SystemExit])
def test_a_run_that_ends_in_an_exception_commits_what_was_due(
    repo: Repository, error: type[BaseException]
) -> None:
    def loop() -> None:
        run = Run()
        with Checkpointer(repo, *run.parts, **run.options, every=5) as checkpointer:
            train(checkpointer, run, range(7))
            raise error

    with pytest.raises(error):
        loop()
    assert steps_of(repo) == [4]


def test_the_end_is_evaluated_like_any_other_commit(repo: Repository) -> None:
    run = evaluations.Run()
    with Checkpointer(
        repo, run.model, run.optimizer, every=50, evaluate=evaluations.batches, max_degradation=0.05
    ) as checkpointer:
        for step in range(6):
            run.step()
            checkpointer.after_step(step)
    assert repo.head().step == 5
    assert repo.head().degradation <= 0.05
    assert run.bits() == evaluations.undisturbed(6)


def test_a_last_step_that_fails_again_is_one_failure(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, every=2) as checkpointer:
        checkpointer.extra["odd"] = print  # cannot be stored
        train(checkpointer, run, range(4))
    assert [failure.step for failure in checkpointer.failures] == [1, 3]
    assert checkpointer.failures.total == 2
    assert "2 commits of this run failed, those of steps 1, 3\n" in caplog.text


def test_a_last_step_that_failed_is_tried_again_at_the_end(repo: Repository) -> None:
    run = Run()
    with Checkpointer(repo, *run.parts, **run.options, every=5) as checkpointer:
        train(checkpointer, run, range(4))
        checkpointer.extra["odd"] = print  # cannot be stored
        train(checkpointer, run, range(4, 5))
        checkpointer.flush()
        assert [failure.step for failure in checkpointer.failures] == [4]
        del checkpointer.extra["odd"]
    assert steps_of(repo) == [4]
