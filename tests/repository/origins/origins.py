"""What the tests of where values come from share: weights, training on, and a commit by who knows nothing."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from mvcs import Repository

SHAPE = (96, 40)


def weights(seed: int, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "layer.weight": (0.05 * torch.randn(SHAPE, generator=generator)).to(dtype),
        "layer.bias": (0.01 * torch.randn(96, generator=generator)).to(dtype),
    }


def trained(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Other tensors, a little farther."""
    return {name: tensor + 1e-3 * torch.randn(tensor.shape) for name, tensor in state.items()}


def commit(folder: Path, name: str = "model.safetensors", **quantizer: Any) -> tuple[bool | None, str | None]:
    """Commit one file in a process that knows nothing but what lies there."""
    with Repository.open(folder) as repo:
        info = repo.commit_files([folder / name], message="next", **quantizer)
        return info.lineage_exact, info.restored_from


def restore(folder: Path, rev: str = "main~2") -> str:
    with Repository.open(folder) as repo:
        return repo.checkout_files(rev).commit.id


def train_file(path: Path) -> None:
    """As a training program does it, which knows of no metadata."""
    save_file(trained(load_file(path)), path)


def forget(folder: Path) -> None:
    (folder / ".mvcs" / "index").unlink()
