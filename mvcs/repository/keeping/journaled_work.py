"""Commits stored anew under a journal: what was written is removed again, unless refs began to move."""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

from mvcs.compaction import StoredAnew, StoringAnew
from mvcs.errors import ConflictError, CorruptionError, MvcsError, NotFoundError
from mvcs.local import CompactionSteps, Journal, Place
from mvcs.refs import HEADS, TAGS, GoingError
from mvcs.repository.session import Session
from mvcs.store import EXACT_FOLDER, VALUE_FOLDER, Backend, pack_name, pack_path, read_footer
from mvcs.upkeep import held, remove_packs

Work = Callable[[Journal, frozenset[str]], StoringAnew]
"""Makes what is to be done, which tells the journal of each pack, and depends on none of some packs."""
_NO_TERMS = ""


def pack_bytes(backend: Backend) -> tuple[int, int]:
    """Return the bytes of all packs of a store: of values, and of exact layers."""
    return sum(backend.sizes(VALUE_FOLDER).values()), sum(backend.sizes(EXACT_FOLDER).values())


def frees(found: StoredAnew) -> bool:
    """Tell whether value layers need less than before."""
    return found.after < found.before


def stages(before: tuple[int, int], found: StoredAnew, layers: int = 0) -> dict[str, list[int]]:
    """Return what a store takes before, with what was stored anew, and once `gc` was there.

    Args:
        before: as `pack_bytes`; what nothing needs is in it, and does not count as free later.
        found: what was stored anew.
        layers: bytes of exact layers that go at once.
    """
    values, exact = before
    return {
        "values": [values, values + found.bytes, values + found.after - found.before],
        "exact layers": [exact, exact - layers, exact - layers],
    }


def is_sole_writer(session: Session) -> bool:
    """Tell whether nothing says that others write to the store.

    It lies in this clone, none but its owner may write there, and no branch or tag came by a push.
    """
    local = session.place.local
    if session.place.is_shared or local is None or local.stat().st_mode & 0o022:
        return False
    records = (record for kind in (HEADS, TAGS) for record in session.refs.survey(kind).whole.values())
    return not any(record.action.startswith("push: ") for record in records)


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


def remove_unfinished(place: Place, packs: Iterable[str]) -> None:
    """Remove packs that no ref needs, and nobody else can have written; 'mvcs gc' finds what is left."""
    with suppress(MvcsError):
        remove_packs(place.backend, unlike_others(place.backend, map(pack_path, packs)), held(place))


def give_up_broken_off(place: Place) -> None:
    """Remove what a compaction left that was broken off; the next one starts over.

    Where one is at work, it sees for itself that there is room.
    """
    if place.local is None:
        return
    with suppress(ConflictError), CompactionSteps.opened(place.local, _NO_TERMS) as steps:
        remove_unfinished(place, steps.abandoned)
        steps.forget()
