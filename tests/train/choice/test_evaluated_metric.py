"""What an evaluation measured is a metric of the commit, and names the best one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from mvcs import Repository
from mvcs.errors import UsageError
from mvcs.train import Checkpointer
from tests.train import evaluations
from tests.train.evaluations import Run

METRICS = (3.0, 1.0, 2.0)


def save(repo: Repository, values: tuple[float, ...], **settings: object) -> list[str]:
    """Commit a step for each value that an evaluation gives, and return the commits' ids."""
    run, given = Run(), iter(values)
    value = torch.zeros(())

    def evaluate(_: nn.Module) -> float:
        return float(value)

    with Checkpointer(
        repo, run.model, run.optimizer, evaluate=evaluate, final=False, **settings
    ) as checkpointer:
        for step, found in enumerate(given):
            value.fill_(found)
            run.step()
            checkpointer.save(step, {"loss": float(step)})
    return [commit.id for commit in repo.log()][::-1]


def test_the_original_states_metric_is_one_of_the_commits(repo: Repository) -> None:
    evaluations.train(repo, Run(), 15, max_degradation=0.02)
    for commit in repo.log():
        assert commit.metrics == {"evaluation": commit.errors["evaluation"]["baseline"]}


@pytest.mark.parametrize(("goal", "index"), [("min", 1), ("max", 0)])
def test_the_best_is_found_by_the_goal_of_the_search(repo: Repository, goal: str, index: int) -> None:
    made = save(repo, METRICS, goal=goal)
    assert [repo.resolve(name).metrics["evaluation"] for name in made] == list(METRICS)
    assert repo.resolve("best:evaluation").id == made[index]
    assert repo.resolve("best:max:evaluation").id == made[0]
    assert repo.resolve("best:loss").id == made[0]


def test_a_clone_knows_the_goal_and_its_own_setting_comes_first(repo: Repository, tmp_path: Path) -> None:
    made = save(repo, METRICS, goal="max")
    clone = Repository.clone(str(tmp_path / "run"), tmp_path / "clone")
    assert clone.resolve("best:evaluation").id == made[0]
    clone.config_set("metric.evaluation.goal", "min")
    assert clone.resolve("best:evaluation").id == made[1]


def test_goals_that_differ_are_refused_until_one_is_named(repo: Repository) -> None:
    save(repo, METRICS, goal="max")
    save(repo, METRICS, goal="min")
    with pytest.raises(UsageError, match="a low 'evaluation' is better at some commits") as refused:
        repo.resolve("best:evaluation")
    assert "best:max:evaluation" in str(refused.value.hint)
    assert repo.resolve("best:max:evaluation").metrics["evaluation"] == 3.0


def test_a_metric_of_that_name_that_the_run_gives_stays(repo: Repository) -> None:
    run = Run()
    with Checkpointer(
        repo, run.model, run.optimizer, evaluate=evaluations.number, goal="max"
    ) as checkpointer:
        checkpointer.save(0, {"evaluation": 7.0})
    assert repo.head().metrics == {"evaluation": 7.0}
    with pytest.raises(UsageError, match="whether a high or a low 'evaluation' is better"):
        repo.resolve("best:evaluation")


def test_what_is_not_evaluated_has_no_such_metric(repo: Repository) -> None:
    run = Run()
    with Checkpointer(repo, run.model, run.optimizer) as checkpointer:
        checkpointer.save(0, {"loss": 1.0})
    assert repo.head().metrics == {"loss": 1.0}


def test_the_published_search_gives_it_too(repo: Repository) -> None:
    def batches(model: nn.Module) -> Iterator[tuple[float, int]]:
        yield from ((10 * count - total, count) for total, count in evaluations.batches(model))

    settings = {"method": "inshrinkerator", "goal": "max", "max_degradation": 0.05}
    evaluations.train(repo, Run(), 5, **{"evaluate": batches, **settings})
    commit = repo.head()
    assert commit.metrics["evaluation"] == commit.errors["evaluation"]["baseline"]
    assert repo.resolve("best:evaluation").id == commit.id
