"""The checkout flow: a commit, its packs, verified chunks, and a state or files again."""

import functools
import os
import pathlib
import shlex
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from mvcs.checkpoint import ContentReader, Stamp, needing_torch, numpy_array, rebuild_state, write_file
from mvcs.errors import CorruptionError, MvcsError, NotFoundError, StorageError
from mvcs.history import Revision
from mvcs.local_files import sweep, temporary_name
from mvcs.objects import (
    FileEntry,
    ObjectId,
    Tree,
    acting_paths,
    files_in,
    part_alone,
    part_of,
    path_text,
    short_id,
)
from mvcs.progress import SILENT, Progress
from mvcs.restore.allowance import UNLIMITED, Allowance, file_bytes, state_bytes
from mvcs.restore.flat_names import flat_names
from mvcs.restore.handed_out import HANDED_OUT
from mvcs.restore.own_paths import refuse_bare, targets_of
from mvcs.restore.unknown_names import missing_file_error
from mvcs.retention import is_kept
from mvcs.store import ObjectStore

EXACT_LAYER, VALUE_LAYER = "exact", "value"

Announce = Callable[[pathlib.Path], None]
Ready = Callable[[Sequence[tuple[pathlib.Path, pathlib.Path]]], None]
"""Is told where a temporary file will lie, before it does."""


@dataclass(frozen=True)
class Reading:
    """One commit opened for reading, in one layer.

    Attributes:
        store: where its objects lie; the packs it needs are attached.
        revision: the commit.
        tree: what it holds.
        exact: whether leaves come from the exact layer.
        progress: is told the bytes done.
        allowance: how much may be restored.
        partial: whether the tree is but a part of what the commit holds.
    """

    store: ObjectStore
    revision: Revision
    tree: Tree
    exact: bool
    progress: Progress
    allowance: Allowance = UNLIMITED
    partial: bool = False

    @property
    def layer(self) -> str:
        """Which layer this is; an exact commit's only layer is exact."""
        return EXACT_LAYER if self.exact or not self.lossy else VALUE_LAYER

    @property
    def lossy(self) -> bool:
        """Whether what is read differs from what was handed over."""
        return not self.exact and any(leaf.exact is not None for leaf in self.tree.leaves)

    def leaf(self, index: int) -> bytearray:
        """Return the bytes of leaf `index`, every chunk verified.

        Raises:
            LimitError: it is larger than what is allowed, or than this machine's memory.
        """
        leaf = self.tree.leaves[index]
        self.allowance.check_memory(leaf.raw_bytes)
        data = bytearray(leaf.raw_bytes)
        self.fill(index, memoryview(data))
        return data

    def fill(self, index: int, memory: memoryview) -> None:
        """Put the bytes of leaf `index` into memory that is as large as it, every chunk verified.

        Raises:
            CorruptionError: they are damaged, or not so many.
        """
        leaf, end = self.tree.leaves[index], 0
        for chunk in self.store.chunks(leaf, exact=self.exact):
            begin, end = end, end + len(chunk)
            if end > leaf.raw_bytes:
                break
            memory[begin:end] = chunk
            self.progress.advance(len(chunk))
        if end != leaf.raw_bytes:
            some = f"{end} bytes" if end < leaf.raw_bytes else "more bytes"
            raise CorruptionError(f"leaf {index} has {some} where its shape needs {leaf.raw_bytes}")

    def of_files(self, names: Collection[str]) -> "Reading":
        """Return the reading of some of the files: those of these names, and those in folders of these names.

        Raises:
            NotFoundError: the commit has nothing of one of the names.
        """
        for name in names:
            if not files_in(self.tree, [name]):
                raise self._lacking(name)
        return replace(self, tree=part_of(self.tree, files_in(self.tree, names)), partial=True)

    def at(self, name: str) -> "Reading":
        """Return the reading of a file, of the files in a folder, or of one part of a state, as a state.

        Raises:
            NotFoundError: the commit has nothing of that name.
        """
        if self.tree.files is not None:
            return self.of_files([name])
        alone = part_alone(self.tree, name)
        if alone is None:
            raise self._lacking(name)
        return replace(self, tree=alone, partial=True)

    def _lacking(self, name: str) -> NotFoundError:
        rev = short_id(self.revision.id)
        return missing_file_error(self.tree, f"commit {rev}", rev, name)

    @property
    def content(self) -> ContentReader:
        """What writers of files read."""
        restored = self.revision.id.hex() if self.lossy else None
        return ContentReader(self.tree, self.leaf, self.blob, self.pieces, restored)

    def blob(self, identifier: ObjectId, length: int) -> bytearray:
        """Return the bytes of a blob."""
        self.allowance.check_memory(length)
        data, end = bytearray(length), 0
        for piece in self.pieces(identifier, length):
            data[end : end + len(piece)] = piece
            end += len(piece)
        return data

    def pieces(self, identifier: ObjectId, length: int) -> Iterator[bytes]:
        """Yield the bytes of a blob chunk by chunk, each verified; `allowance` is not asked.

        Raises:
            CorruptionError: they are damaged, or not so many.
        """
        for piece in self.store.blob(identifier, length):
            self.progress.advance(len(piece))
            yield piece


