"""Stores of one project of which one was stored anew: pushes, fetches and clones go on."""

from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.store import MOVED_BASES, has_upgrade, pack_path
from tests.compaction.histories import History, anew, check, collect, grow, made
from tests.repository.states import content, state

COMMITS = 6
HANGS = pytest.mark.parametrize(
    "hangs", [pytest.param(False, marks=pytest.mark.slow), True], ids=["shorter", "hanging"]
)


@pytest.fixture
def far(tmp_path: Path) -> History:
    return made(tmp_path / "far", COMMITS, bounded=True)


def store_anew(history: History, *, hangs: bool) -> None:
    """Store a history anew so that none of its packs stays."""
    anew(history, 64 if hangs else 0, hangs=hangs)
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


@HANGS
def test_a_clone_takes_what_was_stored_anew(far: History, tmp_path: Path, *, hangs: bool) -> None:
    store_anew(far, hangs=hangs)
    grow(far, 9, bounded=True)
    Repository.clone(str(far.folder), tmp_path / "near").close()
    same(tmp_path / "near", far)
    with Repository.open(tmp_path / "near") as repo:
        assert has_upgrade(repo._session.place.backend, MOVED_BASES)


@HANGS
def test_a_fetch_takes_new_commits_and_keeps_its_own_packs(
    far: History, tmp_path: Path, *, hangs: bool
) -> None:
    Repository.clone(str(far.folder), tmp_path / "near").close()
    store_anew(far, hangs=hangs)
    for number in (9, 10):
        grow(far, number, bounded=True)
        with Repository.open(tmp_path / "near") as repo:
            repo.pull()
    same(tmp_path / "near", far)


@HANGS
def test_a_clone_that_was_stored_anew_is_pushed(far: History, tmp_path: Path, *, hangs: bool) -> None:
    Repository.clone(str(far.folder), tmp_path / "near").close()
    near = History(tmp_path / "near", dict(far.contents), dict(far.told))
    store_anew(near, hangs=hangs)
    with Repository.open(far.folder) as repo:
        repo.create_branch("aside", "main")
        repo.switch("aside")
    with Repository.open(near.folder) as repo:
        info = repo.commit(state(9), step=9, step_size=0.5)
        near.contents[info.id] = content(repo, info.id)
        repo.push()
    same(far.folder, near)
    same(near.folder, near)


def test_both_sides_store_anew_in_their_own_way(far: History, tmp_path: Path) -> None:
    Repository.clone(str(far.folder), tmp_path / "near").close()
    near = History(tmp_path / "near", dict(far.contents), dict(far.told))
    store_anew(near, hangs=True)
    store_anew(far, hangs=False)
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


def test_a_clone_stores_anew_where_footers_name_packs_that_were_never_sent(tmp_path: Path) -> None:
    near = made(tmp_path / "near", COMMITS, bounded=True)
    with Repository.open(near.folder) as repo:
        repo.add_remote("origin", str(tmp_path / "far"))
        repo.push("origin")
    anew(near, depth=1)
    grow(near, 9, bounded=True)
    with Repository.open(near.folder) as repo:
        repo.push("origin")
    Repository.clone(str(tmp_path / "far"), tmp_path / "clone").close()
    clone = History(tmp_path / "clone", dict(near.contents), dict(near.told))
    with Repository.open(clone.folder) as repo:
        assert repo.compact(max_depth=0).ended > 0
    same(clone.folder, near)
    with Repository.open(clone.folder) as repo:
        repo.set_retention(last=2)
        assert len(repo.apply_retention().dropped) == COMMITS - 1
        repo.gc(grace_days=0, wait_days=0, execute=True)
        assert content(repo, "HEAD") == near.contents[repo.resolve("HEAD").id]
        assert repo.fsck().ok


def test_a_push_goes_by_packs_that_count_where_one_that_is_there_has_lost_its_base(
    far: History, tmp_path: Path
) -> None:
    """A collector was killed at its first pack, and this process knows the history as it was before."""
    with Repository.open(far.folder) as repo:
        assert len(list(repo.log())) == COMMITS
        *_, second, _ = repo._session.refs.row("heads", "main")
        anew(far, 0)
        (far.folder / ".mvcs" / pack_path(second.pack)).unlink()
        repo.add_remote("copy", str(tmp_path / "copy"))
        repo.push("copy")
    same(tmp_path / "copy", far)


def test_commits_come_that_stand_on_what_was_stored_anew_here_alone(tmp_path: Path) -> None:
    history = made(tmp_path / "theirs", 4, bounded=True, rows=8)
    Repository.clone(f"file://{history.folder}/.mvcs", tmp_path / "ours").close()
    with Repository.open(tmp_path / "ours") as ours:
        assert ours.compact(max_depth=1).ended
        new = grow(history, 4, bounded=True, rows=8)
        ours.pull()
        assert ours.resolve("HEAD").id == new
        assert content(ours, "HEAD") == history.contents[new]
        assert ours.fsck().ok
