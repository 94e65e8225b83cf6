"""A compaction that was broken off goes on behind what it verified, and what it left is nobody's harm."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.compaction.storing_anew import StoringAnew
from mvcs.errors import ConflictError, CorruptionError, StorageError
from mvcs.local import CompactionSteps
from mvcs.local.compactions import Step
from tests.compaction.histories import (
    History,
    begun,
    check,
    collect,
    compact,
    depths,
    grow,
    made,
    note,
    on_record,
    stopped,
)
from tests.store.faults import Disk, full_disk

COMMITS = 6
WAYS = pytest.mark.parametrize("hangs", [False, True], ids=["shorter", "hanging"])
DAY = 24 * 3600


@pytest.fixture
def history(tmp_path: Path) -> History:
    """A history of bounded commits with one chain."""
    return made(tmp_path / "work", COMMITS, bounded=True, rows=8)


def packs(history: History) -> set[str]:
    """Return the paths of all packs of value layers."""
    store = history.folder / ".mvcs"
    return {str(path.relative_to(store)) for path in store.glob("packs/*/*.pack")}


def whole_changes(history: History, copy: Path, *, hangs: bool) -> int:
    """Return how many changes a compaction makes."""
    shutil.copytree(history.folder, copy)
    with Disk(copy) as disk:
        compact(History(copy, {}, {}), hangs=hangs)
    return disk.changes


def stop_and_go_on(history: History, folder: Path, allowed: int, *, hangs: bool) -> int:
    """Stop a copy at one change, and go on; return how many packs were there already."""
    shutil.copytree(history.folder, folder)
    copy = History(folder, history.contents, history.told)
    assert stopped(copy, allowed, hangs=hangs)
    check(copy)
    before = packs(copy) - packs(history)
    kept = on_record(copy)
    assert kept <= before
    done = compact(copy, hangs=hangs)
    assert done.bytes <= sum((folder / ".mvcs" / name).stat().st_size for name in packs(copy) - before)
    assert kept <= packs(copy), "what was verified was taken over"
    assert not (folder / ".mvcs/local/compaction.steps").exists()
    collect(copy)
    check(copy)
    assert max(depths(copy)) <= (COMMITS if hangs else 1)
    shutil.rmtree(folder)
    return len(kept)


@WAYS
def test_it_stops_at_some_change_and_goes_on(history: History, tmp_path: Path, *, hangs: bool) -> None:
    changes = whole_changes(history, tmp_path / "whole", hangs=hangs)
    found = [
        stop_and_go_on(history, tmp_path / "copy", allowed, hangs=hangs)
        for allowed in range(3, changes, changes // 3)
    ]
    assert found[0] == 0
    assert max(found) > 3


@pytest.mark.slow
@WAYS
def test_it_stops_at_each_change_and_goes_on(history: History, tmp_path: Path, *, hangs: bool) -> None:
    changes = whole_changes(history, tmp_path / "whole", hangs=hangs)
    found = [
        stop_and_go_on(history, tmp_path / "copy", allowed, hangs=hangs) for allowed in range(changes - 1)
    ]
    assert max(found) > 3


@WAYS
def test_it_ends_when_each_run_gets_a_part_of_the_way_only(
    history: History, tmp_path: Path, *, hangs: bool
) -> None:
    part = whole_changes(history, tmp_path / "whole", hangs=hangs) // 3
    runs = 1
    while stopped(history, part, hangs=hangs):
        runs += 1
        assert runs < 12, "every run starts over"
    assert runs > 2
    check(history)
    collect(history)
    check(history)


@WAYS
def test_snapshots_on_the_way_take_the_room_of_some_commits_only(
    history: History, monkeypatch: pytest.MonkeyPatch, *, hangs: bool
) -> None:
    for number in range(COMMITS, 20):
        grow(history, number, bounded=True, rows=8)
    monkeypatch.setattr(StoringAnew, "block", 8)
    assert compact(history, hangs=hangs).ended
    collect(history)
    check(history)
    assert depths(history)[0] == (0 if hangs else 1)


def test_commits_and_collectors_leave_alone_what_is_gone_on_with(history: History) -> None:
    kept = begun(history)
    grow(history, COMMITS, bounded=True, rows=8)
    collect(history)
    assert kept <= packs(history)
    compact(history)
    check(history)


def test_after_two_weeks_a_collector_takes_it(history: History) -> None:
    kept = begun(history)
    old = time.time() - 15 * DAY
    os.utime(history.folder / ".mvcs/local/compaction.steps", (old, old))
    assert on_record(history) == set()
    for journal in (history.folder / ".mvcs/local").glob(".mvcs-*.journal"):
        journal.unlink()  # this process goes on living
    with Repository.open(history.folder) as repo:
        repo.gc(grace_days=0, wait_days=0, execute=True)
    assert not kept & packs(history)
    compact(history)
    check(history)


def test_other_limits_start_over_and_remove_what_was_left(history: History) -> None:
    kept = begun(history)
    compact(history, depth=2)
    assert not kept & packs(history)
    check(history)


def test_damaged_steps_are_made_again(history: History) -> None:
    kept = begun(history)
    name = min(kept)
    path = history.folder / ".mvcs" / name
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    compact(history)
    collect(history)
    check(history)


@pytest.mark.parametrize(
    "line",
    [b"", b"[", b"[]", b"null", b'["x","y",[],null,[],true]', b"\xff\xfe", b"[" * 100_000],
)
def test_a_record_that_says_nothing_is_none(line: bytes) -> None:
    assert Step.parse(line) is None


@WAYS
def test_a_record_that_lies_leads_nowhere(history: History, *, hangs: bool) -> None:
    """Each step names packs that are there, of another commit."""
    kept = begun(history) if not hangs else set()
    if hangs:
        assert stopped(history, 60, hangs=True)
        kept = on_record(history)
    path = history.folder / ".mvcs/local/compaction.steps"
    terms, *lines = path.read_bytes().splitlines(keepends=True)
    steps = [step for line in lines if (step := Step.parse(line)) is not None]
    assert kept
    assert len(steps) > 1
    others = [*steps[1:], steps[0]]
    lies = [
        Step(one.commit, one.was, other.wrote, other.own, other.leant_on, one.chosen)
        for one, other in zip(steps, others, strict=True)
    ]
    path.write_bytes(terms + b"".join(step.line for step in lies))
    compact(history, hangs=hangs)
    collect(history)
    check(history)


def test_a_full_disk_keeps_nothing(history: History, tmp_path: Path) -> None:
    refused = 0
    for allowed in range(36, 44):  # some changes are done without
        shutil.copytree(history.folder, tmp_path / "copy")
        copy = History(tmp_path / "copy", history.contents, history.told)
        with Disk(copy.folder, allowed=allowed, error=full_disk, once=True):
            try:
                compact(copy)
            except StorageError:
                refused += 1
                assert packs(copy) == packs(history)
                assert on_record(copy) == set()
        compact(copy)
        check(copy)
        shutil.rmtree(copy.folder)
    assert refused


def test_damage_keeps_what_was_verified(history: History) -> None:
    with Repository.open(history.folder) as repo:
        pack = repo._session.resolver.resolve("HEAD~1").written.pack
    [path] = history.folder.rglob(f"{pack}.pack")
    data = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    with pytest.raises(CorruptionError):
        compact(history)
    kept = on_record(history)
    assert kept
    path.write_bytes(data)
    compact(history)
    assert kept <= packs(history)
    check(history)


def test_two_at_once_in_one_clone(history: History) -> None:
    with (
        CompactionSteps.opened(history.folder / ".mvcs", "terms"),
        pytest.raises(ConflictError, match="is compacting this repository"),
    ):
        compact(history)
    compact(history)
    check(history)


COMMIT = """
import sys
from mvcs import Repository
from tests.repository.states import state
for number in range(10, 16):
    with Repository.open(sys.argv[1]) as repo:
        print(repo.commit(state(number, 8), step=number, step_size=0.5).id, flush=True)
"""


@pytest.mark.slow
@WAYS
def test_another_process_commits_meanwhile(history: History, *, hangs: bool) -> None:
    words = [sys.executable, "-c", COMMIT, str(history.folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as writer:
        runs = 0
        while writer.poll() is None:
            compact(history, depth=runs % 3, hangs=hangs)
            runs += 1
        assert writer.stdout is not None
        made_there = writer.stdout.read().split()
    assert writer.returncode == 0
    assert runs > 1
    assert len(made_there) == COMMITS
    with Repository.open(history.folder) as repo:
        assert [info.id for info in repo.log()][:COMMITS] == made_there[::-1]
        for identifier in made_there:
            note(history, repo, identifier)
    compact(history, hangs=hangs)
    collect(history)
    check(history)
