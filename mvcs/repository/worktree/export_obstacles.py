"""Which files an export may replace, and what lies in its way."""

import pathlib

from mvcs.checkpoint import file_kind
from mvcs.errors import ConflictError, UsageError
from mvcs.local import Exports
from mvcs.local_files import real_path
from mvcs.repository.session import Session
from mvcs.repository.worktree.checkout import commit_before
from mvcs.repository.worktree.file_index import Index
from mvcs.repository.worktree.obstacles import is_no_folder
from mvcs.repository.worktree.working_files import WorkingFiles
from mvcs.restore import ExportTarget, Reading


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
