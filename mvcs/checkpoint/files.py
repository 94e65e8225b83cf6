"""Checkpoint files: captured into a commit, and written again from one."""

import pathlib
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from mvcs.checkpoint.chosen_files import Chosen, choose
from mvcs.checkpoint.export import export_to
from mvcs.checkpoint.folder_walk import NO_FILES, KnownFiles
from mvcs.checkpoint.formats.detection import format_in, format_of
from mvcs.checkpoint.formats.npz_file import capture_npz
from mvcs.checkpoint.formats.safetensors_file import capture_odd_safetensors, capture_safetensors
from mvcs.checkpoint.ignore_rules import IGNORE_FILE
from mvcs.checkpoint.state.captured import Captured
from mvcs.checkpoint.state.collector import Collector
from mvcs.checkpoint.state.content_reader import ContentReader
from mvcs.checkpoint.state.stamped import StampedFile
from mvcs.checkpoint.torch_files.needing_torch import needing_torch
from mvcs.checkpoint.written_files import durable_file
from mvcs.errors import FileFormatError, StateError, UnsafeFileError, UsageError, some_of
from mvcs.objects import FileEntry, FileFormat

__all__ = ["capture_files", "export_file", "format_of"]

_SHOWN = 50  # files of a folder that one error names
_READABLE = "files of safetensors and npz are read without; 'pip install torch' for this one"
Reader = Callable[[StampedFile, str, Collector], FileEntry]
_NO_NAMES: Mapping[pathlib.Path, str] = MappingProxyType({})


def capture_files(
    paths: Sequence[pathlib.Path],
    top: pathlib.Path,
    names: Mapping[pathlib.Path, str] = _NO_NAMES,
    found_before: Collection[pathlib.Path] = (),
    known: KnownFiles = NO_FILES,
    *,
    plain: bool = False,
    any_names: bool = False,
) -> Captured:
    """Take checkpoint files apart; folders are walked.

    What torch.save wrote is known by its content. Files of other formats, those that cannot be read without
    running code, and those that hold more than a format has, are kept as they are, and their tensors as such
    where they are found. Of a file of a known format, or one that is named, a note says so, once.

    Args:
        paths: files and folders.
        top: the folder that paths in the commit are relative to.
        names: the path in the commit of some of `paths`, instead of where they lie.
        found_before: those of `paths` that an earlier commit kept as they are; they are treated as then.
        known: the files that the commit before has; no rule leaves them out of folders.
        plain: keep any file that cannot be read as it is, named or not.
        any_names: the files are only looked at, and may be called what no file of a commit may.

    Raises:
        NotFoundError: a path does not exist.
        UsageError: a path lies outside `top` and has no name; names collide; a folder holds no file; a
            link leaves its folder; paths could not be restored on every system; or a file of torch.save
            is there, and torch is not installed.
        FileFormatError: files are not what their suffixes say; the error names each.
        ConflictError: a file was written meanwhile, or a link stands where the commit before has files; the
            error names it.
    """
    chosen, notes = choose(paths, top, names, found_before, known, any_names=any_names)
    if not chosen:
        raise UsageError("there is no file to commit in what was named", hint=_why_none(top))
    collector = Collector()
    files = {file.name: StampedFile.at(file.path) for file in chosen}
    entries, refused = [], []
    for file in chosen:
        try:
            is_new = file.name not in known.bytewise
            entries.append(_capture(file, files[file.name], collector, notes, plain=plain, is_new=is_new))
        except FileFormatError as error:
            refused.append(error)
    if refused:
        raise _all_refused(refused)
    return Captured(
        tuple(collector.leaves),
        files=tuple(entries),
        blobs=collector.blobs,
        notes=tuple(notes),
        origins=files,
        restored=collector.restored,
    )


def _why_none(top: pathlib.Path) -> str | None:
    if not (top / IGNORE_FILE).exists():
        return None
    return f"'{IGNORE_FILE}' may leave all of it out; a file that is named is committed all the same"


