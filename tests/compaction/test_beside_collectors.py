"""Histories that are stored again beside collectors: what they need is released, or stored once more."""

from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.refs import GoingError, Moved, now_microseconds
from mvcs.store import CONDEMNED_PACKS, Backend, CondemnedLog, Placement, Standing, upgrade, value_packs
from tests.compaction.histories import History, check, collect, made, packs_of, repacking


def log_of(backend: Backend) -> CondemnedLog:
    """Return the log of a store."""
    log = CondemnedLog(backend, now_microseconds)
    log.look()
    return log


def say(backend: Backend, packs: set[str], *standings: Standing) -> None:
    """Condemn packs, or delete them, as another collector does."""
    upgrade(backend, CONDEMNED_PACKS, 0, "Bob")
    for standing in standings:
        log_of(backend).say(standing, packs, "Bob")


def test_what_a_history_needs_now_is_released(tmp_path: Path) -> None:
    """A collector condemns what was written before it was published."""
    history = made(tmp_path / "work", 6, bounded=True)
    with Repository.open(history.folder) as repo:
        backend, work = repo._session.place.backend, repacking(repo, 1)
        publish, old = work._publish, value_packs(backend)
        assert publish is not None

        def condemned(move: Moved) -> Placement:
            say(backend, {*move.now.own} - old, Standing.CONDEMNED)
            return publish(move)

        work._publish = condemned
        assert work.run().packs
        assert not log_of(backend).of(Standing.CONDEMNED)
    collect(history)
    check(history)


def test_what_a_collector_deletes_is_not_needed_afterwards(tmp_path: Path) -> None:
    """It is stored once more, though it might have stayed as it is."""
    history = made(tmp_path / "work", 6, bounded=True, rows=8)
    going = packs_of(history, "HEAD~1") - packs_of(history, "HEAD~2")
    with Repository.open(history.folder) as repo:
        say(repo._session.place.backend, going, Standing.CONDEMNED, Standing.GOING)
        assert repo.compact(max_depth=1).rewritten
    assert not any(going & packs_of(history, rev) for rev in history.contents)
    collect(history)
    check(history)


class Deleting:
    """Deletes the first pack that was written."""

    def __init__(self, history: History) -> None:
        """Know the store."""
        self.folder = history.folder / ".mvcs" / "packs"
        self.before, self.lost = set(self.folder.rglob("*.pack")), ""

    def rest(self) -> None:
        """An entry was stored, or a pack was written."""
        for path in set(self.folder.rglob("*.pack")) - self.before if not self.lost else ():
            self.lost = path.stem
            path.unlink()


def test_what_a_collector_deleted_before_it_was_proven_is_said(tmp_path: Path) -> None:
    """It is a matter of collectors, and not of damage: the next attempt goes without it."""
    history = made(tmp_path / "work", 6, bounded=True, rows=8)
    beside = Deleting(history)
    with Repository.open(history.folder) as repo:
        work = repacking(repo, 1)
        work.rest = beside.rest
        with pytest.raises(GoingError):
            work.run()
        assert repo.compact(max_depth=1).rewritten
    assert beside.lost
    check(history)
