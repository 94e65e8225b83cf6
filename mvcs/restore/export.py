"""A commit, or some of its tensors, written somewhere else than in place: as it was, or in another format."""

import pathlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from mvcs.checkpoint import export_file, format_as_it_is, format_of
from mvcs.errors import MvcsError, StorageError, UsageError
from mvcs.local import ExportLanding
from mvcs.local_files import temporary_name
from mvcs.objects import FileEntry, FileFormat, Tree, renamed_files
from mvcs.restore.open_commit import Reading, flat_names, select
from mvcs.restore.open_folder import Opener, OpenFolder, refuse_bare, refuse_unfit_tree
from mvcs.restore.size_allowance import file_bytes, state_bytes
from mvcs.restore.written_files import write_files, write_told

FOLDER = "folder"
_HINT = "end it in .safetensors, .npz or .pt"


@dataclass(frozen=True)
class Exported:
    """What an export wrote.

    Attributes:
        kind: the format of the file, or "folder".
        files: how many there are.
        tensors: how many of the commit's.
        left_out: what the format cannot hold.
    """

    kind: str
    files: int
    tensors: int
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExportTarget:
    """Where an export goes.

    Attributes:
        path: a file, or a folder.
        folder: whether it was said to be a folder, by a slash at its end.
        nested: whether a folder of a commit goes there, whose files keep their places, be there only one.
    """

    path: pathlib.Path
    folder: bool = False
    nested: bool = False

    @classmethod
    def of(cls, target: str | pathlib.Path) -> "ExportTarget":
        """Read what a caller said."""
        return cls(pathlib.Path(target), folder=isinstance(target, str) and target.endswith("/"))

    def of_folder(self) -> "ExportTarget":
        """Return where a folder of a commit goes; a suffix of a format asks for one file all the same."""
        return self if self.format is not None else replace(self, nested=True)

    def files(self, reading: Reading) -> list[pathlib.Path]:
        """Return the files that are written; a folder takes a commit of several files."""
        paths = [entry.path for entry in reading.tree.files or ()]
        keep = len(paths) > 1 or self.nested
        inside = paths if keep else [pathlib.PurePosixPath(path).name for path in paths]
        return [self.path / name for name in inside] if self.path.is_dir() else [self.path]

    @property
    def format(self) -> FileFormat | None:
        """The format of files that its suffix asks for, if any."""
        return None if self.folder or self.path.is_dir() else format_of(self.path)

    def refuse_names(self, tree: Tree) -> None:
        """Refuse to bring files of unfit names into a folder; a single one may get another name.

        Raises:
            CorruptionError: version control tools would obey one of them.
            UsageError: on some system they would not be what they are called.
        """
        into_folder = len(tree.files or ()) > 1 or self.nested or self.folder or self.path.is_dir()
        if self.format is None and into_folder:
            refuse_unfit_tree(tree)

    def check(self, entries: tuple[FileEntry, ...]) -> None:
        """Refuse a suffix that says nothing, where files are written as they were.

        Raises:
            UsageError: it is neither that of a format nor that of the only file.
        """
        suffix = self.path.suffix.lower()
        single = len(entries) == 1 and not self.nested
        only = pathlib.PurePosixPath(entries[0].path if single else "").suffix.lower()
        if self.folder or self.path.is_dir() or suffix in {"", only} or suffix[1:].isdigit():
            return
        raise UsageError(
            f"'{self.path.name}' ends in '{suffix}', which is no format that mvcs writes",
            hint=f"{_HINT}; for a folder, in a slash: '{self.path}/'",
        )


def from_folder(reading: Reading, folder: str) -> Reading:
    """Return the reading of the files in a folder of a commit, with their paths from there."""
    paths = [entry.path for entry in reading.tree.files or ()]
    names = {path: path.removeprefix(f"{folder}/") for path in paths}
    return replace(reading, tree=renamed_files(reading.tree, names))


