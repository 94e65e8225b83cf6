"""States and files for the tests of repositories."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from mvcs import Repository
from mvcs.local import Trust
from mvcs.local.place import find
from tests.store.faults import FaultyBackend


def state(number: int, rows: int = 40) -> dict[str, Any]:
    """A small training state that moves a little with `number`."""
    drift = np.random.default_rng(number)
    weight = np.random.default_rng(0).standard_normal((rows, 64)).astype(np.float32)
    return {
        "model": {
            "weight": weight + 0.01 * drift.standard_normal(weight.shape).astype(np.float32),
            "bias": np.full(64, number, np.float32),
        },
        "optimizer": {"step": np.int64(number), "exp_avg": drift.standard_normal((rows, 64))},
        "step": number,
    }


def leaves(value: Any, path: str = "") -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Every array of a state by path, as dtype, shape and bytes, so that NaN equals NaN bit for bit."""
    if isinstance(value, dict):
        found: dict[str, tuple[str, tuple[int, ...], bytes]] = {}
        for key, item in value.items():
            found |= leaves(item, f"{path}.{key}")
        return found
    array = np.asarray(value)
    return {path: (array.dtype.str, array.shape, array.tobytes())}


def content(repo: Repository, rev: str) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """What a commit restores: its value layer, every leaf bit for bit."""
    return leaves(repo.checkout(rev, numpy=True))


def write_model(path: Path, number: int) -> bytes:
    """Write a safetensors file and return its bytes."""
    model = state(number)["model"]
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(model, path, metadata={"step": str(number)})
    return path.read_bytes()


def copied(source: Path, target: Path) -> None:
    """Copy a folder of repositories that know each other by their paths, so that the copies do."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    for config in target.glob("*/.mvcs/config.toml"):
        config.write_text(config.read_text().replace(str(source), str(target)))


def modified_model(folder: Path) -> Path:
    """Make a repository in which `model.safetensors` was committed and changed since; return its folder."""
    with Repository.init(folder) as repo:
        write_model(repo.top / "model.safetensors", 0)
        repo.commit_files([repo.top / "model.safetensors"], message="one")
        write_model(repo.top / "model.safetensors", 1)
    return folder


def through_faults(folder: Path) -> tuple[Repository, FaultyBackend]:
    """Open a repository whose store is reached through a backend that counts, and fails as told."""
    place = find(str(folder), None, Trust.of_user())
    backend = FaultyBackend(place.backend)
    return Repository(replace(place, backend=backend)), backend


def own_packs(repo: Repository, rev: str) -> tuple[str, ...]:
    """The names of the packs that were written for a commit; the last one holds the commit itself."""
    session = repo._session
    return session.store.manifests.placement(session.resolver.resolve(rev).id).own
