"""What is dropped before is no reason to store anything again, and what fails leaves nothing behind."""

import shutil
from pathlib import Path

import numpy as np

from mvcs import Repository
from mvcs.errors import StorageError
from tests.compaction.histories import as_id, made
from tests.store.faults import Disk, full_disk


def packs(folder: Path) -> set[Path]:
    return set(folder.rglob("*.pack"))


def test_a_retention_that_meets_a_full_disk_leaves_no_pack(tmp_path: Path) -> None:
    """Nor the one that was written last, before the next file was refused."""
    history = made(tmp_path / "work", 4, bounded=False)
    with Repository.open(history.folder) as repo:
        repo.set_retention(last=2)
    raised = 0
    for allowed in range(16):
        folder = Path(shutil.copytree(history.folder, tmp_path / f"at-{allowed}"))
        before = packs(folder)
        with Repository.open(folder) as repo, Disk(folder, allowed, full_disk, once=True):
            try:
                repo.apply_retention()
            except (StorageError, OSError):
                raised += 1
                assert packs(folder) == before or repo._session.store.manifests.dropped(
                    map(as_id, history.contents)
                ), allowed
    assert raised > 3


def test_what_was_dropped_before_is_no_reason_to_store_anything_again(tmp_path: Path) -> None:
    """Trees of commits that stay are stored near those of commits whose data went."""
    drawn = np.random.default_rng(0)
    model = {f"{layer}.weight": drawn.standard_normal((32, 16), np.float32) for layer in range(40)}
    with Repository.init(tmp_path) as repo:
        for number in range(14):
            for name, value in model.items():
                model[name] = value + np.float32(0.02) * drawn.standard_normal((32, 16), np.float32)
            repo.commit({"model": model}, step=number, step_size=0.5)
        repo.set_retention(every=4, last=2)
        assert repo.apply_retention().written
        for _ in range(2):
            repo.gc(grace_days=0, wait_days=0, execute=True)
            before = packs(tmp_path)
            assert repo.apply_retention().written == 0
            assert repo.compact(max_depth=64).packs == 0
            assert packs(tmp_path) == before
