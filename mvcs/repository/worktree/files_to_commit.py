"""Files of the folder for a commit, and what is known of them after; which files an export may replace."""

import pathlib
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from mvcs.checkpoint import Captured, capture_files, committed_name, file_kind, refuse_unfit
from mvcs.commits import KeptFiles, MadeCommit, Selection, SelectionRules
from mvcs.errors import ConflictError, CorruptionError, NotFoundError, StorageError, UsageError
from mvcs.history import Revision
from mvcs.local import Exports
from mvcs.local_files import real_path
from mvcs.objects import FileFormat, Tree, files_in, part_of, unfit_paths
from mvcs.repository.session import Session
from mvcs.repository.worktree.checkout import commit_before
from mvcs.repository.worktree.file_index import Index, places_of
from mvcs.repository.worktree.interrupted_moves import refuse_unfinished
from mvcs.repository.worktree.obstacles import is_no_folder
from mvcs.repository.worktree.origins import Origin, Origins
from mvcs.repository.worktree.working_files import WorkingFiles
from mvcs.restore import EXACT_LAYER, ExportTarget, Reading, open_reading, stored_among

_OF_HEAD = (
    "'mvcs mv' renames a file of HEAD and 'mvcs rm' leaves one out; with --only all but what is named go"
)
_UNREAD = "which files HEAD has cannot be read: what is named was stored alone; 'mvcs fsck' tells more"


@dataclass(frozen=True)
class AskedFiles:
    """What a commit of files is asked to hold.

    Attributes:
        paths: files and folders; none for HEAD's.
        names: what some of them are called in the commit, instead of where they lie.
        only: whether HEAD's other files leave it.
        replaces: whether what is new takes the place of what it is stored near.
        plain: whether files that cannot be read as checkpoints are kept byte for byte.
    """

    paths: tuple[pathlib.Path, ...]
    names: Mapping[pathlib.Path, str]
    only: bool
    replaces: bool
    plain: bool

    @classmethod
    def of(
        cls,
        paths: Iterable[str | pathlib.Path],
        names: Mapping[str | pathlib.Path, str] | None = None,
        *,
        only: bool = False,
        replaces: bool = False,
        plain: bool = False,
    ) -> "AskedFiles":
        """Group what a verb was given."""
        named = {pathlib.Path(path): name for path, name in (names or {}).items()}
        return cls(tuple(map(pathlib.Path, paths)), named, only, replaces, plain)


@dataclass(frozen=True)
class Taken:
    """What a commit takes from the folder, and what it keeps of its parent.

    Attributes:
        captured: the files that were read.
        index: what is known of the files in the folder.
        origin: where they come from.
        kept: the parent's files that stay as they are; None for none.
        left: the parent's files that the commit does not have.
        settled: those of the kept files that are in the folder as the parent has them.
        added: files that were read and the parent does not have.
    """

    captured: Captured
    index: Index
    origin: Origin
    kept: KeptFiles | None = None
    left: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()
    added: tuple[str, ...] = ()


def named_files(
    top: pathlib.Path, paths: Sequence[pathlib.Path], index: Index, head: Tree | None
) -> tuple[list[pathlib.Path], list[pathlib.Path]]:
    """Return the files to commit, those named or HEAD's, and which of them HEAD keeps unread."""
    entries = (head.files if head else None) or ()
    if not paths and not entries:
        raise _no_file(head)
    chosen = list(paths) or [index.locate(top, entry.path) for entry in entries]
    opaque = {
        index.locate(top, entry.path).absolute() for entry in entries if entry.format is FileFormat.OPAQUE
    }
    return chosen, [path for path in chosen if path.absolute() in opaque]


def _no_file(head: Tree | None) -> UsageError:
    if head is None or head.files is not None:
        return UsageError("no file is named, and HEAD holds none", hint="mvcs commit FILE... -m MESSAGE")
    return UsageError(
        "no file is named, and HEAD holds no files but a state, committed from Python",
        hint="the training hook or repo.commit(state) commits the next; a file by its name: "
        "mvcs commit FILE... -m MESSAGE",
    )


def _refuse_gone(
    chosen: Sequence[pathlib.Path], top: pathlib.Path, names: Mapping[pathlib.Path, str], head: Tree | None
) -> None:
    """Say of a file that HEAD has and the folder has not what can be done.

    Raises:
        NotFoundError: one of the paths is so.
        UsageError: a path lies outside `top` and has no name.
    """
    for path in chosen:
        with suppress(OSError):  # what else is wrong with it shows when it is read
            if path.exists():
                continue
            if head is not None and files_in(head, [committed_name(path, top, names)]):
                hint = "'mvcs rm' leaves out a file of HEAD, and 'mvcs restore' brings it back"
                raise NotFoundError(f"no such file: '{path}'", hint=hint)


