"""Exact layers that lie here without their commits: whose they are, when these come from another store."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.errors import CorruptionError
from mvcs.refs.refstore import HEADS, RefChange
from mvcs.store.reading.pack_files import pack_path
from tests.remotes.forging import forge_tip, tip_manifest, tip_pack
from tests.repository.states import content, copied, state

COMMITS, KEPT = 3, 2


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bounded commits, and a backup that has all of them. To be copied."""
    folder = tmp_path_factory.mktemp("made")
    with Repository.init(folder / "work") as repo:
        for number in range(COMMITS):
            repo.commit(state(number), step=number, step_size=0.5)
        repo.add_remote("far", str(folder / "far"))
        repo.push("far", exact=True)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    copied(made, tmp_path)
    return tmp_path


def exact(repo: Repository, rev: str) -> bytes:
    return repo.checkout(rev, exact=True, numpy=True)["model"]["weight"].tobytes()


def restored(repo: Repository) -> list[object]:
    """All values, and those of the exact layers that are kept."""
    ids = [info.id for info in repo.log()]
    return [*(content(repo, one) for one in ids), *(exact(repo, one) for one in ids[:KEPT])]


@pytest.mark.parametrize("lost", range(1, COMMITS + 1))
def test_what_was_lost_comes_from_a_store_that_was_compacted(folder: Path, lost: int) -> None:
    work = folder / "work"
    with Repository.open(work) as repo:
        before = restored(repo)
        names = [tip_pack(work, info.id) for info in repo.log()]
        with Repository.open(folder / "far") as far:
            far.compact(for_archive=True)
        repo.gc(remote="far", grace_days=0, wait_days=0, execute=True)
    for name in names[:lost]:
        assert not (folder / "far" / pack_path(name)).exists()
        (work / ".mvcs" / pack_path(name)).unlink()
    with Repository.open(work) as repo:
        repo.repair(execute=True)
        assert restored(repo) == before
        assert repo.fsck().problems == []


def test_a_copy_that_broke_off_behind_the_exact_layers_is_fetched_into(folder: Path) -> None:
    work = folder / "work"
    with Repository.clone(str(folder / "far"), folder / "torn") as torn, Repository.open(work) as repo:
        made = repo.commit(state(9), step=9, step_size=0.5)
        shutil.copytree(work / ".mvcs/exact", folder / "torn/.mvcs/exact", dirs_exist_ok=True)
        torn.add_remote("work", str(work))
        torn.fetch("work")
        assert exact(torn, made.id) == exact(repo, made.id)
        assert torn.fsck().problems == []


def forged(far: Path, layer: tuple[str, ...]) -> None:
    """Say of the tip over there that its exact layer is another one."""
    forge_tip(far, lambda told: replace(told, written=replace(told.written, exact_packs=layer)))


def test_a_layer_that_a_manifest_here_gives_to_a_lost_commit_goes_to_no_other(folder: Path) -> None:
    """The commit is in no history here, since the branch of it is gone; its manifest is still there."""
    work, far = folder / "work", folder / "far"
    layer = tip_manifest(far).written.exact_packs
    with Repository.open(far) as there, Repository.open(work) as here:
        there.commit(state(9), step=9, step_size=0.5)
        refs = here._session.refs
        for kind, name in ((HEADS, "main"), ("remotes", "far/main")):
            refs.update(kind, name, refs.newest(kind, name), RefChange(None, "Ada", "gone"))
    forged(far, layer)
    with Repository.open(work) as here, pytest.raises(CorruptionError, match="belongs to another commit"):
        here.fetch("far")


def test_a_layer_that_two_commits_claim_goes_to_one_of_them(folder: Path) -> None:
    far, torn = folder / "far", folder / "torn"
    layer = tip_manifest(far).written.exact_packs
    with Repository.open(far) as there:
        there.commit(state(9), step=9, step_size=0.5)
    forged(far, layer)
    Repository.init(torn).close()
    shutil.copytree(far / "exact", torn / ".mvcs/exact", dirs_exist_ok=True)
    with Repository.open(torn) as here:
        here.add_remote("far", str(far))
        with pytest.raises(CorruptionError, match="belongs to another commit"):
            here.fetch("far")
