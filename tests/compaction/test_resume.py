"""A compaction that was broken off continues behind what it verified, and what it left is nobody's harm."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.compaction import Repack
from mvcs.errors import ConflictError, CorruptionError, StorageError
from mvcs.local import compaction_lock
from mvcs.objects import record_name
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
    stopped,
)
from tests.store.faults import Disk, full_disk

COMMITS = 6
WAYS = pytest.mark.parametrize("for_archive", [False, True], ids=["shorter", "archive"])


@pytest.fixture
def history(tmp_path: Path) -> History:
    """A history of bounded commits with one chain."""
    return made(tmp_path / "work", COMMITS, bounded=True, rows=8)


def packs(history: History) -> set[str]:
    """Return the paths of all packs of value layers."""
    store = history.folder / ".mvcs"
    return {str(path.relative_to(store)) for path in store.glob("packs/*/*.pack")}


def whole_changes(history: History, copy: Path, *, for_archive: bool) -> int:
    """Return how many changes a compaction makes."""
    shutil.copytree(history.folder, copy)
    with Disk(copy) as disk:
        compact(History(copy, {}, {}), for_archive=for_archive)
    return disk.changes


def moved(history: History) -> int:
    """Return how many commits lie elsewhere than when they were written."""
    manifests = (history.folder / ".mvcs/manifests").rglob("*")
    return sum(path.is_file() and not path.name.endswith(record_name(0)) for path in manifests)


def stop_and_run_again(history: History, folder: Path, allowed: int, *, for_archive: bool) -> int:
    """Stop a copy at one change, and run it again; return how many commits were done already."""
    shutil.copytree(history.folder, folder)
    copy = History(folder, history.contents, history.told)
    assert stopped(copy, allowed, for_archive=for_archive)
    check(copy)
    before = moved(copy)
    done = compact(copy, for_archive=for_archive)
    assert done.rewritten <= COMMITS
    assert moved(copy) == before + done.rewritten, "what was verified was found done"
    collect(copy)
    check(copy)
    assert max(depths(copy)) <= (COMMITS if for_archive else 1)
    shutil.rmtree(folder)
    return before


@WAYS
def test_it_stops_at_some_change_and_continues(
    history: History, tmp_path: Path, *, for_archive: bool
) -> None:
    changes = whole_changes(history, tmp_path / "whole", for_archive=for_archive)
    found = [
        stop_and_run_again(history, tmp_path / "copy", allowed, for_archive=for_archive)
        for allowed in range(3, changes, changes // 3)
    ]
    assert found[0] == 0
    assert max(found) > 2


@pytest.mark.slow
@WAYS
def test_it_stops_at_each_change_and_continues(
    history: History, tmp_path: Path, *, for_archive: bool
) -> None:
    changes = whole_changes(history, tmp_path / "whole", for_archive=for_archive)
    found = [
        stop_and_run_again(history, tmp_path / "copy", allowed, for_archive=for_archive)
        for allowed in range(changes - 1)
    ]
    assert max(found) > 2


@WAYS
def test_it_ends_when_each_run_gets_a_part_of_the_way_only(
    history: History, tmp_path: Path, *, for_archive: bool
) -> None:
    part = whole_changes(history, tmp_path / "whole", for_archive=for_archive) // 3
    runs = 1
    while stopped(history, part, for_archive=for_archive):
        runs += 1
        assert runs < 12, "every run starts over"
    assert runs > 2
    check(history)
    collect(history)
    check(history)


@WAYS
def test_snapshots_on_the_way_take_the_room_of_some_commits_only(
    history: History, monkeypatch: pytest.MonkeyPatch, *, for_archive: bool
) -> None:
    for number in range(COMMITS, 20):
        grow(history, number, bounded=True, rows=8)
    monkeypatch.setattr(Repack, "block", 8)
    assert compact(history, for_archive=for_archive).rewritten
    collect(history)
    check(history)
    assert depths(history)[0] == (0 if for_archive else 1)


def broken_off(history: History) -> int:
    """Break a compaction off half way; return how many commits it was done with."""
    assert stopped(history, 40)
    assert 0 < moved(history) < COMMITS - 2
    return moved(history)


def test_what_was_stored_before_it_broke_off_is_not_stored_again(history: History) -> None:
    done = broken_off(history)
    grow(history, COMMITS, bounded=True, rows=8)
    collect(history)
    compact(history)
    assert done < moved(history)
    check(history)


def test_other_limits_start_over(history: History) -> None:
    broken_off(history)
    compact(history, depth=2)
    collect(history)
    check(history)
    assert max(depths(history)) == 2


def test_a_full_disk_keeps_nothing_of_the_commit_at_work(history: History, tmp_path: Path) -> None:
    refused = 0
    for allowed in range(26, 34):  # some changes are done without
        shutil.copytree(history.folder, tmp_path / "copy")
        copy = History(tmp_path / "copy", history.contents, history.told)
        with Disk(copy.folder, allowed=allowed, error=full_disk, once=True):
            try:
                compact(copy)
            except StorageError:
                refused += 1
                needed = {name for rev in copy.contents for name in packs_of(copy, rev)}
                new = packs(copy) - packs(history)
                assert {Path(path).stem for path in new} <= needed
        compact(copy)
        check(copy)
        shutil.rmtree(copy.folder)
    assert refused


def test_damage_keeps_what_was_verified(history: History) -> None:
    [name] = packs_of(history, "HEAD~2") - packs_of(history, "HEAD~3")
    [path] = history.folder.rglob(f"{name}.pack")
    data = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    with pytest.raises(CorruptionError):
        compact(history)
    assert moved(history)
    path.write_bytes(data)
    compact(history)
    check(history)


def test_two_at_once_in_one_clone(history: History) -> None:
    with (
        compaction_lock(history.folder / ".mvcs"),
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
def test_another_process_commits_meanwhile(history: History, *, for_archive: bool) -> None:
    words = [sys.executable, "-c", COMMIT, str(history.folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as writer:
        runs = 0
        while writer.poll() is None:
            compact(history, depth=runs % 3, for_archive=for_archive)
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
    compact(history, for_archive=for_archive)
    collect(history)
    check(history)
