"""Histories stored again: what they restore stays, and where it lies changes."""

from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository
from mvcs.errors import CorruptionError, NotFoundError
from tests.compaction.histories import (
    History,
    check,
    collect,
    compact,
    depths,
    grow,
    made,
    note,
    packs_of,
    repack,
    repacking,
)
from tests.repository.states import content, state
from tests.store.faults import Disk, Stopped

COMMITS = 9
BOTH = pytest.mark.parametrize(
    "bounded", [pytest.param(False, marks=pytest.mark.slow), True], ids=["exact", "bounded"]
)


@BOTH
def test_chains_become_shorter_and_nothing_else_changes(tmp_path: Path, *, bounded: bool) -> None:
    history = made(tmp_path / "work", COMMITS, bounded=bounded)
    assert depths(history) == list(range(COMMITS))[::-1]
    assert repack(history, depth=2).moves
    assert depths(history) == ([2, 1, 0, 2, 2, 1, 2, 1, 0] if bounded else [2, 1, 0] * 3)
    check(history)
    assert collect(history) > 0
    check(history)
    assert not repack(history, depth=2).packs, "a second run finds nothing to do"


@BOTH
def test_older_commits_of_an_archive_are_near_the_newest(tmp_path: Path, *, bounded: bool) -> None:
    history = made(tmp_path / "work", COMMITS, bounded=bounded)
    repack(history, for_archive=True)
    assert depths(history) == list(range(COMMITS))
    check(history)
    assert collect(history) > 0
    check(history)
    assert not repack(history, for_archive=True).packs, "a second run finds nothing to do"
    grow(history, COMMITS, bounded=bounded)
    assert depths(history)[:3] == [1, 0, 1]
    check(history)


@BOTH
def test_an_archive_is_turned_round_again(tmp_path: Path, *, bounded: bool) -> None:
    history = made(tmp_path / "work", COMMITS, bounded=bounded)
    repack(history, for_archive=True)
    collect(history)
    repack(history, depth=0)
    collect(history)
    assert depths(history) == [0] * COMMITS
    check(history)


def test_only_chosen_commits_keep_to_the_limits(tmp_path: Path) -> None:
    history = made(tmp_path / "work", COMMITS, bounded=True)
    ids = list(history.contents)
    repack(history, depth=0, chosen=ids[3:5])
    assert depths(history) == [4, 3, 2, 1, 0, 0, 2, 1, 0]
    check(history)


def test_an_older_part_is_an_archive_and_later_commits_are_near_its_newest(tmp_path: Path) -> None:
    history = made(tmp_path / "work", COMMITS, bounded=True)
    ids = list(history.contents)
    repack(history, for_archive=True, chosen=ids[:5])
    assert depths(history) == [4, 3, 2, 1, 0, 1, 2, 3, 4]
    collect(history)
    check(history)


def test_branches_tags_and_merged_histories_follow(tmp_path: Path) -> None:
    history = made(tmp_path / "work", COMMITS, bounded=True)
    with Repository.open(history.folder) as repo:
        repo.create_branch("side", "HEAD~4")
        repo.create_tag("kept", "HEAD~2")
    grow(history, 20, bounded=True, branch="side")
    for for_archive, depth in ((False, 1), (True, 64), (False, 3)):
        assert repack(history, depth, for_archive=for_archive).moves
        collect(history)
        check(history)
    with Repository.open(history.folder) as repo:
        assert repo.resolve("kept").id == repo.resolve("main~2").id


def test_head_without_a_branch_finds_its_commit(tmp_path: Path) -> None:
    history = made(tmp_path / "work", 5, bounded=True)
    with Repository.open(history.folder) as repo:
        repo._session.set_head(repo.resolve("HEAD~2").id)
    repack(history, depth=1)
    collect(history)
    check(history)


def test_what_needs_dropped_commits_is_stored_without_them(tmp_path: Path) -> None:
    history = made(tmp_path / "work", COMMITS, bounded=True)
    ids = list(history.contents)
    gone = frozenset([*ids[1:4], ids[6]])
    with Repository.open(history.folder) as repo:
        repo.set_retention(last=1, force=True)  # else a collector takes the drops back
    repack(history, dropped=list(gone), chosen=[])
    assert collect(history) > 0
    check(history, without=gone)
    with Repository.open(history.folder) as repo:
        assert [info.id for info in repo.log()] == ids[::-1]
        with pytest.raises(NotFoundError):
            content(repo, ids[2])


def test_of_an_archive_with_dropped_commits_each_is_near_the_next_that_is_kept(tmp_path: Path) -> None:
    history = made(tmp_path / "work", COMMITS, bounded=True)
    with Repository.open(history.folder) as repo:
        repo.set_retention(every=3, last=1)
        gone = frozenset(item.commit for item in repo.apply_retention().dropped if item.layer == "data")
        assert len(gone) > 3
    collect(history)
    compact(history, for_archive=True)
    collect(history)
    check(history, without=gone)
    assert depths(history) == list(range(COMMITS - len(gone)))


def test_a_commit_that_a_pin_alone_leads_to_is_stored_again(tmp_path: Path) -> None:
    history = made(tmp_path / "work", 4, bounded=False)
    with Repository.open(history.folder) as repo:
        repo.switch("other", create_from="HEAD~3")
        repo.pin("main")
        repo.delete_branch("main", force=True)
    assert len(repack(history, depth=0).moves) == 3
    collect(history)
    check(history)