def capture(session: Session, asked: AskedFiles, parent: Revision | None) -> Taken:
    """Capture files for a commit after `parent`, and decide which of the parent's files it keeps.

    Raises:
        UsageError: nothing was named, or paths of the commit could not be restored on every system.
    """
    if asked.names and not asked.paths:
        raise UsageError("a name for a file needs the file")
    top = session.require_top()
    refuse_unfinished(session, parent)
    index = Index.of(session)
    head = tree_before(session, parent, needed=not (asked.only and asked.paths))
    chosen, opaque = named_files(top, asked.paths, index, head)
    known = {pathlib.Path(place): name for name, place in index.places.items()}
    all_names = {path: known[path.absolute()] for path in chosen if path.absolute() in known} | dict(
        asked.names
    )
    began_ns = time.time_ns()
    _refuse_gone(chosen, top, all_names, head)
    captured = capture_files(chosen, top, all_names, opaque, plain=asked.plain)
    named = {committed_name(path, top, all_names): path.is_dir() for path in chosen}
    selection = Selection()
    if parent is not None and head is not None:
        stored = stored_among(top, [entry.path for entry in head.files or ()])
        selecting = SelectionRules(head, captured, named, index.places, stored)
        selection = selecting.of(only=asked.only, replaces=asked.replaces)
        taken = [entry.path for entry in captured.files or ()]
        refuse_unfit(unfit_paths([*taken, *selection.kept]), _OF_HEAD)
    before = "" if parent is None else parent.id.hex()
    settled = tuple(path for path in selection.kept if index.untouched(top, path, before))
    index.places |= places_of(all_names)
    index.take(captured, began_ns)
    outside = () if asked.paths else _outside(top, index, captured)
    unread = [_UNREAD] if parent is not None and head is None else []
    noted = replace(captured, notes=(*captured.notes, *selection.notes, *outside, *unread))
    kept = KeptFiles(part_of(head, selection.kept), parent) if parent and head and selection.kept else None
    origin = Origins(session).of_files(captured, index, parent)
    return Taken(noted, index, origin, kept, selection.left, settled, _added(captured, head))


def _added(captured: Captured, head: Tree | None) -> tuple[str, ...]:
    known = {entry.path for entry in (head.files if head else None) or ()}
    return tuple(entry.path for entry in captured.files or () if entry.path not in known)


def _outside(top: pathlib.Path, index: Index, captured: Captured) -> list[str]:
    """Say which files nobody named now that come from elsewhere: the index says so, and may be anybody's."""
    found = index.outside(top, (entry.path for entry in captured.files or ()))
    return [f"'{path}' was read outside the folder, from '{place}'" for path, place in found.items()]


def tree_before(session: Session, parent: Revision | None, *, needed: bool = True) -> Tree | None:
    """Return what a commit holds; None for none, and where it is not `needed` and cannot be read.

    Raises:
        CorruptionError: it cannot be read.
    """
    if parent is None:
        return None
    try:
        return open_reading(session.reader(), parent, session.progress).tree
    except (CorruptionError, NotFoundError) as error:
        if not needed:
            return None
        raise CorruptionError(
            f"which files HEAD has cannot be read: {error.message}",
            hint="with --only a commit holds the files that are named; 'mvcs fsck' tells of the damage",
        ) from error


def capture_present(session: Session, among: Collection[str] = ()) -> Captured:
    """Capture those of HEAD's files that are still there, to compare with; with `among` only these."""
    top = session.require_top()
    index = Index.of(session)
    head = tree_before(session, session.head())
    if among and head is not None:
        head = part_of(head, files_in(head, among))
    if head is None or not head.files:
        return Captured((), files=())
    chosen, opaque = named_files(top, [], index, head)
    present = [path for path in chosen if path.exists()]
    if not present:
        return Captured((), files=())
    names = {pathlib.Path(place): name for name, place in index.places.items()}
    known = {path: names[path] for path in present if path in names}
    return capture_files(present, top, known, opaque, any_names=True)


def remember(session: Session, taken: Taken, made: MadeCommit) -> None:
    """Note that the committed files equal the new commit; the commit is safe whether or not this works."""
    index, commit = taken.index, made.revision.id.hex()
    captured = {entry.path for entry in taken.captured.files or ()}
    # What is known of other files that the commit has tells later where they came from.
    others = {entry.path for entry in made.tree.files or ()} - captured
    known = {path: seen for path, seen in index.files.items() if path in others}
    settled = {path: replace(index.files[path], commit=commit) for path in taken.settled}
    index.keep_lossy(captured)
    index.files |= known | settled
    index.remember(commit, EXACT_LAYER)
    try:
        index.save(session.place.local or session.require_top())
    except StorageError as error:
        session.warn(f"'mvcs status' will take longer: {error.message}")


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
