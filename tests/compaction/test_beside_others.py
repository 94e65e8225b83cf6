"""A compaction that rests in between: its share, what is committed meanwhile, and what it says of itself."""

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mvcs import ConflictError, Repository, StorageError, UsageError
from mvcs.local import BackgroundCompaction
from mvcs.processes import Process
from mvcs.repository.keeping.beside_others import BesideOthers, Pace
from mvcs.repository.keeping.compacting import Compaction
from mvcs.repository.quota import NoRoomError
from mvcs.repository.restore_budget import RestoreBudget
from mvcs.store import VALUE_FOLDER
from tests.compaction.histories import (
    History,
    check,
    collect,
    depths,
    grow,
    made,
    repacking,
)
from tests.repository.states import state

COMMITS = 6


@dataclass
class Time:
    """Time that passes where somebody computes, stands idle or waits."""

    now: float = 100.0
    computed: float = 7.0

    def compute(self, seconds: float) -> None:
        self.now += seconds
        self.computed += seconds

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def pace(self, share: float, beside: Process | None = None) -> Pace:
        return Pace(share, beside, lambda: self.now, lambda: self.computed, self.wait)


def test_what_was_computed_is_rested_off() -> None:
    time = Time()
    pace = time.pace(0.01)
    for _ in range(100):
        time.compute(0.02)
        pace.rest()
    assert time.now - 100.0 == pytest.approx(200.0)


def test_much_that_is_short_is_rested_off_as_well() -> None:
    time = Time()
    pace = time.pace(0.5)
    for _ in range(10_000):
        time.compute(0.001)
        pace.rest()
    assert time.now - 100.0 == pytest.approx(20.0, abs=0.1)


def test_idle_time_is_not_saved_up() -> None:
    time = Time()
    pace = time.pace(0.1)
    time.wait(1000.0)
    pace.rest()
    time.compute(1.0)
    pace.rest()
    assert time.now - 1100.0 == pytest.approx(10.0)


def test_it_ends_with_the_process_beside_which_it_works() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    beside = Process.numbered(gone.pid)
    gone.wait()
    time = Time()
    pace = time.pace(0.1, beside)
    time.compute(1.0)
    with pytest.raises(ConflictError, match=f"process {gone.pid} ended"):
        pace.rest()
    assert Process.numbered(os.getpid()).is_gone() is False
    assert Process.numbered(gone.pid).is_gone()


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5, float("nan")])
def test_a_share_is_part_of_one(share: float) -> None:
    with pytest.raises(UsageError):
        Time().pace(share)


def test_it_does_what_any_compaction_does(tmp_path: Path) -> None:
    history = made(tmp_path / "work", COMMITS, bounded=True, rows=8)
    with Repository.open(history.folder) as repo:
        assert repo.compact(max_depth=1, share=1.0, beside=os.getpid()).rewritten
        assert BackgroundCompaction.last(repo.local_records) is None
    assert max(depths(history)) == 1
    check(history)


def test_what_is_committed_while_it_rests_is_stored_as_well(tmp_path: Path) -> None:
    history = made(tmp_path / "work", COMMITS, bounded=True, rows=8)
    left = [COMMITS + 3, COMMITS + 2, COMMITS + 1, COMMITS]

    def rest() -> None:
        if left:
            number = left.pop()
            grow(history, number, bounded=True, rows=8, branch="main" if number % 2 else f"side{number}")

    with Repository.open(history.folder) as repo:
        work = repacking(repo, 1)
        work.rest = rest
        work.run()
    assert not left
    assert max(depths(history, f"side{COMMITS}")) == 1
    assert max(depths(history)) == 1
    check(history)


def test_status_says_how_far_it_is_and_why_it_failed(tmp_path: Path) -> None:
    with Repository.init(tmp_path / "work") as repo:
        repo.commit(state(0, 8))
        BackgroundCompaction(Process.current(), 3, 40).keep(repo.local_records)
        assert repo.status().compacting == (3, 40)
        BackgroundCompaction(replace(Process.current(), started=1), 3, 40).keep(repo.local_records)
        assert repo.status().compacting is None
        BackgroundCompaction(Process.current(), failure="the disk is gone").keep(repo.local_records)
        assert repo.status().compacting is None
        assert any("the disk is gone" in line for line in repo.status().problems)
        for options in ({"share": 1.0}, {}):
            BackgroundCompaction(Process.current(), failure="the disk is gone").keep(repo.local_records)
            repo.compact(**options)
            assert not repo.status().problems


@pytest.mark.parametrize("record", [{"process": 3}, {"process": str(Process.current()), "done": -1}])
def test_a_record_of_other_things_counts_for_nothing(tmp_path: Path, record: dict[str, object]) -> None:
    with Repository.init(tmp_path) as repo:
        with repo.local_records.change("background") as found:
            found.update(record)
        assert repo.status().compacting is None


def limited(history: History, more: int) -> int:
    """Set a quota of what is there and so many bytes; return it."""
    with Repository.open(history.folder) as repo:
        limit = sum(repo._session.quota.sizes().values()) + more
        repo.config_set("store.max_bytes", f"{limit}B")
    return limit


def taken(history: History) -> int:
    with Repository.open(history.folder) as repo:
        return sum(repo._session.quota.sizes().values())


@pytest.mark.parametrize("times", [0.0, 1.0, 1.9])
def test_it_leaves_room_for_commits(tmp_path: Path, times: float) -> None:
    """As many as there were lately have to fit beside what all value packs take."""
    history = made(tmp_path / "work", COMMITS, bounded=True, rows=8)
    with Repository.open(history.folder) as repo:
        values = sum(repo._session.place.backend.sizes(VALUE_FOLDER).values())
    limited(history, int(times * values) + 1000)
    before = taken(history)
    with Repository.open(history.folder) as repo:
        with pytest.raises(StorageError, match="leaves no room"):
            repo.compact(max_depth=1, share=1.0)
        assert "leaves no room" in repo.status().problems[0]
    assert taken(history) == before
    check(history)


def test_it_gives_way_to_commits(tmp_path: Path) -> None:
    """No commit is refused that fits without it, and what it wrote does not stay in the way."""
    history = made(tmp_path / "work", COMMITS, bounded=True, rows=8)
    before = taken(history)
    limit = limited(history, 4 * before)
    time, numbers = Time(), iter(range(COMMITS, 100))
    waits: list[int] = []

    def wait(seconds: float) -> None:
        time.now += seconds
        waits.append(taken(history))
        if taken(history) > before:
            grow(history, next(numbers), bounded=True, rows=8)

    def processor() -> float:
        time.computed += 1.0
        return time.computed

    with Repository.open(history.folder) as repo:
        pace = Pace(1.0, None, lambda: time.now, processor, wait)
        others = BesideOthers(repo._session, pace)
        asked = Compaction.asked(repo._session, None, RestoreBudget(1), for_archive=False)
        with pytest.raises(NoRoomError, match="leaves no room"):
            others.run(replace(asked, beside=others).run)
    assert len(history.contents) > COMMITS
    assert max(waits) < limit - before // 2
    check(history)
    assert taken(history) < limit
    collect(history)
    check(history)


def test_one_that_asks_no_quota_says_that_it_passed_it(tmp_path: Path) -> None:
    history = made(tmp_path / "work", COMMITS, bounded=True, rows=8)
    limited(history, 100)
    with Repository.open(history.folder) as repo:
        assert "nothing is committed before" in repo.compact(max_depth=1).notes[-1]
