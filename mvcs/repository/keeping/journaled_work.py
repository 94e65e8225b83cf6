"""Commits stored anew under a journal: what was written is removed again, unless refs began to move."""

from collections.abc import Callable, Iterable
from contextlib import suppress

from mvcs.compaction import StoredAnew, StoringAnew
from mvcs.errors import MvcsError, NotFoundError
from mvcs.local import Journal
from mvcs.store import Backend, pack_name, read_footer


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
    """Delete what was written and no ref names, but for packs that another may have written as well."""
    backend = work.store.backend
    with suppress(MvcsError):  # what cannot be deleted stays on record
        for path in _unlike_others(backend, work.paths):
            backend.delete(path)
        journal.close()


def _unlike_others(backend: Backend, paths: Iterable[str]) -> list[str]:
    """Return the packs of these, in the order of writing, that nobody else can have written.

    Packs that end no commit have random bytes. What ends a commit has none: two writers who store a history
    anew in one way write the same bytes, unless these name a pack that is only one's.
    """
    found: dict[str, str] = {}
    for path in paths:
        with suppress(NotFoundError):  # it was announced, and not written
            name = pack_name(path) or ""
            footer = read_footer(backend, name)
            named = {*footer.needed, *(commit.pack for commit in footer.commits)} - {name}
            if not footer.commits or not named.isdisjoint(found):
                found[name] = path
    return list(found.values())
