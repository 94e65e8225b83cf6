"""Real runs in bfloat16, with float32 masters or without, and with tied weights: what commits restore."""

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


def written(repo: Repository, part: str) -> int:
    return sum(each.new_bytes for each in repo.show("HEAD").tensors if each.path.startswith(f"{part}."))


def test_copies_take_nothing_whatever_they_are_called_and_in_whatever_order(repo: Repository) -> None:
    run = adapted.Run()
    for _ in range(3):
        run.train(5)
        masters = adapted.copied(run.model.state_dict())
        copies = {f"module.{name}": value.bfloat16() for name, value in reversed(masters.items())}
        repo.commit({"model": copies, "masters": masters}, step_size=0.35)
        back = tensors(repo.restore(prefer_exact=False).state)

        assert written(repo, "model") == 0
        assert written(repo, "masters") > 0
        for name in masters:
            assert torch.equal(back[f"model.module.{name}"], back[f"masters.{name}"].bfloat16())


def test_pure_bfloat16_is_restored_on_its_own_grid_within_the_error_that_is_told(repo: Repository) -> None:
    run = adapted.Run()
    run.model.bfloat16()
    run.restart()
    sizes = []
    for _ in range(4):
        run.train(5)
        made = repo.commit(run.state(), step_size=0.35)
        sizes.append(made.stored_bytes)
        back, exact = tensors(repo.restore(prefer_exact=False).state["model"]), run.model.state_dict()
        matrices = [name for name, value in exact.items() if value.dim() > 1]
        assert {value.dtype for value in back.values()} == {torch.bfloat16}
        off = [(back[name].float() - exact[name].float()).abs().max().item() for name in matrices]
        assert max(off) == pytest.approx(made.errors["weight"]["max_abs"])
    assert max(sizes[1:]) < sizes[0] * 0.7


def test_tied_tables_are_one_object_and_come_back_tied(repo: Repository) -> None:
    run = adapted.Run(steps=0)
    run.model.head.weight = run.model.tok.weight
    run.restart()
    for _ in range(2):
        run.train(5)
        repo.commit(
            {"model": run.model.state_dict(), "optimizer": run.optimizer.state_dict()}, step_size=0.35
        )
        back = repo.restore(prefer_exact=False).state["model"]
        assert back["head.weight"].data_ptr() == back["tok.weight"].data_ptr()
        (tied,) = [
            each for each in repo.show("HEAD").tensors if "model.tok.weight" in (each.path, *each.aliases)
        ]
        assert tied.aliases == ["model.head.weight"]
