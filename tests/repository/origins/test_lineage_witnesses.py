"""Values as witnesses: those restored lossily tell, those as coarse when they were handed over do not."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from mvcs import Repository
from mvcs.restore.handed_out import HANDED_OUT
from tests.repository.origins.test_origins import forget

SETTINGS = [{"bins": 32}, {"step_size": 0.1}]


def grid(seed: int) -> torch.Tensor:
    """17 distinct values, as quantization-aware training has."""
    return torch.randint(-8, 9, (300, 100), generator=torch.Generator().manual_seed(seed)).float() / 8


def table(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7)
    values = torch.randn(20, generator=generator)
    return values[torch.randint(0, 20, (300, 100), generator=torch.Generator().manual_seed(seed))]


def frozen(make: Callable[[int], torch.Tensor], seed: int) -> dict[str, torch.Tensor]:
    return {"frozen": make(0), "head": torch.randn(64, 64, generator=torch.Generator().manual_seed(seed))}


def drifting(make: Callable[[int], torch.Tensor], seed: int) -> dict[str, torch.Tensor]:
    """A few rows go elsewhere on the same grid."""
    state = frozen(make, seed)
    state["frozen"][:5] = make(seed)[:5]
    return state


def moving(make: Callable[[int], torch.Tensor], seed: int) -> dict[str, torch.Tensor]:
    return frozen(make, seed) | {"frozen": make(seed)}


def pairs(*axes: Sequence[Any]) -> Iterator[Any]:
    """All combinations; those of the quick suite have each pair of values of any two axes."""
    for places in product(*(range(len(axis)) for axis in axes)):
        marks = [pytest.mark.slow] if sum(places[:-1]) % 2 != places[-1] % 2 else []
        yield pytest.param(*(axis[place] for axis, place in zip(axes, places, strict=True)), marks=marks)


@pytest.mark.parametrize(
    ("keep", "make", "settings", "change"),
    list(pairs([2, 0], [grid, table], SETTINGS, [frozen, drifting, moving])),
)
def test_files_that_were_coarse_when_they_were_handed_over_stay_exact(
    tmp_path: Path, keep: int, change: Any, make: Any, settings: dict[str, Any]
) -> None:
    with Repository.init(tmp_path / "run") as repo:
        repo.config_set("retention.exact_layers", str(keep))
        for seed in range(4):
            save_file(change(make, seed), repo.top / "m.safetensors")
            info = repo.commit_files([repo.top / "m.safetensors"], message="next", **settings)
            assert (info.lineage_exact, info.restored_from) == (True, None)


@pytest.mark.parametrize(
    ("make", "settings", "change"), list(pairs([grid, table], SETTINGS, [frozen, drifting, moving]))
)
def test_states_that_were_coarse_when_they_were_handed_over_are_not_said_to_be_restored(
    tmp_path: Path, change: Any, make: Any, settings: dict[str, Any]
) -> None:
    with Repository.init(tmp_path / "run") as repo:
        for seed in range(4):
            HANDED_OUT.projects.clear()
            told = "" if seed < 3 else None
            info = repo.commit(change(make, seed), restored_from=told, **settings)
            assert info.lineage_exact is (True if seed < 3 else None)
            assert info.restored_from is None


def test_a_frozen_tensor_without_exact_layers_is_not_said_to_be_restored(tmp_path: Path) -> None:
    with Repository.init(tmp_path / "run") as repo:
        repo.config_set("retention.exact_layers", "0")
        for seed in range(3):
            HANDED_OUT.projects.clear()
            info = repo.commit(frozen(table, seed), restored_from="" if seed < 2 else None, bins=32)
            assert info.lineage_exact is (True if seed < 2 else None)


@pytest.mark.parametrize(
    ("rev", "known", "settings"), list(pairs(["main", "main~3"], [True, False], SETTINGS))
)
def test_restored_values_tell_beside_a_frozen_tensor(
    tmp_path: Path, rev: str, known: bool, settings: dict[str, Any]
) -> None:
    """Also against an index that says exact, where they came through another clone and without a mark."""
    with Repository.init(tmp_path / "run") as repo:
        path = repo.top / "m.safetensors"
        for seed in range(4):
            save_file(frozen(grid, seed), path)
            repo.commit_files([path], message="next", **settings)
        origin = repo.resolve(rev).id
    with Repository.clone(str(tmp_path / "run"), tmp_path / "clone") as clone:
        restored = clone.checkout(origin)["m.safetensors"]
        save_file({name: value.clone() for name, value in restored.items()}, path)
    HANDED_OUT.projects.clear()
    if not known:
        forget(tmp_path / "run")
    with Repository.open(tmp_path / "run") as repo:
        after = repo.commit_files([path], message="restored", **settings)
        assert (after.lineage_exact, after.restored_from) == (False, origin)
        assert "snap-back" in after.errors


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_checkout_in_place_beside_a_frozen_tensor_is_lossy_and_guarded(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    with Repository.init(tmp_path / "run") as repo:
        path = repo.top / "m.safetensors"
        save_file(frozen(table, 0), path)
        first = repo.commit_files([path], message="one", **settings)
        path.unlink()
        repo.checkout_files("HEAD")
        state = load_file(path)
        save_file(state | {"head": state["head"] + 1e-3}, path)
        after = repo.commit_files([path], message="two", **settings)
        assert (after.lineage_exact, after.restored_from) == (False, first.id)
        assert after.errors["snap-back"]["retained"] >= 0.9
