"""Commits stored anew under a journal: what was written is removed again, unless refs began to move."""

from collections.abc import Callable
from contextlib import suppress

from mvcs.compaction import StoredAnew, StoringAnew
from mvcs.errors import MvcsError
from mvcs.local import Journal


def run_journaled(work: StoringAnew, journal: Journal, begin: Callable[[], None] | None = None) -> StoredAnew:
    """Store commits anew, and move the refs.

    Args:
        work: what is to be done; it tells the journal of each pack.
        journal: is closed, unless refs began to move and something failed then: another process ends it.
        begin: is called before the first ref moves, also where none has to.
    """
    begun = False

    def begins() -> None:
        nonlocal begun
        if begin is not None:
            begin()
        begun = True
        journal.moves()

    try:
        found = work.run(begins)
        if begin is not None and not begun:
            begins()
    except BaseException:
        if not begun:
            _withdraw(work, journal)
        raise
    journal.close()
    return found


def _withdraw(work: StoringAnew, journal: Journal) -> None:
    """Delete what was written: no ref names it, and nobody else's packs have its names."""
    with suppress(MvcsError):  # what cannot be deleted stays on record
        for path in work.paths:
            work.store.backend.delete(path)
        journal.close()
