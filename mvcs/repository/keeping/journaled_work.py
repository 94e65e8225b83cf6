"""Commits stored anew under a journal: what was written is removed again, unless refs began to move."""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

from mvcs.compaction import StoredAnew, StoringAnew
from mvcs.errors import CorruptionError, MvcsError, NotFoundError
from mvcs.local import Journal, Place
from mvcs.refs import GoingError
from mvcs.store import Backend, pack_name, read_footer

Work = Callable[[Journal, frozenset[str]], StoringAnew]
"""Makes what is to be done, which tells the journal of each pack, and leans on none of some packs."""


def run_journaled(place: Place, make: Work, begin: Callable[[], None] | None = None) -> StoredAnew:
    """Store commits anew, and move the refs; anew once more without packs that a collector deletes.

    Args:
        place: the clone.
        make: makes what is to be done.
        begin: is called once before the first ref moves, also where none has to.

    Raises:
        GoingError: a collector deletes what was stored without what it had deleted before.
    """
    lost = frozenset[str]()
    while True:
        work = _Journaled(place, make, lost, begin)
        try:
            return work.run()
        except GoingError as error:
            if error.packs <= lost:
                raise
            lost |= error.packs
            begin = None if work.begun else begin


class _Journaled:
    """One attempt, with a journal of its own: it is closed, unless refs began to move and something failed.

    Another process ends it then.
    """

    def __init__(
        self, place: Place, make: Work, lost: frozenset[str], begin: Callable[[], None] | None
    ) -> None:
        self._place, self._begin = place, begin
        self._journal = Journal(place.local)
        self._work = make(self._journal, lost)
        self.begun = False

    def run(self) -> StoredAnew:
        try:
            found = self._work.run(self._begins)
            if self._begin is not None and not self.begun:
                self._begins()
        except BaseException:
            if not self.begun:
                self._withdraw()
            raise
        self._journal.close()
        return found

    def _begins(self) -> None:
        if self._begin is not None:
            self._begin()
        self.begun = True
        self._journal.moves()

    def _withdraw(self) -> None:
        """Delete what was written and no ref names, but for packs that another may have written as well."""
        backend = self._work.store.backend
        with suppress(MvcsError):  # what cannot be deleted stays on record
            for path in unlike_others(backend, self._work.unfinished):
                backend.delete(path)
            self._journal.close()


def unlike_others(backend: Backend, paths: Iterable[str]) -> list[str]:
    """Return the packs of these, in the order of writing, that nobody else can have written.

    Packs that end no commit have random bytes. What ends a commit has none: two writers who store a history
    anew in one way write the same bytes, unless these name a pack that is only one's.
    """
    found: dict[str, str] = {}
    for path in paths:
        name = pack_name(path) or ""
        with suppress(NotFoundError):  # it was announced, and not written
            if _is_unlike_others(backend, name, found):
                found[name] = path
    return list(found.values())


def _is_unlike_others(backend: Backend, name: str, found: Collection[str]) -> bool:
    try:
        footer = read_footer(backend, name)
    except CorruptionError:
        return True  # it is no good to whoever else wrote it
    named = {*footer.needed, *(commit.pack for commit in footer.commits)} - {name}
    return not footer.commits or not named.isdisjoint(found)