def export_to(
    reading: Reading, target: ExportTarget, pattern: str | None, prefix: str | None, landing: ExportLanding
) -> Exported:
    """Write a commit, or the tensors that match, to a file or folder of the caller's choice.

    Raises:
        UsageError: the target does not say which format to write, or without the prefix two tensors would
            have one name.
        NotFoundError: no tensor matches.
        ConflictError: somebody wrote to the target meanwhile.
    """
    names = None if prefix is None else flat_names(reading.tree, pattern, prefix)
    chosen = select(reading.tree, pattern) if names is None else set(names.values())
    entries = reading.tree.files
    if entries is not None and chosen is None:
        if target.format is None:
            target.check(entries)
            target.refuse_names(reading.tree)
        if (len(entries) > 1 or target.nested) and target.format is None:
            write_files(reading, target.path, landing.announce, ready=landing.ready)
            return Exported(FOLDER, len(entries), len(reading.tree.leaves))
        if len(entries) == 1 and target.format in (None, format_as_it_is(entries[0])):
            return _write_single(reading, entries[0], target, landing)
    if target.format is None:
        raise UsageError(
            f"'{target.path.name}' does not say which format to write",
            hint=f"{_HINT}; a commit of several files goes to a folder",
        )
    return _export_single(reading, target.path, target.format, chosen, names, landing)


def _write_single(
    reading: Reading, entry: FileEntry, target: ExportTarget, landing: ExportLanding
) -> Exported:
    path = target.path
    if target.folder or path.is_dir():
        name = pathlib.PurePosixPath(entry.path).name
        refuse_bare(path, [name])
        path /= name
    size = file_bytes(reading.tree, [entry])
    reading.allowance.check_disk(size, path.parent)
    reading.progress.start("restoring", size, "bytes")
    _replacing(path, landing, lambda *opened: write_told(reading, entry, *opened))
    reading.progress.finish()
    return Exported(entry.format.value, 1, len(reading.tree.leaves))


def _export_single(
    reading: Reading,
    target: pathlib.Path,
    file_format: FileFormat,
    chosen: set[int] | None,
    names: Mapping[str, int] | None,
    landing: ExportLanding,
) -> Exported:
    left_out: list[str] = []
    reading.allowance.check_disk(_exported_bytes(reading.tree, chosen), target.parent)
    # Files of tensors alone hold no blobs, and read each tensor once.
    read = range(len(reading.tree.leaves)) if file_format is not FileFormat.TORCH else None
    size = state_bytes(reading.tree, read if chosen is None else chosen)
    reading.progress.start("restoring", size, "bytes")
    _replacing(
        target,
        landing,
        lambda temporary, opener: left_out.extend(
            export_file(reading.content, temporary, file_format, chosen, names, opener)
        ),
    )
    reading.progress.finish()
    tensors = len(reading.tree.leaves) if chosen is None else len(chosen)
    return Exported(file_format.value, 1, tensors, tuple(left_out))


def _exported_bytes(tree: Tree, chosen: set[int] | None) -> int:
    return file_bytes(tree, tree.files) if chosen is None and tree.files else state_bytes(tree, chosen)


def _replacing(
    target: pathlib.Path, landing: ExportLanding, write: Callable[[pathlib.Path, Opener], object]
) -> None:
    """Write a file aside and rename it into place, so that the target is whole or untouched."""
    temporary, place = temporary_name(), target.parent
    try:
        with OpenFolder.at(place, make=True) as folder:
            folder.sweep_beside(temporary)
            landing.announce(place / temporary)
            try:
                write(place / temporary, folder.opener(temporary))
                landing.ready([(place / temporary, target)])
                folder.rename(temporary, target.name)
            finally:
                with suppress(OSError):
                    folder.remove(temporary)
    except OSError as error:
        if isinstance(error, MvcsError):
            raise
        raise StorageError(f"cannot write '{target}': {(error.strerror or str(error)).lower()}") from error