def _all_refused(errors: Sequence[FileFormatError]) -> FileFormatError:
    if len(errors) == 1:
        return errors[0]
    reasons = some_of([error.message for error in errors], _SHOWN, "; ")
    return FileFormatError(f"{len(errors)} files cannot be read: {reasons}")


def _capture(
    chosen: Chosen, file: StampedFile, collector: Collector, notes: list[str], *, plain: bool, is_new: bool
) -> FileEntry:
    claimed = format_of(file.path)
    kind = claimed if chosen.found_before else format_in(file)
    if kind is None:
        if chosen.named and is_new:
            notes.append(f"'{chosen.name}' is kept as it is: it is not of a format that mvcs reads")
        return _opaque(chosen, file, collector)
    reader, loosely = _readers(kind, chosen.name)
    mark = collector.mark()
    try:
        entry = reader(file, chosen.name, collector)
        if plain and kind is FileFormat.NPZ:  # whose checksums are compared when its arrays are read
            for leaf in collector.leaves[mark[0] :]:
                deque(leaf.views(), maxlen=0)
    except (FileFormatError, StateError) as error:
        # Half of a file says nothing about the whole.
        file.check()
        damaged = claimed is not None and not isinstance(error, UnsafeFileError | StateError)
        if damaged and not plain and not chosen.found_before:
            raise
        collector.undo(mark)
        entry = _opaque(chosen, file, collector) if damaged else _kept(chosen, file, collector, loosely)
        if is_new:
            how = ", and its tensors as such" if entry.format is FileFormat.BINARY else ""
            notes.append(f"'{chosen.name}' is kept as it is{how}: {error.message}")
    return entry


def _kept(chosen: Chosen, file: StampedFile, collector: Collector, loosely: Reader) -> FileEntry:
    """Keep a file byte for byte, and its tensors as such where they are found."""
    mark = collector.mark()
    try:
        return loosely(file, chosen.name, collector)
    except (FileFormatError, StateError):
        file.check()
        collector.undo(mark)
        return _opaque(chosen, file, collector)


def _readers(kind: FileFormat, name: str) -> tuple[Reader, Reader]:
    """Return what takes a file of a format apart, and what finds the tensors of an odd one."""
    if kind is FileFormat.TORCH:
        with needing_torch(f"reading '{name}'", hint=_READABLE):
            from mvcs.checkpoint.torch_files.torch_file import capture_loosely, capture_torch

        return capture_torch, capture_loosely
    if kind is FileFormat.SAFETENSORS:
        return capture_safetensors, capture_odd_safetensors
    return capture_npz, partial(capture_npz, loosely=True)


def _opaque(chosen: Chosen, file: StampedFile, collector: Collector) -> FileEntry:
    return FileEntry(chosen.name, FileFormat.OPAQUE, collector.blob(file.span()))


def export_file(
    content: ContentReader,
    target: pathlib.Path,
    fmt: FileFormat,
    keep: Collection[int] | None = None,
    names: Mapping[str, int] | None = None,
    opener: Callable[[str, int], int] | None = None,
) -> list[str]:
    """Write a state, or the tensors of a commit's files, as one new file, durably.

    Tensors are named by their keys joined with dots; a file's own path is not part of the name. A torch file
    keeps the structure of a state or of a single file.

    Args:
        content: of the tree to write; each leaf is asked for at most once, in the order of the leaves.
        target: a temporary name beside the final one; an existing file is overwritten.
        fmt: safetensors, torch or npz.
        keep: the leaves to write; None writes all.
        names: the tensors to write by what they are called there, instead of `keep`.
        opener: opens `target` in place of `os.open`.

    Returns:
        What the format cannot hold, or holds as another type: a line each, beginning with the path.

    Raises:
        UsageError: two tensors would have one name, the format is none of the three, or torch is not
            installed and a torch file is asked for.
        CorruptionError: the tree or what is read for it does not fit together.
        StorageError: the disk refused it.
    """
    with durable_file(target, opener) as file:
        return export_to(file, content, fmt, keep, names)
