"""A rewriting that fails before refs move removes what it wrote, and nothing that another one names."""

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository
from mvcs.compaction import StoringAnew
from mvcs.errors import ConflictError, StorageError
from mvcs.local import Journal
from mvcs.repository.keeping.journaled_work import run_journaled
from tests.compaction.histories import anew, check, made, storing
from tests.store.faults import Disk, full_disk


def packs(folder: Path) -> set[Path]:
    return set(folder.rglob("*.pack"))


def announced(work: StoringAnew, journal: Journal, _: frozenset[str]) -> StoringAnew:
    return replace(work, announce=journal.pack)


def test_what_another_names_stays(tmp_path: Path) -> None:
    history = made(tmp_path / "work", 4, bounded=False)
    gone = frozenset(list(history.contents)[:2])

    def begin() -> None:
        named.update(anew(history, without=sorted(gone)).packs)
        raise ConflictError("rules changed meanwhile")

    named: set[str] = set()
    with Repository.open(history.folder) as repo:
        work = storing(repo, without=sorted(gone))
        before = packs(history.folder)
        with pytest.raises(ConflictError):
            run_journaled(repo._session.place, partial(announced, work), begin)
    assert named
    assert {path.stem for path in packs(history.folder) - before} == named, "and what is not shared is gone"
    check(history, gone)


def test_a_pack_that_was_written_last_goes_too(tmp_path: Path) -> None:
    """It was not counted yet when the next file was refused."""
    history = made(tmp_path / "work", 3, bounded=False)
    raised = 0
    for allowed in range(16):
        folder = Path(shutil.copytree(history.folder, tmp_path / f"at-{allowed}"))
        before = packs(folder)
        with Repository.open(folder) as repo, Disk(folder, allowed, full_disk, once=True):
            try:
                run_journaled(repo._session.place, partial(announced, storing(repo, depth=0)))
            except (StorageError, OSError):
                raised += 1
                assert packs(folder) == before, allowed
    assert raised > 3


def test_what_was_given_up_before_is_no_reason_to_store_anything_anew(tmp_path: Path) -> None:
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
