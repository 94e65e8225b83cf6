"""States and files that are known by a number, of a size at which a commit can be killed."""

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from mvcs import Repository

SIDE = 192


def state(number: int) -> dict[str, dict[str, np.ndarray]]:
    """A state of some 600 kB that moves a little with its number."""
    start, drift = np.random.default_rng(0), np.random.default_rng(number)
    model = {}
    for index in range(4):
        weight = start.standard_normal((SIDE, SIDE)).astype(np.float32)
        model[f"{index}.weight"] = weight + 0.01 * drift.standard_normal(weight.shape).astype(np.float32)
        model[f"{index}.bias"] = np.full(SIDE, number, np.float32)
    return {"model": model}


def flat(number: int) -> dict[str, np.ndarray]:
    """The tensors of a state by name."""
    return state(number)["model"]


def same(found: dict[str, np.ndarray], number: int) -> bool:
    """Tell whether tensors are those of a number, bit for bit."""
    wanted = flat(number)
    return found.keys() == wanted.keys() and all(
        found[name].tobytes() == wanted[name].tobytes() for name in wanted
    )


def close(found: dict[str, np.ndarray], number: int) -> bool:
    """Tell whether tensors are those of a number as a bounded commit restores them."""
    wanted = flat(number)
    return found.keys() == wanted.keys() and all(
        float(np.square(found[name] - wanted[name]).mean()) <= 0.1 for name in wanted
    )


def write(path: Path, number: int) -> None:
    """Write the state of a number as a safetensors file."""
    save_file(flat(number), path)


def read(path: Path) -> dict[str, np.ndarray]:
    """Read such a file."""
    return dict(load_file(path))


QUANTIZERS: tuple[dict[str, object], ...] = ({}, {"step_size": 0.5}, {"bins": 16})


def commit(repo: Repository, number: int, how: int) -> str:
    """Commit the state of a number in one of the three ways; the message says which number it is."""
    info = repo.commit(state(number), message=str(number), step=number, **QUANTIZERS[how % 3])
    return info.id


def restores(repo: Repository, identifier: str) -> bool:
    """Tell whether a commit restores what its message says, in both layers where both are kept."""
    info = repo.resolve(identifier)
    number = int(info.message)
    values = repo.checkout(identifier, numpy=True)["model"]
    if info.exactness == "exact":
        return same(values, number)
    kept = repo.restore(identifier, numpy=True)
    return close(values, number) and (kept.lossy or same(kept.state["model"], number))
