"""Repair of manifests: packs, later manifests or another store say what the records of a commit said."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.objects import ObjectId
from mvcs.reports import RepairReport
from mvcs.store import Manifests, manifest_path, open_backend
from tests.repository.states import content, copied, own_packs, state

COMMITS = 4


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Exact and bounded commits, and a remote that has all of it. To be copied."""
    folder = tmp_path_factory.mktemp("made")
    with Repository.init(folder / "work") as repo:
        for number in range(COMMITS):
            options = {"step_size": 0.5} if number >= COMMITS - 2 else {}
            repo.commit(state(number), step=number, **options)
        repo.add_remote("far", str(folder / "far"))
        repo.push("far", exact=True)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    copied(made, tmp_path)
    return tmp_path


@pytest.fixture
def alone(folder: Path) -> Path:
    """The repository without a remote."""
    with Repository.open(folder / "work") as repo:
        repo.remove_remote("far")
    return folder


def record(folder: Path, rev: str, number: int = 0) -> Path:
    with Repository.open(folder / "work") as repo:
        return folder / "work/.mvcs" / manifest_path(repo._session.resolver.resolve(rev).id, number)


def records(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted((folder / "work/.mvcs/manifests").rglob("*.*"))}


def contents(folder: Path) -> list[object]:
    with Repository.open(folder / "work") as repo:
        return [(info.id, info.raw_bytes, content(repo, info.id)) for info in repo.log()]


def mended(folder: Path) -> RepairReport:
    """Repair, after a rehearsal that says the same."""
    before = records(folder)
    with Repository.open(folder / "work") as repo:
        plan = repo.repair(execute=False)
        assert records(folder) == before
        report = repo.repair()
        assert (plan.mended, plan.problems) == (report.mended, report.problems)
        assert report.ok == repo.fsck().ok
        assert not report.ok or repo.repair().mended == []
    return report


def delete(path: Path) -> None:
    path.unlink()


def blank(path: Path) -> None:
    path.write_bytes(bytes(len(path.read_bytes())))


@pytest.mark.parametrize("damage", [delete, blank])
@pytest.mark.parametrize("rev", ["main", "step:1", "step:0"])
def test_a_first_record_is_made_again_from_what_the_store_holds(
    alone: Path, rev: str, damage: Callable[[Path], None]
) -> None:
    before, path = contents(alone), record(alone, rev)
    damage(path)
    report = mended(alone)
    assert report.ok
    assert [one.path for one in report.mended] == [path.relative_to(alone / "work/.mvcs").as_posix()]
    assert contents(alone) == before


def test_all_manifests_are_made_again_from_packs_alone(alone: Path) -> None:
    before, whole = contents(alone), records(alone)
    shutil.rmtree(alone / "work/.mvcs/manifests")
    report = mended(alone)
    assert report.ok
    assert len(report.mended) == COMMITS
    assert contents(alone) == before
    assert records(alone) == whole


def test_a_damaged_record_is_kept_aside(alone: Path) -> None:
    path = record(alone, "main")
    blank(path)
    damaged = path.read_bytes()
    (kept,) = mended(alone).aside
    assert (alone / "work/.mvcs" / kept).read_bytes() == damaged


def test_a_flipped_bit_is_turned_back(alone: Path) -> None:
    path = record(alone, "step:1")
    whole = path.read_bytes()
    path.write_bytes(whole[:50] + bytes([whole[50] ^ 8]) + whole[51:])
    report = mended(alone)
    assert [one.how for one in report.mended] == ["a flipped bit was corrected"]
    assert path.read_bytes() == whole


def test_a_commit_whose_manifest_and_packs_are_lost_comes_from_a_remote(folder: Path) -> None:
    before = contents(folder)
    with Repository.open(folder / "work") as repo:
        names = own_packs(repo, "main")
    record(folder, "main").unlink()
    for name in names:
        (folder / f"work/.mvcs/packs/{name[:2]}/{name}.pack").unlink()
    report = mended(folder)
    assert report.ok
    assert contents(folder) == before


