"""In which steps a momentum is kept that has no second moment beside it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mvcs import Repository
from mvcs.quantize import LatticeConfig, MomentsConfig

FEW, MANY = (64, 64), (256, 256)


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with Repository.init(tmp_path / "run") as repository:
        repository.config_set("retention.exact_layers", "0")
        yield repository


def state() -> dict[str, Any]:
    """SGD's momentum of a large and of a small matrix, with outliers as gradients have them."""
    rng = np.random.default_rng(0)
    parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in (MANY, FEW)]
    for one in parameters:
        one.grad = torch.from_numpy(rng.laplace(size=one.shape).astype(np.float32))
    optimizer = torch.optim.SGD(parameters, 0.1, momentum=0.9)
    optimizer.step()
    return {"optimizer": optimizer.state_dict()}


def restored(repo: Repository, moments: MomentsConfig) -> list[np.ndarray]:
    made = repo.commit(state(), quantizer=LatticeConfig(step_size=0.25, moments=moments))
    assert made.notes == []
    found: Any = repo.checkout()
    return [one["momentum_buffer"].numpy() for one in found["optimizer"]["state"].values()]


@pytest.mark.parametrize(
    ("moments", "steps"),
    [
        (MomentsConfig.RESUME, (3.0, 1.0)),
        (MomentsConfig.FINER, (1.0, 1.0)),
        (MomentsConfig(2.0, 2.0), (2.0, 2.0)),
    ],
)
def test_momentum_is_a_multiple_of_its_step(
    repo: Repository, moments: MomentsConfig, steps: tuple[float, float]
) -> None:
    for value, held, step in zip(
        restored(repo, moments), state()["optimizer"]["state"].values(), steps, strict=True
    ):
        unit = np.abs(value[value != 0]).min()
        assert unit / held["momentum_buffer"].square().mean().sqrt() == pytest.approx(step, rel=0.15)
        assert (value % unit == 0).all()


def test_steps_three_times_as_large_take_less_than_half(repo: Repository) -> None:
    taken = []
    for moments in (MomentsConfig.FINER, MomentsConfig.RESUME):
        restored(repo, moments)
        taken.append(next(one.stored_bytes for one in repo.show().tensors if tuple(one.shape) == MANY))
    assert taken[1] < taken[0] / 2
