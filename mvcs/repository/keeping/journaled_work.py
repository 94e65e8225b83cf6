"""Commits stored anew under a journal: what was written is removed again, unless refs began to move."""

from collections.abc import Callable, Collection
from contextlib import suppress

from mvcs.compaction import StoredAnew, StoringAnew
from mvcs.errors import MvcsError
from mvcs.local import Journal
from mvcs.store import Backend, pack_path


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
            _remove(work.store.backend, work.packs)
            journal.close()
        raise
    journal.close()
    return found


def _remove(backend: Backend, packs: Collection[str]) -> None:
    with suppress(MvcsError):
        for name in packs:
            backend.delete(pack_path(name))
