"""Histories stored anew: what they restore stays, what they lean on moves, refs follow."""

from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.objects import ObjectId
from mvcs.retention import DataDrop, Keeps, Layer, Rule, record_drops, set_rules
from mvcs.store import MOVED_BASES, has_upgrade, read_footer
from tests.compaction.histories import (
    History,
    anew,
    check,
    collect,
    compact,
    depths,
    grow,
    made,
    note,
    storing,
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
    found = anew(history, depth=2)
    assert found.moved == ("main",)
    assert depths(history) == ([2, 1, 0, 2, 2, 1, 2, 1, 0] if bounded else [2, 1, 0] * 3)
    check(history)
    assert collect(history) > 0
    check(history)
    assert not anew(history, depth=2).packs, "a second run finds nothing to do"


@BOTH
def test_older_commits_hang_from_the_newest(tmp_path: Path, *, bounded: bool) -> None:
    history = made(tmp_path / "work", COMMITS, bounded=bounded)
    anew(history, hangs=True)
    assert depths(history) == list(range(COMMITS))
    check(history)
    assert collect(history) > 0
    check(history)
    assert not anew(history, hangs=True).packs, "a second run finds nothing to do"
    grow(history, COMMITS, bounded=bounded)
    assert depths(history)[:3] == [1, 0, 1]
    check(history)


@BOTH
def test_a_history_that_hangs_is_turned_round_again(tmp_path: Path, *, bounded: bool) -> None:
    history = made(tmp_path / "work", COMMITS, bounded=bounded)
    anew(history, hangs=True)
    collect(history)
    anew(history, depth=0)
    collect(history)
    assert depths(history) == [0] * COMMITS
    check(history)


def test_only_chosen_commits_keep_to_the_limits(tmp_path: Path) -> None:
    history = made(tmp_path / "work", COMMITS, bounded=True)
    ids = list(history.contents)
    anew(history, depth=0, chosen=ids[3:5])
    assert depths(history) == [4, 3, 2, 1, 0, 0, 2, 1, 0]
    check(history)


def test_an_older_part_hangs_and_later_commits_go_on_behind_it(tmp_path: Path) -> None:
    history = made(tmp_path / "work", COMMITS, bounded=True)
    ids = list(history.contents)
    anew(history, hangs=True, chosen=ids[:5])
    assert depths(history) == [4, 3, 2, 1, 0, 1, 2, 3, 4]
    collect(history)
    check(history)


def test_branches_tags_and_merged_histories_follow(tmp_path: Path) -> None:
    history = made(tmp_path / "work", COMMITS, bounded=True)
    with Repository.open(history.folder) as repo:
        repo.create_branch("side", "HEAD~4")
        repo.create_tag("kept", "HEAD~2")
    grow(history, 20, bounded=True, branch="side")
    for hangs, depth in ((False, 1), (True, 64), (False, 3)):
        assert set(anew(history, depth, hangs=hangs).moved) == {"main", "side", "kept"}
        collect(history)
        check(history)
    with Repository.open(history.folder) as repo:
        assert repo.resolve("kept").id == repo.resolve("main~2").id


def test_head_without_a_branch_finds_its_commit(tmp_path: Path) -> None:
    history = made(tmp_path / "work", 5, bounded=True)
    with Repository.open(history.folder) as repo:
        repo._session.set_head(repo.resolve("HEAD~2").id)
    anew(history, depth=1)
    collect(history)
    check(history)


def test_what_leans_on_commits_that_go_is_stored_without_them(tmp_path: Path) -> None:
    history = made(tmp_path / "work", COMMITS, bounded=True)
    ids = list(history.contents)
    gone = frozenset([*ids[1:4], ids[6]])
    anew(history, without=list(gone), chosen=[])
    with Repository.open(history.folder) as repo:
        backend = repo._session.place.backend
        record_drops(backend, [DataDrop(ObjectId(bytes.fromhex(commit)), 0) for commit in gone], "")
        set_rules(backend, Layer.DATA, (Rule(Layer.DATA, Keeps.LAST, (1,)),), 0, "")
    assert collect(history) > 0
    check(history, without=gone)
    with Repository.open(history.folder) as repo:
        assert [info.id for info in repo.log()] == ids[::-1]
        with pytest.raises(NotFoundError):
            content(repo, ids[2])


def test_the_upgrade_comes_first(tmp_path: Path) -> None:
    history = made(tmp_path / "work", 4, bounded=True)
    with Repository.open(history.folder) as repo:
        backend = repo._session.place.backend
        assert not has_upgrade(backend, MOVED_BASES)
        with Disk(history.folder, allowed=1), pytest.raises(Stopped):
            storing(repo, 1).run(lambda: None)
    anew(history, depth=1)
    with Repository.open(history.folder) as repo:
        assert has_upgrade(repo._session.place.backend, MOVED_BASES)


@pytest.mark.parametrize("hangs", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_run_may_stop_anywhere_and_is_ended_by_the_next(tmp_path: Path, *, hangs: bool) -> None:
    history = made(tmp_path / "work", 5, bounded=True, rows=8)
    stopped = 0
    while True:
        with Repository.open(history.folder) as repo:
            try:
                with Disk(history.folder, allowed=stopped) as disk:
                    storing(repo, 1, hangs=hangs).run(lambda: None)
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
    assert max(depths(history)) <= (4 if hangs else 1)


def test_a_commit_meanwhile_is_followed(tmp_path: Path) -> None:
    history = made(tmp_path / "work", 5, bounded=True)

    def commit() -> None:
        grow(history, 7, bounded=True)

    with Repository.open(history.folder) as repo:
        found = storing(repo, 1).run(commit)
    assert found.moved == ("main",)
    collect(history)
    check(history)
    assert depths(history) == [1, 1, 0, 1, 1, 0]


def test_a_commit_that_meets_a_moved_branch_lost_nothing(tmp_path: Path) -> None:
    history = made(tmp_path / "work", 5, bounded=True)
    with Repository.open(history.folder) as writer:
        refs = writer._session.refs
        create = refs.update

        def late(*arguments: object) -> object:
            refs.update = create  # type: ignore[method-assign]
            anew(history, depth=1)
            return create(*arguments)  # type: ignore[arg-type]

        refs.update = late  # type: ignore[assignment, method-assign]
        info = writer.commit(state(9), step=9, step_size=0.5)
        assert [branch.name for branch in writer.branches()] == ["main"]
        assert writer.resolve("main").id == info.id
    collect(history)
    check(history)


def test_a_process_that_goes_on_leans_on_what_moved(tmp_path: Path) -> None:
    history = made(tmp_path / "work", 5, bounded=True)
    with Repository.open(history.folder) as writer:
        note(history, writer, writer.commit(state(7), step=7, step_size=0.5).id)
        old = {path.name for path in (history.folder / ".mvcs/packs").rglob("*.pack")}
        anew(history, depth=0)
        made_here = writer.commit(state(8), step=8, step_size=0.5)
        note(history, writer, made_here.id)
        pack = writer._session.graph.load(ObjectId(bytes.fromhex(made_here.id)), None).written.pack
        needed = read_footer(writer._session.place.backend, pack).needed
        assert needed
        assert not {f"{name}.pack" for name in needed} & old
    collect(history)
    check(history)


def test_of_two_at_once_each_leaves_a_whole_history(tmp_path: Path) -> None:
    history = made(tmp_path / "work", 6, bounded=True)
    with Repository.open(history.folder) as repo:
        found = storing(repo, 2).run(lambda: _done(anew(history, hangs=True)))
    assert not found.moved, "the other one was first"
    collect(history)
    check(history)


def test_damage_moves_no_ref(tmp_path: Path) -> None:
    history = made(tmp_path / "work", 5, bounded=True)
    with Repository.open(history.folder) as repo:
        pack = repo._session.resolver.resolve("HEAD~3").written.pack
        [path] = history.folder.rglob(f"{pack}.pack")
        data = bytearray(path.read_bytes())
        data[200] ^= 1
        path.chmod(0o644)
        path.write_bytes(data)
        before = repo._session.refs.newest_number("heads", "main")
        with pytest.raises(CorruptionError):
            storing(repo, 0).run(lambda: None)
        assert repo._session.refs.newest_number("heads", "main") == before


def _done(_: object) -> None:
    """Forget an answer."""


def test_a_branch_that_another_writer_just_begins_is_passed_over(tmp_path: Path) -> None:
    history = made(tmp_path / "work", 4, bounded=False)
    begun = tmp_path / "work/.mvcs/refs/heads/begun"
    begun.mkdir()
    assert anew(history, depth=1).moved == ("main",)
    assert list(begun.iterdir()) == []
    check(history)


SHARED = [("bc", "ax"), ("cd", "ay"), ("bc", "cd"), ("ab", "ab")]  # what the two tensors of each commit are


@pytest.mark.parametrize("hangs", [False, True], ids=["shorter", "hanging"])
@pytest.mark.parametrize("seed", range(4))
def test_commits_that_share_some_tensors_of_others_alone(tmp_path: Path, seed: int, *, hangs: bool) -> None:
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
    compact(history, 1, hangs=hangs)
    check(history)
    collect(history)
    check(history)
    compact(history, 0, hangs=not hangs)
    check(history)
