"""What a hook says of the lineage of its commits when a program restores something beside it."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mvcs.repository import Repository
from mvcs.restore.handed_out import HANDED_OUT
from mvcs.train import Checkpointer
from tests.train.runs import Run, train


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Two bounded commits of a run, made by a process that is gone."""
    with Repository.init(tmp_path / "run") as repo, hook(repo, Run(), step_size=0.5) as checkpointer:
        train(checkpointer, Run(), range(2))
    HANDED_OUT.projects.clear()
    return tmp_path / "run"


def hook(repo: Repository, run: Run, **options: object) -> Checkpointer:
    return Checkpointer(repo, *run.parts, **run.options, every=1, **options)


def lineages(repo: Repository, rev: str = "HEAD") -> list[bool | None]:
    return [commit.lineage_exact for commit in repo.log(rev)]


def through_the_same(repo: Repository, run: Run) -> None:
    state = repo.checkout("step:1")
    run.model.load_state_dict(state["model"])
    run.optimizer.load_state_dict(state["optimizer"])


def through_another(repo: Repository, run: Run) -> None:
    with Repository.open(repo.top) as other:
        run.model.load_state_dict(other.restore("step:1", prefer_exact=False).state["model"])


@pytest.mark.parametrize("load", [through_the_same, through_another])
def test_a_model_that_is_set_back_to_restored_values_is_exact_no_more(
    history: Path, load: Callable[[Repository, Run], None]
) -> None:
    """The usual answer to a loss that jumps."""
    run = Run()
    with Repository.open(history) as repo:
        with hook(repo, run) as checkpointer:
            assert checkpointer.resume() == 2
            train(checkpointer, run, range(2, 4))
            checkpointer.flush()
            load(repo, run)
            train(checkpointer, run, range(4, 6))
        assert lineages(repo) == [None, None, True, True, True, True]


def test_values_that_are_loaded_after_resuming_on_a_new_branch_are_no_exact_beginning(history: Path) -> None:
    run = Run()
    with Repository.open(history) as repo:
        with hook(repo, run, branch="tuned") as checkpointer:
            checkpointer.resume()
            run.model.load_state_dict(repo.checkout("main")["model"])
            train(checkpointer, run, range(2, 4))
        assert lineages(repo, "tuned") == [None, None, True, True]


def test_a_process_that_made_the_commit_before_is_no_proof_once_another_exported(tmp_path: Path) -> None:
    """As in a notebook: the model comes from a file, and the hook is begun without resuming."""
    run, given = Run(), tmp_path / "given.pt"
    with Repository.init(tmp_path / "run") as repo:
        with hook(repo, run, step_size=0.5) as checkpointer:
            train(checkpointer, run, range(2))
        made = HANDED_OUT.projects.pop(repo._session.place.description.project_id).made
        repo.export("main", given)
        HANDED_OUT.projects.clear()
        repo._session.given.made.update(made)
        run.model.load_state_dict(torch.load(given)["model"])
        with hook(repo, run) as checkpointer:
            train(checkpointer, run, range(2, 4))
        assert lineages(repo) == [None, None, True, True]
