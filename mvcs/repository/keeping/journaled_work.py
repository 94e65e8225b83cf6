"""Commits stored again under a journal, which deletes what no manifest names; and what that frees."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from mvcs.compaction import Repacked
from mvcs.errors import MvcsError
from mvcs.local import Journal, Place
from mvcs.refs import HEADS, TAGS, GoingError, Moved, RefStore
from mvcs.repository.session import Session
from mvcs.store import EXACT_FOLDER, VALUE_FOLDER, Backend, Manifests
from mvcs.upkeep import delete_packs

_T = TypeVar("_T")


class JournaledPacks:
    """Packs that one operation writes, and publishes some of them at a time.

    Closing it deletes those that are not published. At a remote they are left to `gc`.
    """

    def __init__(self, place: Place | None, refs: RefStore, manifests: Manifests, author: str) -> None:
        """Write for the store of `refs` and `manifests`; `place` is None for a remote's."""
        self._place, self._refs, self._manifests, self._author = place, refs, manifests, author
        self._begin()

    def _begin(self) -> None:
        self._journal = Journal(None if self._place is None else self._place.local)

    def announce(self, path: str) -> None:
        """Note a pack before it is there."""
        self._journal.pack(path)

    def publish(self, moves: Iterable[Moved]) -> list[Moved]:
        """Write where the data of commits lie, in this order; raises as `WriterDuties.move` does."""
        self._journal.publishes()
        done = self._refs.duties.move(self._manifests, list(moves), self._author)
        self._journal.close()
        self._begin()
        return done

    def close(self) -> None:
        """Delete what was not published; what cannot be deleted stays on record."""
        with suppress(MvcsError):
            if self._place is not None and not self._journal.published:
                delete_packs(self._place.backend, self._journal.packs)
            self._journal.close()


def without_lost(attempt: Callable[[frozenset[str]], _T]) -> _T:
    """Do something, and once more without packs that a collector deletes.

    Args:
        attempt: does it without needing some packs.

    Raises:
        GoingError: a collector deletes what was stored without what it had deleted before.
    """
    lost = frozenset[str]()
    while True:
        try:
            return attempt(lost)
        except GoingError as error:
            if error.packs <= lost:
                raise
            lost |= error.packs


def pack_bytes(backend: Backend) -> tuple[int, int]:
    """Return the bytes of all packs of a store: of values, and of exact layers."""
    return sum(backend.sizes(VALUE_FOLDER).values()), sum(backend.sizes(EXACT_FOLDER).values())


def frees(found: Repacked) -> bool:
    """Tell whether value layers need less than before."""
    return found.after < found.before


def stages(before: tuple[int, int], found: Repacked, layers: int = 0) -> dict[str, list[int]]:
    """Return what a store takes before, with what was stored again, and once `gc` was there.

    Args:
        before: as `pack_bytes`; what nothing needs is in it, and does not count as free later.
        found: what was stored again.
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
