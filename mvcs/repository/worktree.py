"""Verbs of the working folder: commit files, see what changed, restore in place."""

import pathlib
from collections.abc import Mapping, Sequence

from mvcs.checkpoint.captured import Captured
from mvcs.checkpoint.files import capture_files
from mvcs.errors import ConflictError, MvcsError, StorageError, UsageError
from mvcs.history.graph import Revision
from mvcs.objects.ids import short
from mvcs.objects.tree import FileEntry, FileFormat
from mvcs.policy.exact_layers import is_kept
from mvcs.refs import HEADS, REMOTES, TAGS
from mvcs.remotes.exchange import ahead_behind
from mvcs.repository.committing import Made
from mvcs.repository.reports import CheckoutReport, FileStatus, Status
from mvcs.repository.restoring import Reading, lies_inside, open_reading, write_files
from mvcs.repository.session import UNREADABLE, Session
from mvcs.repository.working import (
    DIFFERENT,
    EQUAL_EXACT,
    Index,
    compare_file,
    file_states,
    lossy_origin,
    places_of,
    untracked,
)


def named_files(
    session: Session, paths: Sequence[pathlib.Path], names: Mapping[pathlib.Path, str], index: Index
) -> tuple[list[pathlib.Path], list[pathlib.Path]]:
    """Return the files to commit, those named or HEAD's, and which of them HEAD keeps unread."""
    if paths:
        return list(paths), []
    if names:
        raise UsageError("a name for a file needs the file")
    head = session.head()
    entries = () if head is None else open_reading(session.reader(), head, session.progress).tree.files or ()
    if not entries:
        raise UsageError("no file is named, and HEAD holds none", hint="mvcs commit FILE... -m MESSAGE")
    top = session.require_top()
    opaque = [entry.path for entry in entries if entry.format is FileFormat.OPAQUE]
    return [index.locate(top, entry.path) for entry in entries], [index.locate(top, path) for path in opaque]


def capture(
    session: Session, paths: Sequence[pathlib.Path], names: Mapping[pathlib.Path, str]
) -> tuple[Captured, Index, str | None]:
    """Capture files for a commit; also return the index, and the bounded commit they were restored from."""
    top = session.require_top()
    index = Index.load(session.place.local or top)
    chosen, opaque = named_files(session, paths, names, index)
    known = {pathlib.Path(place): name for name, place in index.places.items()}
    all_names = {path: known[path.absolute()] for path in chosen if path.absolute() in known} | dict(names)
    captured = capture_files(chosen, top, all_names, opaque)
    index.places |= places_of(all_names)
    index.look(top, [entry.path for entry in captured.files or ()])
    return captured, index, lossy_origin(index, (entry.path for entry in captured.files or ()))


def capture_present(session: Session) -> Captured:
    """Capture those of HEAD's files that are still there, to compare with."""
    top = session.require_top()
    index = Index.load(session.place.local or top)
    chosen, opaque = named_files(session, [], {}, index)
    present = [path for path in chosen if path.exists()]
    if not present:
        return Captured((), files=())
    names = {pathlib.Path(place): name for name, place in index.places.items()}
    return capture_files(present, top, {path: names[path] for path in present if path in names}, opaque)


def remember(session: Session, index: Index, made: Made) -> None:
    """Note that the committed files equal the new commit; the commit is safe whether or not this works."""
    index.keep_lossy(entry.path for entry in made.tree.files or ())
    index.remember(made.revision.id.hex(), EQUAL_EXACT, lossy=False)
    try:
        index.save(session.place.local or session.require_top())
    except StorageError as error:
        session.warnings.append(f"'mvcs status' will take longer: {error.message}")


def status(session: Session) -> Status:
    """Return where the working folder stands against HEAD; a store that refuses is a problem to show."""
    problems = [f"a background commit failed: {line}" for line in session.failures()]
    head = session.head()
    states: dict[str, str] = {}
    if head is not None and session.place.top is not None:
        try:
            reading = open_reading(session.reader(), head, session.progress)
            index = Index.load(session.place.local or session.place.top)
            states = file_states(session.place.top, index, reading)
        except StorageError as error:
            problems.append(f"the files of HEAD cannot be compared: {error.message}")
    entries = [FileStatus(path, state) for path, state in states.items()]
    if session.place.top is not None:
        entries += [FileStatus(path, "untracked") for path in untracked(session.place.top, set(states))]
    info = None if head is None else session.info(head)
    return Status(session.branch, info, entries, problems, _against_remote(session, head))


def _against_remote(session: Session, head: Revision | None) -> tuple[int, int] | None:
    record = None if session.branch is None else session.refs.read(REMOTES, f"origin/{session.branch}")
    if record is None or record.target is None or head is None:
        return None
    try:
        return ahead_behind(session.graph, head, session.graph.load(record.target, record.pack))
    except MvcsError:
        return None


def checkout(session: Session, text: str, *, exact: bool, force: bool) -> CheckoutReport:
    """Restore the files of a revision in place and move HEAD.

    Raises:
        ConflictError: uncommitted changes, or values that are stored nowhere any more, would be overwritten.
    """
    revision = session.resolve(text)
    named = session.branch if text == "HEAD" else text
    branch = named if named is not None and session.refs.read(HEADS, named) is not None else None
    return move_to(session, revision, branch, exact=exact, force=force)


