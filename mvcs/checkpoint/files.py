"""Checkpoint files: captured into a commit, and written again from one."""

import os
import pathlib
import shlex
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import BinaryIO

from mvcs.checkpoint.chosen_files import NO_FILES, Chosen, KnownFiles, choose
from mvcs.checkpoint.formats.detection import check_tensor_name, format_in, format_of
from mvcs.checkpoint.formats.layout import write_laid_out
from mvcs.checkpoint.formats.npz_file import capture_npz, write_arrays, write_npz
from mvcs.checkpoint.formats.safetensors_file import (
    METADATA_KEY,
    build_header,
    can_hold,
    capture_odd_safetensors,
    capture_safetensors,
    length_prefix,
    marked,
    write_safetensors,
)
from mvcs.checkpoint.ignore_rules import IGNORE_FILE
from mvcs.checkpoint.state.arrays import numpy_dtype, rebuild_scalar
from mvcs.checkpoint.state.captured import Captured, Collector
from mvcs.checkpoint.state.stamped import StampedFile, storage_error
from mvcs.checkpoint.state.state import ContentReader
from mvcs.checkpoint.torch_files.torch_file import capture_loosely, capture_torch, write_torch
from mvcs.errors import (
    CorruptionError,
    FileFormatError,
    MvcsError,
    StateError,
    UnsafeFileError,
    UsageError,
    some_of,
)
from mvcs.objects import (
    FileEntry,
    FileFormat,
    NodeTag,
    Path,
    TensorFlag,
    Tree,
    Value,
    as_text,
    blob_reference,
    children_of,
    contents_of,
    pairs_of,
    path_text,
    tag_of,
    tensor_reference,
    walk_nodes,
)

