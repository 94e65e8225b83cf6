"""A commit opened for whoever asked for it, within what the session allows, and its whole state.

A state is read from the best layer that can be: the exact one, else the values.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from mvcs.errors import CorruptionError, NotFoundError
from mvcs.history import Revision
from mvcs.objects import Blob, Kind, Tree
from mvcs.progress import SILENT
from mvcs.reports import CommitInfo
from mvcs.repository.session import Session
from mvcs.repository.sharing.remote_stores import addresses
from mvcs.restore import Reading, build_state, located_chunks, open_best, open_reading
from mvcs.retention import said_of
from mvcs.store import UNREADABLE_ERRORS, Located, ObjectStore, pack_path

_NAME_ENDS = re.compile(r"[@~^:]")
ATTEMPTS = 3


def refuse_without_data(reading: Reading) -> None:
    """Check that what a state is made from is there: a checkout in place reads none of it.

    Raises:
        NotFoundError: it was dropped on purpose, or is lost.
    """
    for leaf in reading.tree.leaves if reading.tree.files is None else ():
        located_chunks(reading.store, leaf)


def open_for(
    session: Session, revision: Revision, *, exact: bool, rev: str = "", tell: bool = True
) -> Reading:
    """Open a commit; where exact values are not stored, the error names the stores of remotes.

    Args:
        session: the repository.
        revision: the commit.
        exact: whether its exact layer is wanted.
        rev: how it was asked for.
        tell: whether to say of dropped data that they are there still.

    Raises:
        NotFoundError: `exact` is asked for and the exact layer is not (or no longer) stored.
        CorruptionError: something on the way is damaged.
    """
    reading = open_reading(
        session.reader(),
        revision,
        session.progress,
        exact=exact,
        allowance=session.allowance,
        elsewhere=addresses(session),
        branches=asked_branches(session, rev),
    )
    if tell:
        tell_left(session, revision, reading.store, reading.tree)
    return reading


def asked_branches(session: Session, rev: str = "") -> list[str]:
    """Return the branches that a person thinks of: the one a revision begins with, and HEAD's."""
    here = None
    with suppress(CorruptionError):
        here = session.branch
    return [*filter(None, [_NAME_ENDS.split(rev, maxsplit=1)[0], here])]


def tell_left(session: Session, revision: Revision, store: ObjectStore, tree: Tree) -> None:
    """Say of a commit whose data were dropped that they can be read all the same, if so."""
    drop = session.data_drop(revision.id)
    if drop is not None and _are_there(store, tree):
        session.progress.note(said_of(session.place.backend, revision.id, drop, left=True))


def looked_at(session: Session, reading: Reading) -> CommitInfo:
    """Return a commit as people see it, and whether data of it that were dropped can be read still."""
    info = session.info(reading.revision)
    drop = session.data_drop(reading.revision.id) if info.data_dropped else None
    if drop is None or drop.is_loss:
        return info
    return replace(info, data_left=_are_there(reading.store, reading.tree))


def _are_there(store: ObjectStore, tree: Tree) -> bool:
    """Tell whether a store has all chunks of a tree, in whichever packs."""
    explains, store.catalog.explains = store.catalog.explains, lambda _: None
    try:
        for leaf in tree.leaves:
            for located in located_chunks(store, leaf):
                store.catalog.depth_of(located)
    except (CorruptionError, NotFoundError):
        return False
    finally:
        store.catalog.explains = explains
    return True


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
            packs = revision.written.exact_packs
            damaged = tuple(_damaged_packs(reading)) or tuple(pack_path(name, exact=True) for name in packs)
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
