"""Files of a commit brought into the folder, with HEAD or alone: planned, checked and written."""

import pathlib
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from mvcs.checkpoint import Stamp, file_kind
from mvcs.errors import ConflictError, CorruptionError, StorageError, UsageError
from mvcs.history import Revision
from mvcs.local import Exports, Journal
from mvcs.local_files import real_path
from mvcs.objects import ObjectId, short_id
from mvcs.progress import SILENT
from mvcs.refs import HEADS, REMOTES, TAGS
from mvcs.reports import CheckoutReport
from mvcs.repository.lineage_record import LineageRecord
from mvcs.repository.opened_commit import looked_at, open_for, refuse_without_data
from mvcs.repository.session import Session
from mvcs.repository.worktree.file_index import Index
from mvcs.repository.worktree.whereabouts import InterruptedMove, damage, end_move, head_to_leave, last_known
from mvcs.repository.worktree.working_files import Obstacles, WorkingFiles, is_no_folder
from mvcs.restore import (
    LEFT_STORED_NOTE,
    ExportTarget,
    PlannedReads,
    Reading,
    is_lossy,
    open_reading,
    planned,
    reads_of_files,
    refuse_unfit_tree,
    remove_file,
    write_files,
)
from mvcs.store import UNREADABLE_ERRORS, RestoreCost, UnreadStore
from mvcs.upkeep import remove_leftovers


def move_to(
    session: Session,
    revision: Revision,
    branch: str | None,
    *,
    exact: bool,
    force: bool,
    agreed: Callable[[], None] | None = None,
    needs_data: bool = False,
) -> CheckoutReport:
    """Restore a commit's files in place; HEAD goes to `branch`, or stands on the commit alone.

    Args:
        session: the repository.
        revision: the commit.
        branch: where HEAD goes.
        exact: whether its exact layer is wanted.
        force: whether what is stored nowhere may be lost.
        needs_data: whether a state is refused of which something is nowhere; a run may go on behind it.
        agreed: is called when nothing stands in the way any more, before a file changes.

    Raises:
        ConflictError: something that is stored nowhere would be lost.
        NotFoundError: data are needed, and were dropped or are lost.
        UsageError: paths of the commit are unfit for some system.
        CorruptionError: one would act on whoever restores it.
    """
    top = session.require_top()
    remove_leftovers(session.place)
    reading = open_for(session, revision, exact=exact)
    refuse_unfit_tree(reading.tree)
    if needs_data:
        refuse_without_data(reading)
    left = detached_at(session)
    index = Index.of(session)
    # Files are restored inside the folder, also those that were committed from elsewhere.
    places, index.places = index.places, {}
    found = _found(session, top, index, places, forced=force)
    stale = found.stale(reading)
    changed, unchanged = _bring(session, found, reading, stale, force=force, agreed=agreed)
    for path in found.stored(reading):
        session.progress.note(f"'{path}' {LEFT_STORED_NOTE}")
    arrived = {*changed, *unchanged}
    index.keep_lossy_beside(arrived)
    index.places = {name: place for name, place in places.items() if name not in arrived}
    index.save(session.place.local or top)
    session.set_head(f"ref: {branch}" if branch else revision.id.hex())
    end_move(session)
    _tell_left(session, left, revision)
    info, parts = looked_at(session, reading), reading.tree.parts
    return CheckoutReport(info, changed, stale, reading.layer, branch, unchanged, parts=parts)


def place_files(session: Session, reading: Reading, *, force: bool) -> tuple[list[str], list[str]]:
    """Write the files of a reading, each where it lies; HEAD and all other files stay.

    Args:
        session: the repository.
        reading: files of a commit.
        force: whether what is stored nowhere may be lost.

    Returns:
        Which files were written, and which already were as the commit restores them.

    Raises:
        ConflictError: something that is stored nowhere would be lost.
    """
    refuse_unfit_tree(reading.tree)
    top, index = session.require_top(), Index.of(session)
    chosen = [entry.path for entry in reading.tree.files or ()]
    places = {path: index.places.pop(path) for path in chosen if path in index.places}
    found = _found(session, top, index, places, forced=force)
    placed = _bring(session, found, reading, [], force=force)
    index.save(session.place.local or top)
    return placed


