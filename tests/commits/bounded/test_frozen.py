"""Weights that are not trained: coded once, and the same in all commits whatever the settings become."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from mvcs import Repository
from tests import adapted
from tests.repository.models import tensors


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with Repository.init(tmp_path / "run") as made:
        yield made


@pytest.fixture
def run() -> adapted.Run:
    made = adapted.Run()
    made.adapt()
    made.train(5)
    return made


def restored(repo: Repository, rev: str = "HEAD") -> dict[str, torch.Tensor]:
    return tensors(repo.restore(rev, prefer_exact=False).state["model"])


def written(repo: Repository, names: set[str]) -> int:
    """Bytes that HEAD wrote for some of a model's tensors."""
    return sum(
        each.new_bytes for each in repo.show("HEAD").tensors if each.path.removeprefix("model.") in names
    )


def test_adapters_are_all_that_later_commits_write(repo: Repository, run: adapted.Run) -> None:
    repo.commit(run.state(), step_size=0.35)
    first, base = restored(repo), written(repo, run.frozen)
    sizes = []
    for _ in range(3):
        run.train(5)
        sizes.append(repo.commit(run.state(), step_size=0.35).stored_bytes)
        assert written(repo, run.frozen) == 0
        assert all(torch.equal(restored(repo)[name], first[name]) for name in run.frozen)
    assert base > 20_000
    model = run.model.state_dict()
    trained = sum(value.nbytes for name, value in model.items() if name not in run.frozen)
    assert max(sizes) < trained / 2 < sum(value.nbytes for value in model.values()) / 4


@pytest.mark.parametrize(
    "later", [{"step_size": 0.1}, {"step_size": 0.8, "hysteresis": 0.0}, {"share": "tensor"}]
)
def test_other_settings_leave_them_alone(
    repo: Repository, run: adapted.Run, later: dict[str, object]
) -> None:
    repo.commit(run.state(), step_size=0.35)
    first = restored(repo)
    run.train(2)
    repo.commit(run.state(), **{"step_size": 0.35} | later)

    assert written(repo, run.frozen) == 0
    assert all(torch.equal(restored(repo)[name], first[name]) for name in run.frozen)


def test_what_is_trained_of_a_layer_type_gets_a_step_of_its_own(repo: Repository) -> None:
    run = adapted.Run()
    repo.commit(run.state(), step_size=0.35)
    first = restored(repo)
    run.model.blocks[0].requires_grad_(False)
    run.restart()
    run.train(5)
    repo.commit(run.state(), step_size=0.1)

    now, exact = restored(repo), run.model.state_dict()
    assert torch.equal(now["blocks.0.fc1.weight"], first["blocks.0.fc1.weight"])
    off = [(now[name] - exact[name]).norm() for name in (f"blocks.{block}.fc1.weight" for block in (0, 1))]
    assert off[1] < off[0] / 2
    run.model.requires_grad_(True)
    run.restart()
    run.train(5)
    repo.commit(run.state(), step_size=0.1)
    assert not torch.equal(restored(repo)["blocks.0.fc1.weight"], first["blocks.0.fc1.weight"])


def test_a_lossy_restore_does_not_lose_them_again_and_again(repo: Repository, run: adapted.Run) -> None:
    origin = repo.commit(run.state(), step_size=0.35)
    first = restored(repo)
    run.model.load_state_dict(first)
    for step_size in (0.3, 0.2, 0.1):
        run.train(2)
        repo.commit(run.state(), step_size=step_size, restored_from=origin.id)
        assert written(repo, run.frozen) == 0
        assert all(torch.equal(restored(repo)[name], first[name]) for name in run.frozen)


def test_a_damaged_parent_is_not_leant_on(repo: Repository, run: adapted.Run, tmp_path: Path) -> None:
    repo.commit(run.state(), step_size=0.35)
    (pack,) = (tmp_path / "run" / ".mvcs" / "packs").rglob("*.pack")
    content = bytearray(pack.read_bytes())
    content[len(content) // 4] ^= 1
    pack.chmod(0o600)
    pack.write_bytes(content)
    run.train(2)
    with Repository.open(tmp_path / "run") as again:
        again.commit(run.state(), step_size=0.35)
        now, exact = restored(again), run.model.state_dict()

    assert all((now[name] - exact[name]).norm() < 0.2 * exact[name].norm() for name in run.frozen)
