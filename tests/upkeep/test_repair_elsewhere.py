"""Repair where commits were stored again: what is lost here lies in a backup, in packs of other names."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.errors import NotFoundError
from mvcs.objects.ids import Kind, object_id
from mvcs.store.packs.footer import Footer
from mvcs.upkeep.repairing.repair_commits import MOVED
from tests.remotes.forging import forge_footer
from tests.repository.states import content, copied, own_packs, state

COMMITS, KEPT = 4, 2


@pytest.fixture(scope="module")
def backed_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Exact and bounded commits, and a backup that has all of them as they were committed."""
    folder = tmp_path_factory.mktemp("backed_up")
    with Repository.init(folder / "work") as repo:
        for number in range(COMMITS):
            options = {"step_size": 0.5} if number >= COMMITS - KEPT else {}
            repo.commit(state(number), step=number, **options)
        repo.add_remote("far", str(folder / "far"))
        repo.push("far", exact=True)
    return folder


def collect(repo: Repository, remote: str | None = None) -> None:
    repo.gc(grace_days=0, wait_days=0, execute=True, remote=remote)


@pytest.fixture(scope="module")
def made(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, stored again here and collected: no pack of values is in both stores."""
    folder = tmp_path_factory.mktemp("made")
    copied(backed_up, folder)
    with Repository.open(folder / "work") as repo:
        repo.compact(for_archive=True)
        collect(repo)
        repo.push("far", exact=True)
    here, there = (
        {path.name for path in (store / "packs").rglob("*.pack")}
        for store in (folder / "work/.mvcs", folder / "far")
    )
    assert here
    assert here.isdisjoint(there)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    copied(made, tmp_path)
    return tmp_path


def restored(repo: Repository) -> list[object]:
    ids = [info.id for info in repo.log()]
    values = [content(repo, one) for one in ids]
    return [*ids, *values, *(repo.checkout(one, exact=True, numpy=True)["step"] for one in ids[:KEPT])]


def packs(folder: Path) -> list[Path]:
    return sorted((folder / "work/.mvcs/packs").rglob("*.pack"))


def own(folder: Path, rev: str) -> list[Path]:
    with Repository.open(folder / "work") as repo:
        name = own_packs(repo, rev)[-1]
    return [path for path in packs(folder) if path.stem == name]


def spoil(path: Path) -> None:
    path.write_bytes(b"damage")


def empty(path: Path) -> None:
    path.write_bytes(b"")


LOST = [
    (Path.unlink, lambda folder: own(folder, "main")),
    (spoil, lambda folder: own(folder, "main~2")),
    (empty, lambda folder: packs(folder)[:2]),
    (Path.unlink, packs),
    (spoil, packs),
]


@pytest.mark.parametrize(("damage", "chosen"), LOST, ids=["tip", "middle", "two", "all", "all spoilt"])
def test_what_was_stored_again_comes_from_where_it_was_not(
    folder: Path, damage: Callable[[Path], None], chosen: Callable[[Path], list[Path]]
) -> None:
    with Repository.open(folder / "work") as repo:
        before = restored(repo)
    lost = chosen(folder)
    for path in lost:
        damage(path)
    left = {path: path.read_bytes() for path in packs(folder)}
    with Repository.open(folder / "work") as repo:
        plan = repo.repair(execute=False)
        assert {path: path.read_bytes() for path in packs(folder)} == left
        done = repo.repair()
        assert done.ok
        assert (done.losses, done.commits) == ([], COMMITS)
        assert (plan.mended, plan.problems) == (done.mended, done.problems)
        assert any("out of other packs" in one.how for one in done.mended)
    with Repository.open(folder / "work") as repo:
        assert restored(repo) == before
        assert repo.fsck().ok
        assert repo.repair().mended == []
        collect(repo)
        assert not any(path.exists() for path in lost)
        repo.commit(state(9), step=9)
        assert repo.fsck().ok
        assert restored(repo)[1:5] == before[:4]


def test_a_backup_that_was_stored_again_mends_what_was_not(backed_up: Path, tmp_path: Path) -> None:
    """What is whole here stays where it lies."""
    copied(backed_up, tmp_path)
    with Repository.open(tmp_path / "work") as repo:
        before = restored(repo)
        with Repository.open(tmp_path / "far") as far:
            far.compact(for_archive=True)
        collect(repo, "far")
    for path in own(tmp_path, "main"):
        path.unlink()
    with Repository.open(tmp_path / "work") as repo:
        report = repo.repair()
        assert report.ok
        how = {"packs": "copied from 'far', out of other packs", "manifests": MOVED}
        assert {one.path.partition("/")[0]: one.how for one in report.mended} == how
        assert restored(repo) == before
        assert repo.fsck().ok


def test_what_a_backup_gave_up_comes_without_its_data_and_says_so(folder: Path) -> None:
    with Repository.open(folder / "work") as repo:
        oldest = [info.id for info in repo.log()][-1]
        repo.set_retention(remote="far", last=2)
        repo.apply_retention(remote="far")
        collect(repo, "far")
    for path in packs(folder):
        path.unlink()
    with Repository.open(folder / "work") as repo:
        assert repo.repair().ok
        assert [info.id for info in repo.log()][-1] == oldest
        with pytest.raises(NotFoundError, match="dropped"):
            repo.checkout(oldest, numpy=True)


def test_a_backup_that_lies_is_not_believed(folder: Path) -> None:
    """Its pack is whole by its name, and holds another chunk than its footer says."""
    wanted = object_id(Kind.CHUNK, state(9)["model"]["weight"].tobytes())

    def forge(footer: Footer) -> Footer:
        at = next(i for i, placed in enumerate(footer.entries) if placed.entry.members[0].kind is Kind.CHUNK)
        lie = replace(footer.entries[at], ids=(wanted, *footer.entries[at].ids[1:]))
        return replace(footer, entries=(*footer.entries[:at], lie, *footer.entries[at + 1 :]))

    with Repository.open(folder / "work") as repo:
        before = {info.id: content(repo, info.id) for info in repo.log()}
    tip = next(iter(before))
    forge_footer(folder / "far", forge)
    for path in own(folder, "main"):
        path.unlink()
    with Repository.open(folder / "work") as repo:
        report = repo.repair()
        assert not report.ok
        assert any(f"commit {tip[:12]} was not mended" in note for note in report.notes)
        assert {loss.commit for loss in report.losses} == {tip}
        assert all(content(repo, one) == values for one, values in before.items() if one != tip)


def test_a_backup_that_lacks_the_newest_commit_mends_those_behind_it(folder: Path) -> None:
    """The newest was never sent, and is lost; what is behind it comes."""
    with Repository.open(folder / "work") as repo:
        ids = [info.id for info in repo.log()]
        repo.commit(state(9), step=9)
    for path in (*own(folder, "main"), *own(folder, "main~2")):
        path.unlink()
    with Repository.open(folder / "work") as repo:
        report = repo.repair()
        assert not report.ok
        repo.reset(ids[0], hard=True, force=True)
    shutil.rmtree(folder / "far")
    with Repository.open(folder / "work") as repo:
        assert [info.id for info in repo.log()] == ids
        assert all(content(repo, one) for one in ids)


def test_what_packs_here_hold_that_nothing_needs_is_named_again(backed_up: Path, tmp_path: Path) -> None:
    """The commits were stored again, their new packs are lost, and the old ones were not collected yet."""
    copied(backed_up, tmp_path)
    old = packs(tmp_path)
    with Repository.open(tmp_path / "work") as repo:
        before = restored(repo)
        repo.remove_remote("far")
        repo.compact(for_archive=True)
    for path in packs(tmp_path):
        if path not in old:
            path.unlink()
    with Repository.open(tmp_path / "work") as repo:
        report = repo.repair()
        assert report.ok
        assert {one.how for one in report.mended} == {MOVED}
        assert restored(repo) == before