def move_to(
    session: Session, revision: Revision, branch: str | None, *, exact: bool, force: bool
) -> CheckoutReport:
    """Restore a commit's files in place; HEAD goes to `branch`, or stands on the commit alone."""
    top = session.require_top()
    local = session.place.local or top
    reading = open_reading(session.reader(), revision, session.progress, exact=exact)
    left = _detached(session)
    index = Index.load(local)
    # Files are restored inside the folder, also those that were committed from elsewhere.
    places, index.places = index.places, {}
    before = _before(session, forced=force)
    stale = _stale(top, before, reading)
    if not force:
        _refuse_overwriting(top, index, before, reading, stale)
    written = _write(top, local, index, reading)
    removed = [_remove(top, entry.path) for entry in stale]
    index.keep_lossy([*written, *removed])
    index.look(top, written)
    index.remember(revision.id.hex(), reading.layer, lossy=reading.lossy)
    index.places = {name: place for name, place in places.items() if name not in written}
    index.save(local)
    session.set_head(f"ref: {branch}" if branch else revision.id.hex())
    if left is not None and left.id != revision.id and not _is_named(session, left):
        session.progress.note(
            f"no branch or tag leads to {short(left.id)}, where HEAD was; "
            f"'mvcs branch NAME {short(left.id)}' keeps it in sight"
        )
    return CheckoutReport(session.info(revision), written, removed, reading.layer, branch)


def _detached(session: Session) -> Revision | None:
    """Return the commit HEAD stands on without a branch; None also when HEAD is damaged."""
    try:
        return None if session.branch else session.head()
    except UNREADABLE:
        return None


def _is_named(session: Session, revision: Revision) -> bool:
    """Tell whether a branch or tag, here or as seen elsewhere, leads to a commit."""
    records = [record for kind in (HEADS, TAGS, REMOTES) for record in session.refs.all(kind).values()]
    try:
        tips = [session.graph.load(record.target, record.pack) for record in records if record.target]
        return any(found.id == revision.id for found in session.graph.walk(tips))
    except UNREADABLE:
        return True  # what is damaged is reported by what needs it


def refuse_export(session: Session, reading: Reading, target: pathlib.Path) -> None:
    """Refuse to write over the repository itself, or over committed files that changed since.

    Raises:
        ConflictError: `target`, or a file in it, is a file of HEAD whose content is stored nowhere.
        UsageError: `target` lies inside `.mvcs`.
    """
    top, local = session.place.top, session.place.local
    if local is not None and target.resolve().is_relative_to(local.resolve()):
        raise UsageError(f"'{target}' lies inside the repository's own folder", hint="choose another place")
    if top is None or not (target.exists() and target.resolve().is_relative_to(top.resolve())):
        return
    before = _before(session, forced=False)
    if before is None:
        return
    index = Index.load(local or top)
    entries = {index.locate(top, entry.path).resolve(): entry for entry in before.tree.files or ()}
    paths = [entry.path for entry in reading.tree.files or ()]
    inside = paths if len(paths) > 1 else [pathlib.PurePosixPath(path).name for path in paths]
    for path in [target / name for name in inside] if target.is_dir() else [target]:
        entry = entries.get(path.resolve())
        if entry is None or not path.is_file():
            continue
        untouched = index.untouched(top, entry.path, before.revision.id.hex())
        _refuse(str(path), _why_precious(path, entry, before, untouched=untouched))


def _refuse(path: str, reason: str | None) -> None:
    if reason:
        raise ConflictError(
            f"'{path}' {reason}", hint="commit it, move it away, or overwrite it with --force"
        )


def _before(session: Session, *, forced: bool) -> Reading | None:
    head = session.head_to_leave(forced=forced)
    try:
        return None if head is None else open_reading(session.reader(), head, session.progress)
    except UNREADABLE:
        if not forced:
            raise
        return None


def _write(top: pathlib.Path, local: pathlib.Path, index: Index, reading: Reading) -> list[str]:
    if reading.lossy and reading.tree.files:
        paths = [entry.path for entry in reading.tree.files]
        index.mark_lossy(paths, reading.revision.id.hex(), reading.layer)
        index.save(local)
    return write_files(reading, top)


def _remove(top: pathlib.Path, path: str) -> str:
    try:
        (top / path).unlink(missing_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StorageError(f"cannot remove '{path}': {reason}", hint="run the command again") from error
    return path


def _stale(top: pathlib.Path, before: Reading | None, after: Reading) -> list[FileEntry]:
    """Return HEAD's files that the target does not have and that lie in the folder."""
    if before is None or after.tree.files is None:
        return []
    kept = {entry.path for entry in after.tree.files}
    entries = [entry for entry in before.tree.files or () if entry.path not in kept]
    return [entry for entry in entries if (top / entry.path).is_file() and lies_inside(top, entry.path)]


def _refuse_overwriting(
    top: pathlib.Path, index: Index, before: Reading | None, after: Reading, stale: list[FileEntry]
) -> None:
    committed = {entry.path: entry for entry in (before.tree.files or () if before else ())}
    targets = {entry.path: entry for entry in after.tree.files or () if (top / entry.path).exists()}
    for path in [*targets, *(entry.path for entry in stale)]:
        found = top / path
        if path in targets and compare_file(found, targets[path], after) == after.layer:
            continue
        untouched = path not in index.places and index.untouched(top, path, _commit_of(before))
        _refuse(path, _why_precious(found, committed.get(path), before, untouched=untouched))


def _commit_of(reading: Reading | None) -> str:
    return "" if reading is None else reading.revision.id.hex()


def _why_precious(
    path: pathlib.Path, committed: FileEntry | None, before: Reading | None, *, untouched: bool
) -> str | None:
    """Tell why a file in the way must not be lost; None when its content is stored."""
    unstored = "has changes that are not committed, and would be overwritten"
    if committed is None or before is None:
        return unstored
    recorded = not before.lossy or is_kept(before.store.backend, before.revision)
    if untouched and recorded:
        return None
    equal = compare_file(path, committed, before)
    if equal == EQUAL_EXACT and not recorded:
        return "holds exact values that are stored nowhere any more, and would be overwritten"
    return unstored if equal == DIFFERENT else None