def test_a_commit_of_which_nothing_is_left_is_named_as_lost(alone: Path) -> None:
    path = record(alone, "main")
    with Repository.open(alone / "work") as repo:
        commit, (name,) = repo.head().id, own_packs(repo, "main")
    path.unlink()
    (alone / f"work/.mvcs/packs/{name[:2]}/{name}.pack").unlink()
    report = mended(alone)
    assert not report.ok
    assert [(loss.commit, loss.count) for loss in report.losses] == [(commit, None)]
    assert report.commits == COMMITS  # where the branch was before tells of the others
    assert report.newest[0].step == COMMITS - 2


def test_what_may_be_left_of_a_commit_that_cannot_be_read_is_not_taken_out(alone: Path) -> None:
    path = record(alone, "main")
    with Repository.open(alone / "work") as repo:
        (name,) = own_packs(repo, "main")
    pack = alone / f"work/.mvcs/packs/{name[:2]}/{name}.pack"
    path.unlink()
    pack.write_bytes(b"damage")
    assert not mended(alone).ok
    assert pack.read_bytes() == b"damage"


def test_where_a_remote_says_that_data_lie_is_not_believed(folder: Path) -> None:
    """Its manifest is whole, and names packs that are nowhere."""
    before, path = contents(folder), record(folder, "main")
    far = open_backend(str(folder / "far"))
    with Repository.open(folder / "work") as repo:
        commit = repo._session.resolver.resolve("main").id
    told = Manifests(far).first(commit)
    lie = replace(told, placement=replace(told.placement, own=("ab" * 32,)))
    far.replace(manifest_path(commit, 0), lie.encode())
    path.unlink()
    assert mended(folder).ok
    assert contents(folder) == before
    with Repository.open(folder / "work") as repo:
        assert "ab" * 32 not in own_packs(repo, "main")


def test_a_remote_gives_no_commit_the_exact_layer_of_another(folder: Path) -> None:
    path, far = record(folder, "main"), open_backend(str(folder / "far"))
    with Repository.open(folder / "work") as repo:
        commit, names = repo.head().id, own_packs(repo, "main")
        other = repo._session.resolver.resolve("main~1").written.exact_packs
    told = Manifests(far).first(ObjectId(bytes.fromhex(commit)))
    lie = replace(told, written=replace(told.written, exact_packs=other))
    far.replace(manifest_path(told.written.id, 0), lie.encode())
    path.unlink()
    for name in names:
        (folder / f"work/.mvcs/packs/{name[:2]}/{name}.pack").unlink()
    assert not mended(folder).ok
    assert not path.exists()


@pytest.fixture
def moved(alone: Path) -> Path:
    """All commits lie in packs of other names by now, and the old ones are collected."""
    with Repository.open(alone / "work") as repo:
        repo.compact(max_depth=0)
        repo.gc(grace_days=0, wait_days=0, execute=True)
    return alone


@pytest.mark.parametrize("damage", [delete, blank])
def test_a_newest_record_is_worked_out_again(moved: Path, damage: Callable[[Path], None]) -> None:
    before, path = contents(moved), min(records(moved), key=lambda path: path.name.rpartition(".")[2])
    assert not path.name.endswith(".99999999")
    damage(path)
    assert mended(moved).ok
    assert contents(moved) == before


@pytest.mark.parametrize("damage", [delete, blank])
def test_data_that_were_dropped_are_not_missed_where_their_record_is_damaged(
    alone: Path, damage: Callable[[Path], None]
) -> None:
    with Repository.open(alone / "work") as repo:
        repo.set_retention(last=1, force=True)
        repo.apply_retention(force=True)
        repo.gc(grace_days=0, wait_days=0, execute=True)
        number = repo._session.store.manifests.numbers(repo._session.resolver.resolve("step:0").id)[0]
    path = record(alone, "step:0", number)
    damage(path)
    report = mended(alone)
    with Repository.open(alone / "work") as repo:
        dropped = [info.data_dropped for info in repo.log()]
    assert report.ok == (damage is blank)
    assert dropped == [False, True, True, damage is blank]
    assert damage is delete or any("count as dropped on purpose" in note for note in report.notes)
