"""Files of a commit brought into the folder: all of them, and HEAD with them, or some of them alone."""

import pathlib
from collections.abc import Callable, Collection, Sequence
from contextlib import closing

from mvcs.checkpoint import Stamp
from mvcs.errors import ConflictError, StorageError
from mvcs.history import Revision
from mvcs.local import Journal
from mvcs.objects import ObjectId, short_id
from mvcs.refs import HEADS, REMOTES, TAGS
from mvcs.reports import CheckoutReport
from mvcs.repository.lineage_record import LineageRecord
from mvcs.repository.opened_commit import looked_at, open_for, refuse_without_data
from mvcs.repository.session import UNREADABLE, Session
from mvcs.repository.worktree import interrupted_moves
from mvcs.repository.worktree.file_index import Index
from mvcs.repository.worktree.interrupted_moves import InterruptedMove
from mvcs.repository.worktree.obstacles import Obstacles
from mvcs.repository.worktree.whereabouts import damage, head_to_leave, last_known
from mvcs.repository.worktree.working_files import WorkingFiles
from mvcs.restore import (
    LEFT_STORED_NOTE,
    Reading,
    is_lossy,
    open_reading,
    refuse_unfit_tree,
    remove_file,
    write_files,
)
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
    _tell_stored(session, found.stored(reading))
    arrived = {*changed, *unchanged}
    index.keep_lossy_beside(arrived)
    index.places = {name: place for name, place in places.items() if name not in arrived}
    index.save(session.place.local or top)
    session.set_head(f"ref: {branch}" if branch else revision.id.hex())
    interrupted_moves.end(session)
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
    except UNREADABLE:
        return None


def is_named(session: Session, revision: Revision) -> bool:
    """Tell whether a branch or tag, here or as seen elsewhere, leads to a commit."""
    surveys = [session.refs.survey(kind) for kind in (HEADS, TAGS, REMOTES)]
    records = [record for survey in surveys for record in survey.whole.values()]
    try:
        tips = [session.graph.load(record.target, record.pack) for record in records if record.target]
        return any(found.id == revision.id for found in session.graph.walk(tips))
    except UNREADABLE:
        return True  # what is damaged is reported by what needs it


def _named_reading(session: Session, commit: str) -> Reading | None:
    """Open a commit by its hexadecimal id; None where no branch or tag leads to it, or it cannot be read."""
    try:
        revision = session.graph.load(ObjectId(bytes.fromhex(commit)), None)
        if not is_named(session, revision):
            return None
        return open_reading(session.reader(), revision, session.progress)
    except (ValueError, *UNREADABLE):
        return None


def commit_before(session: Session, *, forced: bool) -> Reading | None:
    """Open the commit whose files lie in the folder: HEAD's, or the one before a pull that was stopped."""
    head = head_to_leave(session, forced=forced)
    try:
        stopped = InterruptedMove.of(session, head)
        if stopped is not None:
            head = session.graph.load(stopped.before, None) if stopped.before else None
        return None if head is None else open_reading(session.reader(), head, session.progress)
    except UNREADABLE:
        if not forced:
            raise
        return None


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


def _tell_stored(session: Session, paths: Sequence[str]) -> None:
    for path in paths:
        session.progress.note(f"'{path}' {LEFT_STORED_NOTE}")
