"""What a checkout in place will read: it looks at the folder alike, and reads no chunk of what comes."""

from contextlib import ExitStack
from dataclasses import dataclass, replace

from mvcs.history import Revision
from mvcs.progress import SILENT
from mvcs.repository.session import Session
from mvcs.repository.worktree.checkout import commit_before, detached_at, is_named
from mvcs.repository.worktree.file_index import Index
from mvcs.repository.worktree.working_files import WorkingFiles
from mvcs.restore import (
    PlannedReads,
    Reading,
    is_lossy,
    open_reading,
    planned,
    reads_of_files,
    refuse_unfit_tree,
)
from mvcs.store import RestoreCost, UnreadStore


@dataclass
class PlanningSession(Session):
    """An open repository whose views of the store are not read."""

    def reader(self) -> UnreadStore:
        """Return a view of the store for one reading that is planned."""
        return UnreadStore(self.place.backend, self.place.memory)


@dataclass(frozen=True)
class InPlace:
    """What a checkout in place will do and read.

    Attributes:
        reading: the commit.
        reads: what is read of it.
        written: files that come.
        unchanged: files that are right already.
        cost: of what comes, and of what goes and is looked through.
        checked_bytes: bytes that are read of the second.
    """

    reading: Reading
    reads: PlannedReads
    written: tuple[str, ...]
    unchanged: tuple[str, ...]
    cost: RestoreCost
    checked_bytes: int


def plan_in_place(session: PlanningSession, revision: Revision, *, exact: bool, force: bool) -> InPlace:
    """Look at the folder as a checkout does, and go through what it will read.

    Args:
        session: one whose backend counts what is read.
        revision: the commit.
        exact: whether its exact layer is wanted.
        force: whether what is stored nowhere may be lost.

    Raises:
        NotFoundError: the exact layer is asked for and not stored.
    """
    top, store = session.require_top(), session.reader()
    reading = open_reading(store, revision, SILENT, exact=exact)
    refuse_unfit_tree(reading.tree)
    left, index = detached_at(session), Index.of(session)
    places, index.places = index.places, {}
    found = WorkingFiles(top, index, commit_before(session, forced=force), places)
    with store.in_full():  # files are compared with what is stored, as far as their stamps do not tell
        stale, unchanged = found.stale(reading), found.unchanged(reading, trusting=not force)
    entries = reading.tree.files or ()
    written = [entry.path for entry in entries if entry.path not in set(unchanged)]
    checked = RestoreCost() if force else _looked_through(found, [*written, *stale], reading)
    reads = reads_of_files(reading.tree, [entry for entry in entries if entry.path in set(written)])
    cost = planned(store, reading, reads)
    if left is not None and left.id != revision.id:
        is_named(session, left)
    return InPlace(reading, reads, tuple(written), tuple(unchanged), cost + checked, checked.stored_bytes)


def _looked_through(found: WorkingFiles, paths: list[str], after: Reading) -> RestoreCost:
    """Go through what is read of HEAD to see that what goes is stored."""
    before, total = found.before, RestoreCost()
    stores = [view.store for view in (before, after) if view is not None]
    with ExitStack() as both:
        for store in stores:
            if isinstance(store, UnreadStore):
                both.enter_context(store.in_full())
        known = [item for path in paths if (item := found.looked_through(path, after)) is not None]
    if before is None or not isinstance(before.store, UnreadStore):
        return total
    packs = before.revision.written.exact_packs
    for entry, exact in known:
        if exact and is_lossy(entry, before.tree):
            before.store.catalog.attach_all(packs, exact=True)
            before.store.lean_on(before.tree, packs)
        reads = reads_of_files(before.tree, [entry])
        total += planned(before.store, replace(before, exact=exact), reads)
    return total
