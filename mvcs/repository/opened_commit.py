"""A commit opened for whoever asked for it, within what the session allows."""

import re
from contextlib import suppress
from dataclasses import replace

from mvcs.errors import CorruptionError, NotFoundError
from mvcs.history import Revision
from mvcs.objects import Tree
from mvcs.reports import CommitInfo
from mvcs.repository.session import Session
from mvcs.repository.sharing.remote_stores import addresses
from mvcs.restore import Reading, located_chunks, open_reading
from mvcs.retention import said_of
from mvcs.store import ObjectStore

_NAME_ENDS = re.compile(r"[@~^:]")


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
    drop = session.dropped.get(revision.id)
    if drop is not None and _are_there(store, tree):
        session.progress.note(said_of(session.place.backend, drop, left=True))


def looked_at(session: Session, reading: Reading) -> CommitInfo:
    """Return a commit as people see it, and whether data of it that were dropped can be read still."""
    info = session.info(reading.revision)
    if not info.data_dropped:
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
