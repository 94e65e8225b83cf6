"""The files of a commit written into a folder: aside first, then renamed into place."""

import os
import pathlib
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from mvcs.checkpoint import Stamp, write_file
from mvcs.errors import MvcsError, StorageError
from mvcs.local_files import sweep, temporary_name
from mvcs.objects import FileEntry
from mvcs.restore.open_commit import Reading
from mvcs.restore.own_paths import refuse_bare, refuse_unfit_tree, targets_of
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
        UsageError: a path leads out of the folder through a symbolic link, into a store, or is unfit.
        CorruptionError: a path acts on whoever restores it, also with what lies in the folder.
    """
    refuse_unfit_tree(reading.tree)
    entries = [entry for entry in reading.tree.files or () if paths is None or entry.path in paths]
    size = file_bytes(reading.tree, entries)
    reading.allowance.check_disk(size, folder)
    reading.progress.start("restoring", size, "bytes")
    staged: list[tuple[pathlib.Path, pathlib.Path]] = []
    stamps: dict[str, Stamp] = {}
    try:
        targets = targets_of(folder, [entry.path for entry in entries])
        refuse_bare(folder, (entry.path for entry in entries))
        for parent in {target.parent for target in targets}:
            sweep(parent)
        for entry, target in zip(entries, targets, strict=True):
            staged.append((_stage(reading, entry, target, announce), target))
            # Taken before others know the file, so that all they do to it shows.
            stamps[entry.path] = Stamp.of(staged[-1][0].stat())
        ready(staged)
        for _, target in staged:
            target.parent.mkdir(parents=True, exist_ok=True)
        for temporary, target in staged:
            temporary.replace(target)
        for path, (_, target) in zip(stamps, staged, strict=True):
            with suppress(FileNotFoundError):  # somebody was quick to remove it
                stamps[path] = stamps[path].renamed(Stamp.of(target.stat()), time.time_ns())
    except OSError as error:
        if isinstance(error, MvcsError):
            raise
        raise StorageError(
            f"cannot write '{error.filename2 or error.filename}': {(error.strerror or str(error)).lower()}"
        ) from error
    finally:
        for temporary, _ in staged:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
    reading.progress.finish()
    return stamps


def _stage(reading: Reading, entry: FileEntry, target: pathlib.Path, announce: Announce) -> pathlib.Path:
    temporary = aside(_within_reach(target), announce)
    try:
        write_file(entry, reading.content, temporary)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    return temporary


def _within_reach(target: pathlib.Path) -> pathlib.Path:
    """Return a target itself, or what stands in the place of one of its folders."""
    if target.parent.is_dir():
        return target
    standing = (path for path in target.parents if not path.is_dir() and os.path.lexists(path))
    return next(standing, target)


def aside(target: pathlib.Path, announce: Announce) -> pathlib.Path:
    """Return where to write a file beside its target."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(temporary_name())
    announce(temporary)
    return temporary