_SHOWN = 50  # files of a folder that one error names
Reader = Callable[[StampedFile, str, Collector], FileEntry]
_NO_NAMES: Mapping[pathlib.Path, str] = MappingProxyType({})
_CONTAINERS = (NodeTag.LIST, NodeTag.TUPLE, NodeTag.DICT, NodeTag.ORDERED_DICT, NodeTag.COUNTER)
_WITHOUT_TORCH = "tensors are written without to a file that ends in .safetensors or .npz"


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
            link leaves its folder; or paths could not be restored on every system.
        FileFormatError: files are not what their suffixes say; the error names each.
        ConflictError: a file was written meanwhile, or a link stands where the commit before has files; the
            error names it.
    """
    chosen, notes = choose(paths, top, names, found_before, known, any_names=any_names)
    if not chosen:
        why = f"'{IGNORE_FILE}' may leave all of it out; a file that is named is committed all the same"
        hint = why if (top / IGNORE_FILE).exists() else None
        raise UsageError("there is no file to commit in what was named", hint=hint)
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
    reader, loosely = _readers(kind)
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


def _readers(kind: FileFormat) -> tuple[Reader, Reader]:
    """Return what takes a file of a format apart, and what finds the tensors of an odd one."""
    if kind is FileFormat.TORCH:
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
    tree = content.tree
    keep = keep if names is None else set(names.values())
    files = tree.files
    has_structure = files is None or (len(files) == 1 and files[0].format is not FileFormat.OPAQUE)
    with durable_file(target, opener) as file:
        if fmt is FileFormat.TORCH and keep is None and has_structure:
            return _export_structure(file, content)
        named = _named(tree, keep) if names is None else _renamed(tree, names)
        values = () if keep is not None else _values(tree)
        lost = list(dict.fromkeys(path_text(_without_metadata(path)) for path in values))
        if fmt is FileFormat.SAFETENSORS:
            return lost + _export_safetensors(file, content, named)
        if fmt is FileFormat.NPZ:
            return lost + _export_npz(file, content, named)
        if fmt is FileFormat.TORCH:
            pairs: list[Value] = [[one.name, [int(NodeTag.TENSOR), one.index, 0]] for one in named]
            _export_torch([int(NodeTag.DICT), pairs], content, file)
            return lost
        raise UsageError(f"nothing can be written in the format '{fmt}'")


@dataclass(frozen=True)
class Named:
    """One tensor of the new file: its name, its path in the commit, and its leaf."""

    name: str
    path: Path
    index: int


def _named(tree: Tree, keep: Collection[int] | None) -> list[Named]:
    wanted = None if keep is None else frozenset(keep)
    named: dict[str, Named] = {}
    for prefix, root in contents_of(tree.files, tree.root):
        for path, node in walk_nodes(root):
            reference = tensor_reference(node)
            if reference is None or (wanted is not None and reference[0] not in wanted):
                continue
            tensor = Named(path_text(path) or "tensor", prefix + path, reference[0])
            other = named.setdefault(tensor.name, tensor)
            if other is not tensor:
                raise UsageError(
                    f"'{path_text(other.path)}' and '{path_text(tensor.path)}' would both be '{tensor.name}'",
                    hint=_one_alone(tree, other.path),
                )
    return sorted(named.values(), key=lambda tensor: tensor.index)


def _one_alone(tree: Tree, path: Path) -> str:
    """Return how one of several tensors of a name is written, given its path."""
    if tree.files is None:
        return "all of the state, without --tensor, can be written to a .pt file"
    return f"name one file of the commit, such as REV:{path[0]}; or write all of it into a folder"


def _renamed(tree: Tree, names: Mapping[str, int]) -> list[Named]:
    paths = tree.leaf_paths()
    named = (Named(name, paths[index], index) for name, index in names.items())
    return sorted(named, key=lambda tensor: tensor.index)


def _values(tree: Tree) -> Iterator[Path]:
    for prefix, root in contents_of(tree.files, tree.root):
        for path, node in walk_nodes(root, prefix):
            inner = isinstance(node, list) and tensor_reference(node) is None and blob_reference(node) is None
            empty = inner and not any(children_of(node))
            if tensor_reference(node) is None and (
                not inner or (empty and tag_of(node)[0] not in _CONTAINERS)
            ):
                yield path


def _without_metadata(path: Path) -> Path:
    # The versions torch keeps beside a state dict are one thing to a reader, not one for each module.
    return path[:-2] if path[-3:-2] == ("_metadata",) and path[-1] == "version" else path


def _export_safetensors(file: BinaryIO, content: ContentReader, named: list[Named]) -> list[str]:
    leaves = content.tree.leaves
    held = [tensor for tensor in named if can_hold(leaves[tensor.index].dtype)]
    if any(tensor.name == METADATA_KEY for tensor in held):
        raise UsageError(f"safetensors cannot hold a tensor named '{METADATA_KEY}'")
    for tensor in held:
        check_tensor_name(tensor.name, FileFormat.SAFETENSORS)
    described = {tensor.name: (leaves[tensor.index].dtype, leaves[tensor.index].shape) for tensor in held}
    header, begins = build_header(described)
    restored = content.restored_from(tensor.index for tensor in held)
    header = header if restored is None else marked(header, restored)
    start = file.write(length_prefix(header)) + file.write(header)
    data, last = memoryview(b""), -1
    each = content.each([index for index, _ in groupby(tensor.index for tensor in held)])
    for tensor in held:
        if tensor.index != last:
            data, last = next(each), tensor.index
        file.seek(start + begins[tensor.name])
        file.write(data)
    return [path_text(tensor.path) for tensor in named if not can_hold(leaves[tensor.index].dtype)]


def _export_npz(file: BinaryIO, content: ContentReader, named: list[Named]) -> list[str]:
    write_arrays([(tensor.name, tensor.index) for tensor in named], content, file)
    kinds = [(path_text(tensor.path), content.tree.leaves[tensor.index].dtype) for tensor in named]
    return [f"{text} ({dtype.name}, as {numpy_dtype(dtype)})" for text, dtype in kinds if dtype.numpy is None]


def _export_structure(file: BinaryIO, content: ContentReader) -> list[str]:
    changed: list[str] = []
    (_, root), *_ = contents_of(content.tree.files, content.tree.root)
    _export_torch(_portable(root, (), changed), content, file)
    return changed


def _export_torch(node: Value, content: ContentReader, file: BinaryIO) -> None:
    with needing_torch("writing a file of torch.save", hint=_WITHOUT_TORCH):
        write_torch(node, content, file)


def _portable(node: Value, path: Path, changed: list[str]) -> Value:
    """Return a structure whose torch file the restricted loader reads; note what became another type."""
    if not isinstance(node, list):
        return node
    tag, rest = tag_of(node)
    reference = tensor_reference(node)
    if reference is not None and TensorFlag.NUMPY in reference[1]:
        changed.append(f"{path_text(path)} (numpy array, as a tensor)")
        return [int(NodeTag.TENSOR), reference[0], int(reference[1] & ~TensorFlag.NUMPY)]
    if tag is NodeTag.NUMPY_SCALAR:
        changed.append(f"{path_text(path)} (numpy scalar, as a number)")
        number = rebuild_scalar(*rest).item()
        return [int(NodeTag.COMPLEX), number.real, number.imag] if isinstance(number, complex) else number
    if tag is NodeTag.FROZENSET:
        changed.append(f"{path_text(path)} (frozenset, as a set)")
        return [int(NodeTag.SET), *rest]
    if tag is NodeTag.OBJECT and rest[0] not in ("dict", "Counter", "OrderedDict"):
        changed.append(f"{path_text(path)} ({as_text(rest[0], 'a kind')}, as a tuple of its parts)")
        tag, rest = NodeTag.TUPLE, rest[1:]
    return _portable_container(tag, rest, path, changed)


def _portable_container(tag: NodeTag, rest: list[Value], path: Path, changed: list[str]) -> Value:
    if tag in (NodeTag.LIST, NodeTag.TUPLE, NodeTag.OBJECT):
        return [int(tag), *(_portable(item, (*path, index), changed) for index, item in enumerate(rest))]
    if tag not in _CONTAINERS:
        return [int(tag), *rest]
    pairs: list[Value] = [[key, _portable(item, (*path, key), changed)] for key, item in pairs_of(rest[0])]
    return [int(tag), pairs, *(_portable(item, (*path, "_metadata"), changed) for item in rest[1:])]


def write_file(
    entry: FileEntry,
    content: ContentReader,
    target: pathlib.Path,
    opener: Callable[[str, int], int] | None = None,
) -> bool:
    """Write one file of a commit in full to `target`, durably; return whether it is laid out as it was.

    It comes back byte for byte from an exact layer, and laid out as it was from a value layer; a safetensors
    file that is not what was handed over says so. A torch or npz file without a layout, from an earlier
    version, has the same content. So has an npz file whose compressed arrays are not what was handed over, or
    are compressed otherwise here. A tensor at a time is held, but for a torch file without a layout.

    Args:
        entry: the file.
        content: of the commit's tree; each leaf is asked for once, in the order of the file.
        target: a temporary name beside the final one; an existing file is overwritten.
        opener: opens it in place of `os.open`.

    Raises:
        CorruptionError: the tree or what is read for it does not fit together.
        UsageError: it is a torch file, and torch is not installed.
        StorageError: the disk refused it.
    """
    with durable_file(target, opener) as file:
        if entry.format is FileFormat.SAFETENSORS:
            write_safetensors(entry, content, file)
        elif entry.header is not None and write_laid_out(entry, content, file):
            return True
        elif entry.format is FileFormat.NPZ:
            write_npz(entry, content, file)
            return entry.header is None or content.restored is not None
        elif entry.format is FileFormat.TORCH:
            line = f"mvcs checkout {shlex.quote(f'REV:{entry.path}')} -o FILE.safetensors"
            with needing_torch(f"writing '{entry.path}'", hint=f"its tensors are written without: {line}"):
                write_torch(entry.node, content, file)
        else:
            reference = blob_reference(entry.node)
            if reference is None:
                raise CorruptionError(f"the file '{entry.path}' has no content")
            file.writelines(content.pieces(*reference))
    return True


@contextmanager
def durable_file(target: pathlib.Path, opener: Callable[[str, int], int] | None = None) -> Iterator[BinaryIO]:
    """Give a new file to write, which is on the disk when that ends.

    Raises:
        StorageError: it cannot be written.
    """
    try:
        with open(target, "w+b", opener=opener) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if isinstance(error, MvcsError):
            raise
        raise storage_error("write", target, error) from error


@contextmanager
def needing_torch(what: str, hint: str) -> Iterator[None]:
    """Do something that imports torch.

    Args:
        what: what is done, such as "writing 'model.pt'".
        hint: what can be done without torch.

    Raises:
        UsageError: torch is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UsageError(f"{what} needs torch, which is not installed", hint=hint) from None
