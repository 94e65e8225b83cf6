"""The files of a commit written into a folder: aside first, then renamed into place."""

import os
import pathlib
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from mvcs.checkpoint import Stamp, write_file
from mvcs.errors import MvcsError, StorageError
from mvcs.local_files import temporary_name
from mvcs.objects import FileEntry
from mvcs.restore.open_commit import Reading
from mvcs.restore.open_folder import OpenFolder, refuse_bare, refuse_detours, refuse_unfit_tree
from mvcs.restore.size_allowance import file_bytes

Announce = Callable[[pathlib.Path], None]
Ready = Callable[[Sequence[tuple[pathlib.Path, pathlib.Path]]], None]


def write_files(
    reading: Reading,
    folder: pathlib.Path,
    announce: Announce,
    paths: set[str] | None = None,
    ready: Ready = lambda _: None,
) -> dict[str, Stamp]:
    """Write the files of a commit into a folder: all are written aside first, then renamed into place.

    The folder may be reached through links; below it none is followed, whenever it comes there.

    Args:
        reading: the commit.
        folder: where to.
        announce: is told of temporary files.
        paths: those of its files that are written; None for all.
        ready: told of temporary files and targets before any is in place; may refuse, and clears the way.

    Returns:
        What tells of every change to each file since it was written.

    Raises:
        StorageError: a file cannot be written; those in place are untouched.
        UsageError: a path leads through a symbolic link, into a store, or is unfit.
        CorruptionError: a path acts on whoever restores it, also with what lies in the folder.
    """
    refuse_unfit_tree(reading.tree)
    entries = [entry for entry in reading.tree.files or () if paths is None or entry.path in paths]
    size = file_bytes(reading.tree, entries)
    reading.allowance.check_disk(size, folder)
    reading.progress.start("restoring", size, "bytes")
    try:
        refuse_detours(folder, [entry.path for entry in entries])
        refuse_bare(folder, (entry.path for entry in entries))
        with OpenFolder.at(folder, make=True) as top:
            stamps = _Landing(top, reading, announce).bring(entries, ready)
    except OSError as error:
        if isinstance(error, MvcsError):
            raise
        raise StorageError(
            f"cannot write '{error.filename2 or error.filename}': {(error.strerror or str(error)).lower()}"
        ) from error
    reading.progress.finish()
    return stamps


@dataclass
class _Landing:
    """Files on their way into a folder.

    Attributes:
        top: the folder.
        reading: the commit.
        announce: is told of temporary files.
        staged: each with its path, by the path of its temporary file.
    """

    top: OpenFolder
    reading: Reading
    announce: Announce
    staged: dict[str, str] = field(default_factory=dict)

    def bring(self, entries: Sequence[FileEntry], ready: Ready) -> dict[str, Stamp]:
        """Write files aside, and rename them once all are there; what is left aside goes."""
        try:
            for path in {entry.path.rpartition("/")[0]: entry.path for entry in entries}.values():
                self.top.sweep_beside(path)
            # Taken before others know a file, so that all they do to it shows.
            stamps = {entry.path: self._stage(entry) for entry in entries}
            place = self.top.place
            ready([(place / temporary, place / path) for temporary, path in self.staged.items()])
            self._rename()
            return {path: self._renamed(path, stamp) for path, stamp in stamps.items()}
        finally:
            for temporary in self.staged:
                with suppress(OSError):
                    self.top.remove(temporary)

    def _stage(self, entry: FileEntry) -> Stamp:
        folder, slash, _ = _within_reach(self.top.place, entry.path).rpartition("/")
        temporary = f"{folder}{slash}{temporary_name()}"
        self.top.make_above(temporary)
        self.announce(self.top.place / temporary)
        self.staged[temporary] = entry.path
        opener = self.top.opener(temporary)
        write_told(self.reading, entry, self.top.place / temporary, opener)
        return Stamp.of(self.top.status(temporary))

    def _renamed(self, path: str, stamp: Stamp) -> Stamp:
        with suppress(FileNotFoundError):  # somebody was quick to remove it
            return stamp.renamed(Stamp.of(self.top.status(path)), time.time_ns())
        return stamp

    def _rename(self) -> None:
        for path in self.staged.values():
            self.top.make_above(path)
        for temporary, path in self.staged.items():
            self.top.rename(temporary, path)


def write_told(
    reading: Reading, entry: FileEntry, target: pathlib.Path, opener: Callable[[str, int], int] | None
) -> None:
    """Write one file of a commit, as `write_file` does, and tell where it is not laid out as it was."""
    if not write_file(entry, reading.content, target, opener):
        reading.progress.note(
            f"'{entry.path}' has the same arrays and other bytes: the zlib of here compresses otherwise, "
            "so they are not compressed"
        )


def _within_reach(top: pathlib.Path, path: str) -> str:
    """Return a path itself, or that of what stands in the place of one of its folders."""
    target = top / path
    if target.parent.is_dir():
        return path
    above = target.parents[: path.count("/")]
    standing = (place for place in above if not place.is_dir() and os.path.lexists(place))
    return next((place.relative_to(top).as_posix() for place in standing), path)
