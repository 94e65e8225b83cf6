"""A whole state from the best layer that can be read: the exact one, else the values."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mvcs.errors import CorruptionError, NotFoundError
from mvcs.history import Revision
from mvcs.objects import Blob, Kind
from mvcs.progress import SILENT
from mvcs.repository.session import Session
from mvcs.restore import Reading, build_state, open_best, open_reading
from mvcs.store import UNREADABLE_ERRORS, Located, pack_path

ATTEMPTS = 3


@dataclass(frozen=True)
class WholeState:
    """A state that was read.

    Attributes:
        state: the nested state.
        reading: what it was read from.
        damaged: packs of the exact layer that kept it from being read from there.
    """

    state: Any
    reading: Reading
    damaged: tuple[str, ...] = ()


def read_state(session: Session, revision: Revision, *, prefer_exact: bool, numpy: bool) -> WholeState:
    """Read the exact layer where all of it is stored and whole, if that is preferred; else the values.

    Raises:
        CorruptionError: the values are damaged.
        NotFoundError: something of them is missing.
    """
    damaged: tuple[str, ...] = ()
    for attempt in reversed(range(ATTEMPTS)):
        opened = open_best if prefer_exact and not damaged else open_reading
        reading = opened(session.reader(), revision, session.progress, allowance=session.allowance)
        try:
            return WholeState(build_state(reading, numpy=numpy, pattern=None), reading, damaged)
        except NotFoundError:
            # Commits made meanwhile may have dropped the exact layer that is being read.
            if not attempt:
                raise
        except CorruptionError:
            if not attempt or not reading.exact:
                raise
            damaged = tuple(_damaged_packs(reading)) or _exact_packs(revision)
    raise AssertionError("the last attempt returns or raises")


def is_whole(session: Session, revision: Revision) -> bool:
    """Tell whether the values of a commit can be restored: their entries are there, and match checksums."""
    try:
        reading = open_reading(session.reader(), revision, SILENT)
        store = reading.store
        chunks = {chunk for leaf in reading.tree.leaves for chunk in leaf.value_chunks()}
        for identifier, _ in reading.tree.blobs():
            chunks.update(Blob.decode(store.read(Kind.BLOB, identifier)).chunks)
        chains = (store.catalog.chain_of(store.catalog.locate(chunk)) for chunk in chunks)
        return all(store.verification.entries(chain.links) for chain in chains)
    except UNREADABLE_ERRORS:
        return False


def _damaged_packs(reading: Reading) -> Iterator[str]:
    """Look at all packs of an exact layer and yield those that are damaged."""
    catalog, verification = reading.store.catalog, reading.store.verification
    for name in reading.revision.written.exact_packs:
        try:
            entries = catalog.look(name, exact=True).entries
            whole = verification.entries(Located(name, True, placed, 0) for placed in entries)
        except UNREADABLE_ERRORS:
            whole = False
        if not whole:
            yield pack_path(name, exact=True)


def _exact_packs(revision: Revision) -> tuple[str, ...]:
    return tuple(pack_path(name, exact=True) for name in revision.written.exact_packs)
