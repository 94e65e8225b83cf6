"""Commits chosen by measured quality where adapters alone are trained: the base is not searched again."""

from mvcs import Repository
from mvcs.train import Checkpointer
from tests import adapted

BOUND = 0.02


def begun(steps: int = 20) -> adapted.Run:
    run = adapted.Run(steps=steps)
    run.adapt()
    run.train(5)
    return run


def committed(repo: Repository, run: adapted.Run, bounds: list[float]) -> None:
    def bound(step: int) -> float:
        return bounds[step]

    options = {"evaluate": run.evaluate, "max_degradation": bound, "every": 1}
    with Checkpointer(repo, run.model, run.optimizer, **options) as checkpointer:
        for step in range(len(bounds)):
            run.train(5)
            checkpointer.after_step(step)


def written(repo: Repository, run: adapted.Run) -> list[int]:
    """Bytes that each commit wrote for frozen matrices, the oldest first."""
    shown = [repo.show(commit.id) for commit in repo.log()]
    return [
        sum(each.new_bytes for each in one.tensors if each.path.removeprefix("model.") in run.frozen)
        for one in reversed(shown)
    ]


def test_the_first_commit_leaves_room_for_what_is_trained(repo: Repository) -> None:
    run = begun()
    committed(repo, run, [BOUND] * 5)

    first, *later = list(repo.log())[::-1]
    assert all(commit.bounded for commit in (first, *later))
    doubt = 2 * first.errors["evaluation"]["standard_error"]
    assert first.degradation + doubt <= BOUND / 2
    base, *rest = written(repo, run)
    assert base > 10_000
    assert rest == [0] * 4
    raw = sum(value.nbytes for value in run.model.state_dict().values())
    assert max(commit.stored_bytes for commit in later) < raw / 6


def test_where_nothing_else_keeps_the_bound_the_base_is_coded_again_once(repo: Repository) -> None:
    run = begun(120)
    committed(repo, run, [1.0, 1.0, 2e-3, 2e-2])

    commits = list(repo.log())[::-1]
    assert all(commit.bounded for commit in commits)
    _, second, third, fourth = written(repo, run)
    assert second == 0 == fourth
    assert third > 10_000
