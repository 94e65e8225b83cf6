"""What retention and compaction would give back, found out by doing them where nothing is kept."""

from collections.abc import Callable
from dataclasses import replace

from mvcs.errors import MvcsError
from mvcs.reports import StoreStats
from mvcs.repository.keeping.compacting import Compaction
from mvcs.repository.keeping.letting_go import LettingGo
from mvcs.repository.keeping.retained import Retained
from mvcs.repository.restore_budget import RestoreBudget
from mvcs.repository.session import Session


def with_trial_runs(found: StoreStats, session: Session) -> StoreStats:
    """Return figures of a store with what retention and compaction would give back.

    Each is as if it were the only one, under today's rules and limits. What cannot be tried is noted.
    """
    notes = list[str]()

    def tried(what: str, trial: Callable[[], int]) -> int | None:
        try:
            return trial()
        except MvcsError as error:
            notes.append(f"what {what} would give back is not known: {error.message}")
            return None

    retention = tried("'mvcs retention apply'", lambda: _retention(session))
    compact = tried("'mvcs compact'", lambda: _compact(session))
    freeable = replace(found.freeable, retention=retention, compact=compact)
    return replace(found, freeable=freeable, notes=[*found.notes, *notes])


def _retention(session: Session) -> int:
    return LettingGo.begin(Retained.of(session, None), force=False).rehearse().bytes


def _compact(session: Session) -> int:
    done = Compaction.asked(session, None, RestoreBudget(), for_archive=False).rehearse()
    return done.before - done.after