def _found(
    session: Session, top: pathlib.Path, index: Index, places: Collection[str], *, forced: bool
) -> WorkingFiles:
    """Return what lies in the folder, for a command that changes it."""

    def named(commit: str) -> Reading | None:
        return _named_reading(session, commit)

    return WorkingFiles(top, index, commit_before(session, forced=forced), places, named)


def _bring(
    session: Session,
    found: WorkingFiles,
    reading: Reading,
    stale: Sequence[str],
    *,
    force: bool,
    agreed: Callable[[], None] | None = None,
) -> tuple[list[str], list[str]]:
    """Write the files of a reading, remove those that are stale, and take both down in the index.

    Returns:
        Which files were written, and which already were as the commit restores them.
    """
    top, index, commit = found.top, found.index, reading.revision.id.hex()
    paths = [entry.path for entry in reading.tree.files or ()]
    stamps = index.look(top, paths)
    unchanged = found.unchanged(reading, trusting=not force)
    changed = [path for path in paths if path not in set(unchanged)]
    obstacles = Obstacles.of(top, changed, stale, force=force)
    before = index.stamps(top, [*changed, *stale])
    if not force:
        found.refuse_to_lose([path for path in before if path not in obstacles.folders], reading)

    def ready() -> None:
        _refuse_edited(before, before if force else index.stamps(top, [*changed, *stale]))
        if agreed is not None:
            agreed()

    lossy, written = _write(session, index, reading, changed, ready, obstacles.clear)
    _remove(top, [path for path in stale if path not in obstacles.files])
    index.forget([*paths, *stale])
    index.mark_lossy(lossy, commit, reading.layer)
    index.bring(written | {path: stamps[path] for path in unchanged if path in stamps})
    index.remember(commit, reading.layer, lossy)
    return changed, unchanged


def _tell_left(session: Session, left: Revision | None, revision: Revision) -> None:
    """Say how a commit is found again that HEAD stood on and that nothing names."""
    if left is not None and left.id != revision.id and not is_named(session, left):
        session.progress.note(
            f"no branch or tag leads to {short_id(left.id)}, where HEAD was; "
            f"'mvcs branch NAME {short_id(left.id)}' keeps it in sight"
        )


def detached_at(session: Session) -> Revision | None:
    """Return the commit HEAD stands on without a whole branch; None also when HEAD is damaged."""
    try:
        branch = session.branch
        if branch is None:
            return session.head()
        return last_known(session, branch) if damage(session, branch) else None
    except UNREADABLE_ERRORS:
        return None


def is_named(session: Session, revision: Revision) -> bool:
    """Tell whether a branch or tag, here or as seen elsewhere, leads to a commit."""
    surveys = [session.refs.survey(kind) for kind in (HEADS, TAGS, REMOTES)]
    records = [record for survey in surveys for record in survey.whole.values()]
    try:
        walk = session.graph.walk(session.graph.tips(records))
        return any(found.id == revision.id for found in walk)
    except UNREADABLE_ERRORS:
        return True  # what is damaged is reported by what needs it


def _named_reading(session: Session, commit: str) -> Reading | None:
    """Open a commit by its hexadecimal id; None where no branch or tag leads to it, or it cannot be read."""
    try:
        revision = session.graph.load(ObjectId(bytes.fromhex(commit)))
        if not is_named(session, revision):
            return None
        return open_reading(session.reader(), revision, session.progress)
    except (ValueError, *UNREADABLE_ERRORS):
        return None


def commit_before(session: Session, *, forced: bool) -> Reading | None:
    """Open the commit whose files lie in the folder: HEAD's, or the one before a pull that was stopped."""
    head = head_to_leave(session, forced=forced)
    try:
        stopped = InterruptedMove.of(session, head)
        if stopped is not None:
            head = session.graph.load(stopped.before) if stopped.before else None
        return None if head is None else open_reading(session.reader(), head, session.progress)
    except UNREADABLE_ERRORS as error:
        if forced:
            return None
        if not isinstance(error, CorruptionError):
            raise
        raise CorruptionError(
            f"which files HEAD has cannot be read, so nobody can tell what changed here: {error.message}",
            hint="'mvcs repair' mends that or says what is lost; with --force the files here are overwritten",
        ) from error