@pytest.mark.parametrize("for_archive", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_run_may_stop_anywhere_and_is_ended_by_the_next(tmp_path: Path, *, for_archive: bool) -> None:
    history = made(tmp_path / "work", 5, bounded=True, rows=8)
    stopped = 0
    while True:
        with Repository.open(history.folder) as repo:
            try:
                with Disk(history.folder, allowed=stopped) as disk:
                    repacking(repo, 1, for_archive=for_archive).run()
            except Stopped:
                assert disk.refused
            else:
                break
        check(history)
        if stopped % 7 == 3:
            collect(history)
            check(history)
        stopped += 1
    assert stopped > 5
    collect(history)
    check(history)
    assert max(depths(history)) <= (4 if for_archive else 1)


def test_a_commit_meanwhile_is_stored_as_well(tmp_path: Path) -> None:
    history = made(tmp_path / "work", 5, bounded=True)
    with Repository.open(history.folder) as repo:
        work, due = repacking(repo, 1), [7]

        def rest() -> None:
            if due and work.moves:
                grow(history, due.pop(), bounded=True)

        work.rest = rest
        work.run()
    collect(history)
    check(history)
    assert depths(history) == [1, 1, 0, 1, 1, 0]


def test_a_commit_whose_parent_moved_meanwhile_lost_nothing(tmp_path: Path) -> None:
    history = made(tmp_path / "work", 5, bounded=True)
    with Repository.open(history.folder) as writer:
        refs = writer._session.refs
        create = refs.update

        def late(*arguments: object) -> object:
            refs.update = create  # type: ignore[method-assign]
            repack(history, depth=1)
            return create(*arguments)  # type: ignore[arg-type]

        refs.update = late  # type: ignore[assignment, method-assign]
        info = writer.commit(state(9), step=9, step_size=0.5)
        assert [branch.name for branch in writer.branches()] == ["main"]
        assert writer.resolve("main").id == info.id
    collect(history)
    check(history)


def test_a_process_that_goes_on_needs_what_moved_alone(tmp_path: Path) -> None:
    history = made(tmp_path / "work", 5, bounded=True)
    with Repository.open(history.folder) as writer:
        note(history, writer, writer.commit(state(7), step=7, step_size=0.5).id)
        old = {path.stem for path in (history.folder / ".mvcs/packs").rglob("*.pack")}
        repack(history, depth=0)
        note(history, writer, writer.commit(state(8), step=8, step_size=0.5).id)
        assert not packs_of(history) & old
    collect(history)
    check(history)


def test_of_two_at_once_each_leaves_a_whole_history(tmp_path: Path) -> None:
    history = made(tmp_path / "work", 6, bounded=True)
    with Repository.open(history.folder) as repo:
        work, due = repacking(repo, 2), [True]

        def rest() -> None:
            if due:
                due.clear()
                repack(history, for_archive=True)

        work.rest = rest
        work.run()
    collect(history)
    check(history)


def test_a_commit_stays_where_it_is_when_it_is_damaged(tmp_path: Path) -> None:
    history = made(tmp_path / "work", 5, bounded=True)
    damaged = packs_of(history, "HEAD~3") - packs_of(history, "HEAD~4")
    [path] = (path for path in history.folder.rglob("*.pack") if path.stem in damaged)
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
    with Repository.open(history.folder) as repo, pytest.raises(CorruptionError):
        repacking(repo, 0).run()
    assert path.stem in packs_of(history, "HEAD~3")


def test_a_branch_that_another_writer_just_begins_is_passed_over(tmp_path: Path) -> None:
    history = made(tmp_path / "work", 4, bounded=False)
    begun = tmp_path / "work/.mvcs/refs/heads/begun"
    begun.mkdir()
    assert repack(history, depth=1).moves
    assert list(begun.iterdir()) == []
    check(history)


SHARED = [("bc", "ax"), ("cd", "ay"), ("bc", "cd"), ("ab", "ab")]  # what the two tensors of each commit are


@pytest.mark.parametrize("for_archive", [False, True], ids=["shorter", "archive"])
@pytest.mark.parametrize("seed", range(4))
def test_commits_that_share_some_tensors_of_others_alone(
    tmp_path: Path, seed: int, *, for_archive: bool
) -> None:
    """What is near another tensor of such a commit is not there for those that need the rest of it alone."""
    drawn = np.random.default_rng(seed)
    start = drawn.standard_normal((24, 24)).astype(np.float32)
    names = sorted({name for row in SHARED for name in row})
    tensors = {
        name: start + np.float32(0.02 * place) * drawn.standard_normal((24, 24)).astype(np.float32)
        for place, name in enumerate(names)
    }
    history = History(tmp_path, {}, {})
    with Repository.init(tmp_path) as repo:
        for step, row in enumerate(SHARED):
            state = {str(place): tensors[name] for place, name in enumerate(row)}
            note(history, repo, repo.commit({"model": state}, step=step).id)
    compact(history, 1, for_archive=for_archive)
    check(history)
    collect(history)
    check(history)
    compact(history, 0, for_archive=not for_archive)
    check(history)
