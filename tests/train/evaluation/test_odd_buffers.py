"""Buffers that cannot simply be written: evaluated with, left as they are, and no end of a run."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from mvcs import Repository
from mvcs.errors import UsageError
from mvcs.search import Bound
from mvcs.train import Evaluator
from tests.train import evaluations
from tests.train.evaluations import Run, train, undisturbed


def grid() -> torch.Tensor:
    rows = torch.linspace(-1, 1, 4)
    return torch.meshgrid(rows, rows, indexing="ij")[0]


def made_for_inference() -> torch.Tensor:
    with torch.inference_mode():
        return torch.arange(6.0)


@pytest.fixture
def table(tmp_path_factory: pytest.TempPathFactory) -> torch.Tensor:
    path = tmp_path_factory.mktemp("table") / "table.npy"
    np.save(path, np.arange(6, dtype=np.float32))
    with pytest.warns(UserWarning, match="not writable"):
        return torch.from_numpy(np.load(path, mmap_mode="r"))


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize(
    "make", [grid, lambda: torch.ones(3).expand(4, 2, 3), lambda: torch.arange(9.0).unfold(0, 3, 1)]
)
def test_elements_that_share_memory(
    make: Callable[[], torch.Tensor], persistent: bool, repo: Repository
) -> None:
    run, odd = Run(), make()
    run.model.register_buffer("odd", odd, persistent=persistent)
    before = odd.clone()
    train(repo, run, 12, max_degradation=0.05)
    assert [commit.exactness for commit in repo.log()].count("bounded") > 0
    assert run.model.odd is odd
    assert torch.equal(odd, before)
    assert [pair for pair in run.bits() if pair[0] != "odd"] == undisturbed(12)


def test_memory_that_cannot_be_written(table: torch.Tensor, repo: Repository) -> None:
    run = Run()
    run.model.register_buffer("table", table, persistent=False)
    run.model.register_buffer("inference", made_for_inference(), persistent=False)
    train(repo, run, 12, max_degradation=0.05)
    assert [commit.exactness for commit in repo.log()].count("bounded") > 0
    assert run.bits() == undisturbed(12)


def test_what_an_evaluation_wrote_there_is_undone() -> None:
    model = nn.Linear(2, 2)
    model.register_buffer("grid", grid())
    model.register_buffer("inference", made_for_inference())

    def writes(lent: nn.Module) -> float:
        lent.grid[:, 0] = 7.0
        with torch.inference_mode():
            lent.inference += 1
        return 1.0

    Evaluator(model, writes, Bound(0.05)).baseline(0)
    assert torch.equal(model.grid, grid())
    assert torch.equal(model.inference, torch.arange(6.0))


def test_values_that_such_memory_cannot_hold_are_refused() -> None:
    run = Run()
    run.model.register_buffer("grid", grid())
    evaluator = Evaluator(run.model, evaluations.number, Bound(0.05))
    other = grid()[:1].expand(4, 4).clone()
    with evaluator.measuring(0, {"grid": other}):
        assert torch.equal(run.model.grid, other)
    with (
        pytest.raises(UsageError, match="elements of 'grid' share memory"),
        evaluator.measuring(0, {"grid": torch.arange(16.0).view(4, 4)}),
    ):
        pass
    assert torch.equal(run.model.grid, grid())