def _refuse_edited(before: dict[str, Stamp], now: dict[str, Stamp]) -> None:
    edited = next((path for path in {**before, **now} if before.get(path) != now.get(path)), None)
    if edited is not None:
        raise ConflictError(f"'{edited}' changed while the commit was restored", hint="try again")


def _write(
    session: Session,
    index: Index,
    reading: Reading,
    paths: list[str],
    ready: Callable[[], None],
    clear: Callable[[], None],
) -> tuple[list[str], dict[str, Stamp]]:
    """Write files of a commit; return those of its files that lost something, and stamps of those written."""
    lossy = [
        entry.path for entry in reading.tree.files or () if reading.lossy and is_lossy(entry, reading.tree)
    ]

    def mark(_: object) -> None:
        ready()
        if lossy:
            LineageRecord(session).give(reading.revision.id)
            index.mark_lossy(lossy, reading.revision.id.hex(), reading.layer)
            index.save(session.place.local or session.require_top())
        clear()

    with closing(Journal(session.place.local)) as journal:
        return lossy, write_files(reading, session.require_top(), journal.file, set(paths), mark)


def _remove(top: pathlib.Path, paths: Sequence[str]) -> None:
    for path in paths:
        try:
            remove_file(top, path)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise StorageError(f"cannot remove '{path}': {reason}", hint="run the command again") from error


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


def refuse_export(session: Session, reading: Reading, target: ExportTarget) -> None:
    """Refuse to write over files whose content is stored nowhere.

    Raises:
        ConflictError: the target, or a file in it, is there, and neither a commit nor an export made it;
            or it is a link that leads nowhere.
    """
    exports = Exports(session.place.local)
    targets = target.files(reading)
    lost = next((path for path in targets if path.is_symlink() and not path.exists()), None)
    if lost is not None:
        raise ConflictError(
            f"'{lost}' is a link that leads nowhere",
            hint="choose another name, or put a file in its place with --force",
        )
    there = [path for path in targets if path.is_file() and not exports.is_own(path)]
    if not there:
        return
    committed, found = _committed_places(session)
    for path in there:
        name = committed.get(real_path(path))
        if name is None or found is None:
            raise ConflictError(
                f"'{path}' is there already, and no commit here has it",
                hint="choose another name, or overwrite it with --force",
            )
        found.refuse_to_lose_file(path, name, str(path))


def refuse_odd(reading: Reading, target: ExportTarget) -> None:
    """Refuse to put a file in the place of what is no file, whatever is forced.

    Raises:
        UsageError: the target, or something in it, is a pipe, a socket or a device, or a link to one.
        ConflictError: in the target folder lies a folder where a file comes, or a file where a folder does.
    """
    for path in target.files(reading):
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise UsageError(f"'{path}' is {file_kind(path.stat())}, not a file", hint="choose another name")
        if path != target.path:
            _refuse_obstacle(path, target.path)


def _refuse_obstacle(path: pathlib.Path, top: pathlib.Path) -> None:
    """Refuse a target below an existing folder `top` that cannot come without something else going."""
    if path.is_dir():
        raise ConflictError(
            f"'{path}' is a folder, and a file comes in its place",
            hint="move it away, or choose another folder",
        )
    above = path.relative_to(top).parents
    stands = next((top / part for part in above if is_no_folder(top / part)), None)
    if stands is not None:
        raise ConflictError(
            f"'{stands}' is a file, and a folder comes in its place",
            hint="move it away, or choose another folder",
        )


def _committed_places(session: Session) -> tuple[dict[pathlib.Path, str], WorkingFiles | None]:
    """Return where the files of HEAD lie, and what knows whether they may be lost."""
    top = session.place.top
    if top is None:
        return {}, None
    index = Index.of(session)
    found = WorkingFiles(top, index, commit_before(session, forced=False))
    return {real_path(index.locate(top, path)): path for path in found.committed}, found