def open_reading(
    store: ObjectStore,
    revision: Revision,
    progress: Progress,
    *,
    exact: bool = False,
    allowance: Allowance = UNLIMITED,
    elsewhere: Sequence[str] = (),
) -> Reading:
    """Attach the packs a commit needs and read its tree; `elsewhere` are stores that may have more.

    Raises:
        NotFoundError: `exact` is asked for and the exact layer is not (or no longer) stored.
        CorruptionError: something on the way is damaged.
    """
    store.catalog.attach_commit(revision.written.pack)
    tree = store.tree(revision.commit.tree)
    wanted = exact and any(leaf.exact is not None for leaf in tree.leaves)
    if wanted:
        if not is_kept(store.backend, revision):
            raise _without_exact(short_id(revision.id), elsewhere)
        store.catalog.attach_layer(revision.written.exact_packs)
    return Reading(store, revision, tree, wanted, progress, allowance)


def _without_exact(rev: str, elsewhere: Sequence[str]) -> NotFoundError:
    where = "another store" if not elsewhere else "a remote" if len(elsewhere) == 1 else "one of the remotes"
    address = shlex.quote(elsewhere[0]) if elsewhere else "URL"
    return NotFoundError(
        f"the exact layer of commit {rev} is not stored (any more)",
        hint=f"leave out --exact for quantized values; "
        f"if {where} kept exact ones: mvcs -C {address} checkout {rev} -o PATH --exact",
    )


def state_parts(store: ObjectStore, revision: Revision) -> list[str] | None:
    """Return the names at the top of the state that a commit holds; None for files, or damage."""
    try:
        return open_reading(store, revision, SILENT).tree.parts
    except (CorruptionError, NotFoundError, StorageError):
        return None


def open_best(
    store: ObjectStore, revision: Revision, progress: Progress, *, allowance: Allowance = UNLIMITED
) -> Reading:
    """Open the exact layer when all of it is stored, the value layer otherwise."""
    try:
        return open_reading(store, revision, progress, exact=True, allowance=allowance)
    except NotFoundError:
        return open_reading(store, revision, progress, allowance=allowance)


def select(tree: Tree, pattern: str | None) -> set[int] | None:
    """Return the leaves whose path, or path behind the file's name, matches a glob; None for all.

    Raises:
        NotFoundError: nothing matches.
    """
    if pattern is None:
        return None
    chosen = set()
    for path, index in tree.tensor_paths():
        names = {path_text(path), path_text(path[1:]) if tree.files is not None else path_text(path)}
        if any(fnmatchcase(name, pattern) for name in names):
            chosen.add(index)
    if not chosen:
        raise NotFoundError(f"no tensor matches '{pattern}'", hint="'mvcs show REV --all' lists the tensors")
    return chosen


def build_state(reading: Reading, *, numpy: bool, pattern: str | None, prefix: str | None = None) -> Any:  # noqa: ANN401 - a state is anything
    """Return the state a commit holds; with a pattern or a prefix, a flat dict of the tensors that match.

    A commit of files gives a dict from file name to content. Where arrays are asked for, nothing in it is
    torch's: a size is a tuple, a dtype or a device its name.

    Raises:
        NotFoundError: no tensor matches.
        UsageError: without the prefix two tensors would have one name; or torch is not installed.
        LimitError: it is larger than what is allowed, or than this machine's memory.
    """
    with needing_torch("a state of torch tensors", hint="numpy=True gives arrays, and needs no torch"):
        return _built(reading, pattern, prefix, numpy=numpy)


def _built(reading: Reading, pattern: str | None, prefix: str | None, *, numpy: bool) -> Any:  # noqa: ANN401
    names = None
    if pattern is not None or prefix is not None:
        names = flat_names(reading.tree, pattern, prefix or "")
    size = state_bytes(reading.tree, None if names is None else set(names.values()))
    reading.allowance.check_memory(size)
    reading.progress.start("restoring", size, "bytes")
    make = _maker(reading, numpy=numpy)
    if names is not None:
        tied = functools.cache(make)
        state: Any = {name: tied(index) for name, index in names.items()}
    elif reading.tree.files is None:
        state = rebuild_state(reading.tree.root, make, reading.blob, plain=numpy)
    else:
        shared = functools.cache(make)
        state = {
            entry.path: rebuild_state(entry.node, shared, reading.blob, plain=numpy)
            for entry in reading.tree.files
        }
    reading.progress.finish()
    return state


def _maker(reading: Reading, *, numpy: bool) -> Callable[[int], Any]:
    def make(index: int) -> Any:  # noqa: ANN401 - torch's or numpy's
        leaf = reading.tree.leaves[index]
        if numpy:
            made: Any = numpy_array(leaf.dtype, leaf.shape, reading.leaf(index))
        else:
            from mvcs.checkpoint import filled_tensor

            reading.allowance.check_memory(leaf.raw_bytes)
            made = filled_tensor(leaf.dtype, leaf.shape, functools.partial(reading.fill, index))
        if leaf.exact is not None and not reading.exact:
            HANDED_OUT.mark(made, reading.revision.id.hex())
        return made

    return make


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
        UsageError: a path leads through a symbolic link out of the folder, or into a store.
        CorruptionError: a path acts on whoever restores it, also with what lies in the folder.
    """
    refuse_acting(reading.tree)
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


def refuse_acting(tree: Tree) -> None:
    """Refuse to restore files that act on whoever restores them, before anything is written.

    Raises:
        CorruptionError: version control tools would obey one of them; the error names it.
    """
    found = next(acting_paths(entry.path for entry in tree.files or ()), None)
    if found is not None:
        raise CorruptionError(
            f"'{found}' is not restored: version control tools would act on it, and run what it names",
            hint="tensors of the commit can be written to one file: mvcs checkout REV -o FILE.safetensors",
        )


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


def primitives(tree: Tree) -> Iterator[tuple[str, Any]]:
    """Yield path and value of every primitive leaf of a state, for `show` and `diff`."""
    for path, node in tree.nodes():
        if not isinstance(node, list | bytes):
            yield path_text(path), node
