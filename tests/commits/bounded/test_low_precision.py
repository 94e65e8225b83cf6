"""Real runs in bfloat16, with float32 masters or without, and with tied weights: what commits restore."""

import logging
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from mvcs import Repository
from mvcs.commits import GRID_REASON
from mvcs.train import Checkpointer
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


def pure(dtype: torch.dtype = torch.bfloat16) -> adapted.Run:
    run = adapted.Run(steps=0)
    run.model.to(dtype)
    run.restart()
    run.train(10)
    return run


def matrices(run: adapted.Run) -> dict[str, torch.Tensor]:
    return {name: value for name, value in run.model.state_dict().items() if value.dim() > 1}


def in_codes(repo: Repository) -> set[str]:
    return {
        one.path.removeprefix("model.") for one in repo.show().tensors if one.exact_id and len(one.shape) > 1
    }


def test_steps_finer_than_the_grid_leave_tensors_as_they_are_and_take_no_more(
    repo: Repository, tmp_path: Path
) -> None:
    run = pure()
    with Repository.init(tmp_path / "exact") as other:
        for _ in range(3):
            run.train(5)
            state = {"model": adapted.copied(run.model.state_dict())}
            made = repo.commit(state, step_size=0.002)
            whole = other.commit(state)
            back = tensors(repo.restore(prefer_exact=False).state["model"])
            assert all(torch.equal(back[name], value) for name, value in matrices(run).items())
            assert in_codes(repo) == set()
            [note] = made.notes
            assert note.startswith(f"{len(matrices(run))} tensors, such as 'model.blocks.0.")
            assert note.endswith(f"are kept exact: {GRID_REASON}")
            assert made.stored_bytes <= 1.05 * whole.stored_bytes


def test_a_coarser_step_and_a_wider_type_get_codes(repo: Repository) -> None:
    run = pure()
    assert repo.commit({"model": run.model.state_dict()}, step_size=0.01).notes == []
    assert in_codes(repo) == matrices(run).keys()
    run.model.float()
    run.restart()
    run.train(5)
    assert repo.commit({"model": run.model.state_dict()}, step_size=0.002).notes == []
    assert in_codes(repo) == matrices(run).keys()


def test_no_tensor_goes_to_and_fro_between_codes_and_values(repo: Repository) -> None:
    run = pure()
    found = []
    for _ in range(5):
        run.train(4)
        repo.commit({"model": run.model.state_dict()}, step_size=1 / 430)
        found.append(in_codes(repo))
    changes = Counter(name for old, new in pairwise(found) for name in old ^ new)
    assert all(count == 1 for count in changes.values())  # weights that grow may change once


def test_the_grid_of_small_float16_values_is_that_of_subnormal_ones(repo: Repository) -> None:
    torch.manual_seed(0)
    state = {"tiny": (torch.randn(64, 64) * 2e-6).half(), "usual": torch.randn(64, 64).half()}
    [note] = repo.commit(state, step_size=0.01).notes
    assert note == f"tensor 'tiny' is kept exact: {GRID_REASON}"
    assert torch.equal(repo.checkout()["tiny"], state["tiny"])
    assert not torch.equal(repo.checkout()["usual"], state["usual"])


def test_a_run_says_so_once(repo: Repository, caplog: pytest.LogCaptureFixture) -> None:
    run = pure()
    with (
        caplog.at_level(logging.INFO, "mvcs.train"),
        Checkpointer(repo, run.model, run.optimizer, every=1, step_size=0.002) as checkpointer,
    ):
        for step in range(3):
            run.train(2)
            checkpointer.after_step(step)
            checkpointer.flush()
    told = [record for record in caplog.records if "kept exact" in record.message]
    assert [record.levelname for record in told] == ["WARNING", "INFO", "INFO"]


def test_a_search_whose_bound_needs_the_grid_keeps_it(repo: Repository) -> None:
    run = pure()
    options = {"evaluate": run.evaluate, "max_degradation": 1e-5, "every": 1, "search_evaluations": 3}
    with Checkpointer(repo, run.model, run.optimizer, **options) as checkpointer:
        for step in range(2):
            run.train(3)
            checkpointer.after_step(step)
    assert checkpointer.failures == checkpointer.not_evaluated == []
    for commit in repo.log():
        assert commit.exactness == "exact" or commit.degradation <= 1e-5
