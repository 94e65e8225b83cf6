"""Evaluations whose batches change, in size or number: a commit is bounded where they can be compared."""

import logging
from collections.abc import Callable, Iterator

import pytest
from torch import nn

from mvcs import Repository
from mvcs.train import Checkpointer
from tests.train.evaluations import BATCHES, Run, data, train, undisturbed

Evaluate = Callable[[nn.Module], Iterator[tuple[float, int]]]


def rows_of(sizes: Callable[[int], list[int]]) -> Evaluate:
    """An evaluation whose n-th call, from 0, yields batches of `sizes(n)` rows."""
    calls = iter(range(1000))

    def evaluate(model: nn.Module) -> Iterator[tuple[float, int]]:
        model.eval()
        for index, rows in enumerate(sizes(next(calls))):
            x, y = (one[:rows] for one in data(index))
            yield float((model(x) - y).square().sum()), rows

    return evaluate


def shrinking(call: int) -> list[int]:
    return [16 - call % 8] * BATCHES


def fewer_the_second_time(call: int) -> list[int]:
    return [16] * (BATCHES if call == 0 else 3)


def none_the_second_time(call: int) -> list[int]:
    return [16] * (BATCHES if call == 0 else 0)


def another_last_batch(call: int) -> list[int]:
    return [16] * 4 + [7 if call == 0 else 9]


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        (shrinking, "batch 1 counts 15, but 16 in the baseline"),
        (fewer_the_second_time, f"ended after 3 of the baseline's {BATCHES} batches"),
        (none_the_second_time, f"ended after 0 of the baseline's {BATCHES} batches"),
        (another_last_batch, "batch 5 counts 9, but 7 in the baseline"),
    ],
)
def test_other_batches_for_the_same_weights_cost_only_the_search(
    repo: Repository, sizes, why: str, caplog
) -> None:
    run = Run()
    with caplog.at_level(logging.WARNING, "mvcs.train"):
        train(repo, run, 5, evaluate=rows_of(sizes), max_degradation=0.05, every=5)
    [commit] = repo.log()
    assert run.bits() == undisturbed(5)
    assert commit.exactness == "exact"
    assert why in str(commit.not_evaluated)
    assert "exact, since" in caplog.text


def test_batches_of_many_sizes_are_compared_one_by_one(repo: Repository) -> None:
    sizes = [1 + 7 * index % 16 for index in range(BATCHES)]
    train(repo, Run(), 10, evaluate=rows_of(lambda _: sizes), max_degradation=0.05)
    assert [commit.exactness for commit in repo.log()] == ["bounded", "bounded"]
    assert all(commit.degradation <= 0.05 for commit in repo.log())


def test_data_that_grows_between_commits_is_each_commits_own(repo: Repository) -> None:
    run = Run()
    rows: list[int] = []
    with Checkpointer(
        repo, run.model, run.optimizer, every=1, evaluate=rows_of(lambda _: rows), max_degradation=0.05
    ) as checkpointer:
        for step, size in enumerate([16, 5, 11]):
            rows[:] = [size] * (BATCHES - 4 * step)
            run.step()
            checkpointer.after_step(step)
            checkpointer.flush()
    assert checkpointer.failures == checkpointer.not_evaluated == []
    assert [commit.exactness for commit in repo.log()] == ["bounded"] * 3
