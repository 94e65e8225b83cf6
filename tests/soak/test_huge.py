"""Tensors of more than 2^31 elements: no index, count or length on the way is too narrow."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from mvcs import Repository
from mvcs.quantize.lattice import step_value

ELEMENTS = (1 << 31) + 12_345
LAST = 1 << 20

pytestmark = pytest.mark.soak


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with Repository.init(tmp_path / "run") as repository:
        yield repository


def huge() -> torch.Tensor:
    """A bfloat16 matrix of two rows; the values far behind differ from those in front."""
    values = torch.empty(ELEMENTS + ELEMENTS % 2, dtype=torch.bfloat16)
    torch.manual_seed(0)
    block = torch.randn(1 << 24).bfloat16()
    for start in range(0, values.numel(), block.numel()):
        part = values[start : start + block.numel()]
        part.copy_(block[: part.numel()] * (1 + start / values.numel()))
    return values.reshape(2, -1)


def test_an_exact_tensor_comes_back_to_its_last_element(repo: Repository) -> None:
    weight = huge()
    commit = repo.commit({"weight": weight})
    assert torch.equal(repo.checkout(commit.id)["weight"], weight)


def test_a_bounded_tensor_comes_back_within_its_error_to_its_last_element(repo: Repository) -> None:
    weight = huge()
    repo.config_set("retention.exact_layers", "0")
    first = repo.commit({"weight": weight}, step_size=0.5)
    weight[1, -LAST:] += 1
    second = repo.commit({"weight": weight}, step_size=0.5)
    restored = repo.checkout(second.id)["weight"]

    error = (restored[1, -LAST:].float() - weight[1, -LAST:].float()).abs().max().item()
    assert error <= 0.76 * _step(weight) + 1 / 64  # bfloat16 rounds what the lattice restores
    assert first.errors["weight"]["count"] == weight.numel()
    assert np.isfinite(second.errors["weight"]["rms"])


def _step(weight: torch.Tensor) -> float:
    rms = weight[:, :: 1 << 10].float().square().mean().sqrt().item()
    return max(step_value(byte) for byte in range(256) if step_value(byte) <= 0.5 * rms * 2**0.3)
