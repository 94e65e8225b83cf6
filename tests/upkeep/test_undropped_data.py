"""A backup keeps data that the store which pushes to it dropped, until its own rules let them go."""

from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository

LAYERS = 30


def state(number: int) -> dict[str, np.ndarray]:
    """So many tensors that trees lean on one another: then a push sends ends without data."""
    rng = np.random.default_rng(number)
    start = np.random.default_rng(1000).standard_normal((LAYERS, 40, 40)).astype(np.float32)
    moves = rng.standard_normal(start.shape).astype(np.float32) / 100
    return {f"layer.{k}": value for k, value in enumerate(start + moves)}


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A store where all but the newest two were dropped in turn, and one that each commit was pushed to."""
    work, backup = tmp_path / "work", tmp_path / "backup"
    with Repository.init(work) as repo:
        repo.add_remote("backup", str(backup))
        repo.set_retention(last=2, force=True)
        for number in range(6):
            repo.commit(state(number), step=number)
            if number % 2:
                repo.push("backup")
                repo.apply_retention(force=True)
                repo.gc(grace_days=0, wait_days=0, execute=True)
    return work, backup


def test_a_collector_keeps_what_no_record_there_gives_up(pair: tuple[Path, Path], tmp_path: Path) -> None:
    work, backup = pair
    with Repository.open(work) as repo:
        assert sum(info.data_dropped for info in repo.log()) == 4
        repo.gc(grace_days=0, wait_days=0, execute=True, remote="backup")
        repo.gc(grace_days=0, wait_days=0, execute=True, remote="backup")
    with Repository.open(backup) as repo:
        assert not any(info.data_dropped for info in repo.log())
        assert repo.fsck().ok
    with Repository.clone(str(backup), tmp_path / "clone") as repo:
        for number in range(6):
            found = repo.checkout(f"step:{number}", numpy=True)
            assert all(np.array_equal(found[name], value) for name, value in state(number).items())


def test_what_is_stored_anew_there_keeps_them_as_well(pair: tuple[Path, Path]) -> None:
    with Repository.open(pair[1]) as repo:
        repo.compact(max_depth=0)
        repo.gc(grace_days=0, wait_days=0, execute=True)
        assert repo.fsck().ok
        for number in range(6):
            found = repo.checkout(f"step:{number}", numpy=True)
            assert all(np.array_equal(found[name], value) for name, value in state(number).items())


def test_rules_of_the_backup_let_them_go(pair: tuple[Path, Path]) -> None:
    with Repository.open(pair[1]) as repo:
        repo.set_retention(last=1, force=True)
        repo.apply_retention(force=True)
        repo.gc(grace_days=0, wait_days=0, execute=True)
        assert [info.data_dropped for info in repo.log()] == [False, True, True, True, True, True]
        assert repo.fsck().ok
        left = [note for note in repo.fsck().notes if "left" in note]
    assert left == []
