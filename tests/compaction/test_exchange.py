"""Stores of one project of which one was stored again: pushes, fetches and clones work as before."""

from pathlib import Path

import pytest

from mvcs import Repository
from tests.compaction.histories import History, check, collect, grow, made, repack
from tests.repository.states import content, state

COMMITS = 6
WAYS = pytest.mark.parametrize(
    "for_archive", [pytest.param(False, marks=pytest.mark.slow), True], ids=["shorter", "archive"]
)


@pytest.fixture
def far(tmp_path: Path) -> History:
    return made(tmp_path / "far", COMMITS, bounded=True)


def store_again(history: History, *, for_archive: bool) -> None:
    """Store a history again so that none of its packs stays."""
    repack(history, 64 if for_archive else 0, for_archive=for_archive)
    assert collect(history) > 0


def same(folder: Path, history: History) -> None:
    """See that a clone has what a history has and is whole, also once it holds nothing but that."""
    with Repository.open(folder) as repo:
        for _ in range(2):
            assert {info.id for info in repo.log("main")} == history.contents.keys()
            for identifier, was in history.contents.items():
                assert content(repo, identifier) == was
            report = repo.fsck()
            assert report.ok, report.problems
            repo.gc(grace_days=0, execute=True)


@WAYS
def test_a_clone_takes_what_was_stored_again(far: History, tmp_path: Path, *, for_archive: bool) -> None:
    store_again(far, for_archive=for_archive)
    grow(far, 9, bounded=True)
    Repository.clone(str(far.folder), tmp_path / "near").close()
    same(tmp_path / "near", far)


@WAYS
def test_a_fetch_takes_new_commits_and_keeps_its_own_packs(
    far: History, tmp_path: Path, *, for_archive: bool
) -> None:
    Repository.clone(str(far.folder), tmp_path / "near").close()
    store_again(far, for_archive=for_archive)
    for number in (9, 10):
        grow(far, number, bounded=True)
        with Repository.open(tmp_path / "near") as repo:
            repo.pull()
    same(tmp_path / "near", far)


@WAYS
def test_a_clone_that_was_stored_again_is_pushed(far: History, tmp_path: Path, *, for_archive: bool) -> None:
    Repository.clone(str(far.folder), tmp_path / "near").close()
    near = History(tmp_path / "near", dict(far.contents), dict(far.told))
    store_again(near, for_archive=for_archive)
    with Repository.open(far.folder) as repo:
        repo.create_branch("aside", "main")
        repo.switch("aside")
    with Repository.open(near.folder) as repo:
        info = repo.commit(state(9), step=9, step_size=0.5)
        near.contents[info.id] = content(repo, info.id)
        repo.push()
    same(far.folder, near)
    same(near.folder, near)


def test_both_sides_store_again_in_their_own_way(far: History, tmp_path: Path) -> None:
    Repository.clone(str(far.folder), tmp_path / "near").close()
    near = History(tmp_path / "near", dict(far.contents), dict(far.told))
    store_again(near, for_archive=True)
    store_again(far, for_archive=False)
    grow(far, 9, bounded=True)
    with Repository.open(near.folder) as repo:
        repo.pull()
    same(near.folder, far)
    check(far)
    with Repository.open(near.folder) as repo:
        repo.add_remote("third", str(tmp_path / "third"))
        repo.push("third")
    with Repository.open(str(tmp_path / "third")) as third:
        report = third.fsck()
        assert report.ok, report.problems


def test_a_clone_of_what_was_pushed_in_two_forms_is_stored_again(tmp_path: Path) -> None:
    near = made(tmp_path / "near", COMMITS, bounded=True)
    with Repository.open(near.folder) as repo:
        repo.add_remote("origin", str(tmp_path / "far"))
        repo.push("origin")
    repack(near, depth=1)
    grow(near, 9, bounded=True)
    with Repository.open(near.folder) as repo:
        repo.push("origin")
    Repository.clone(str(tmp_path / "far"), tmp_path / "clone").close()
    clone = History(tmp_path / "clone", dict(near.contents), dict(near.told))
    with Repository.open(clone.folder) as repo:
        assert repo.compact(max_depth=0).rewritten > 0
    same(clone.folder, near)
    with Repository.open(clone.folder) as repo:
        repo.set_retention(last=2)
        assert len(repo.apply_retention().dropped) == COMMITS - 1
        repo.gc(grace_days=0, wait_days=0, execute=True)
        assert content(repo, "HEAD") == near.contents[repo.resolve("HEAD").id]
        assert repo.fsck().ok


def test_commits_come_whose_parents_were_stored_again_here_alone(tmp_path: Path) -> None:
    history = made(tmp_path / "theirs", 4, bounded=True, rows=8)
    Repository.clone(f"file://{history.folder}/.mvcs", tmp_path / "ours").close()
    with Repository.open(tmp_path / "ours") as ours:
        assert ours.compact(max_depth=1).rewritten
        new = grow(history, 4, bounded=True, rows=8)
        ours.pull()
        assert ours.resolve("HEAD").id == new
        assert content(ours, "HEAD") == history.contents[new]
        assert ours.fsck().ok
