"""The way out of a commit: its packs, verified chunks, and a state again.

Here too: tensors by the one name that `load_state_dict` takes, and what is said of names that are none.
"""

import functools
import glob
import shlex
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from mvcs.checkpoint import ContentReader, needing_torch, numpy_view, rebuild_state
from mvcs.delta import Content
from mvcs.errors import CorruptionError, NotFoundError, StorageError, UsageError, meant, not_found, some_of
from mvcs.history import Revision
from mvcs.objects import (
    ObjectId,
    RootLattice,
    Tree,
    chunk_elements,
    files_in,
    part_alone,
    part_of,
    path_text,
    short_id,
)
from mvcs.progress import SILENT, Progress
from mvcs.restore.handed_out import HANDED_OUT
from mvcs.restore.size_allowance import UNLIMITED, Allowance, state_bytes
from mvcs.retention import explained, has_exact_layer
from mvcs.store import ObjectStore

EXACT_LAYER, VALUE_LAYER = "exact", "value"
NAMES_LISTED = 8
_LARGE = 1 << 22  # bytes of leaves that are worth a thread of their own
_SMALL = (
    1 << 18
)  # bytes of a chunk: to read a smaller one is Python's work, of which threads have one at a time
_COPIES = 4  # of a chunk at most, while it is read: its payload, codes, values, and where it goes


class _Part(NamedTuple):
    """A chunk of a leaf, and the memory of the whole leaf that it goes to.

    Attributes:
        leaf: its index.
        number: of the chunk.
        chunks: how many chunks the leaf has.
        begin: the byte of the leaf that the chunk begins at.
        size: bytes of the chunk.
        memory: as many bytes as the leaf has.
    """

    leaf: int
    number: int
    chunks: int
    begin: int
    size: int
    memory: memoryview


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
        return not self.exact and any(leaf.original is not None for leaf in self.tree.leaves)

    def leaves(self, indices: Sequence[int]) -> Iterator[memoryview]:
        """Yield the bytes of leaves in this order, every chunk verified; the next are read meanwhile.

        Raises:
            LimitError: one is larger than what is allowed, or than this machine's memory.
        """
        made: deque[memoryview] = deque()

        def memory_of(index: int) -> memoryview:
            size = self.tree.leaves[index].raw_bytes
            self.allowance.check_memory(size)
            made.append(np.empty(size, np.uint8).data)
            return made[-1]

        with closing(self.fill(indices, memory_of)) as filled:
            for _ in filled:
                yield made.popleft()

    def fill(
        self, indices: Sequence[int], memory_of: Callable[[int], memoryview]
    ) -> Generator[int, None, None]:
        """Put leaves into memory as large as they are, side by side, every chunk verified.

        Args:
            indices: the leaves.
            memory_of: gives the memory of one; asked in order, shortly before it is needed.

        Yields:
            Each index when its leaf is there, in order.

        Raises:
            CorruptionError: they are damaged, or have not so many bytes.
        """
        total = sum(self.tree.leaves[index].raw_bytes for index in indices)
        with closing(self.store.memory.side_by_side(self._jobs(indices, memory_of), total)) as done:
            for filled in done:
                yield from filled

    def _jobs(
        self, indices: Sequence[int], memory_of: Callable[[int], memoryview]
    ) -> Iterator[tuple[Callable[[], list[int]], int]]:
        """Yield what fills about as many bytes each as are worth a thread, and what it takes meanwhile."""
        parts: list[_Part] = []
        size = needed = 0
        for run in _runs(self.tree, indices, exact=self.exact):
            counts = [self.store.chunk_count(self.tree.leaves[index], exact=self.exact) for index in run]
            memories: list[memoryview] = []
            for number in range(max(1, *counts)):
                if size >= _LARGE and not self._share(parts[-1], run[0], number):
                    needed = needed + _COPIES * size if size >= _SMALL * len(parts) else 0
                    yield functools.partial(self._fill, parts), needed
                    parts, size, needed = [], 0, 0
                if not memories:
                    memories = [*map(memory_of, run)]
                    needed += sum([memory.nbytes for memory in memories])
                for index, count, memory in zip(run, counts, memories, strict=True):
                    whole = most = memory.nbytes
                    if count > 1:
                        dtype = self.tree.leaves[index].dtype
                        most = chunk_elements(dtype) * dtype.itemsize
                    if number < max(count, 1):
                        long = min(most, whole - number * most)
                        parts.append(_Part(index, number, count, number * most, long, memory))
                        size += long
        if parts:
            large = size >= _LARGE and size >= _SMALL * len(parts)
            yield functools.partial(self._fill, parts), needed + _COPIES * size if large else 0

    def _share(self, part: _Part, index: int, number: int) -> bool:
        """Tell whether two chunks lie in one entry, which one thread should decode for both."""
        entries = [
            self.store.entry_of(self.tree.leaves[leaf], chunk, exact=self.exact)
            for leaf, chunk in ((part.leaf, part.number), (index, number))
        ]
        return entries[0] is not None and entries[0] == entries[1]

    def _fill(self, parts: "list[_Part]") -> list[int]:
        """Fill parts of memory, which is let go of then; return the leaves that have their last one."""
        filled, done = [], 0
        wanted = [
            (self.tree.leaves[part.leaf], part.number, part.memory[part.begin : part.begin + part.size])
            for part in parts
            if part.chunks
        ]
        chunks = self.store.several(wanted, exact=self.exact)
        for part in parts:
            size, chunk = part.memory.nbytes, next(chunks) if part.chunks else b""
            end, is_last = part.begin + len(chunk), part.number + 1 >= part.chunks
            if end > size or (is_last and end != size):
                some = f"{end} bytes" if end < size else "more bytes"
                raise CorruptionError(f"leaf {part.leaf} has {some} where its shape needs {size}")
            if len(chunk) < _SMALL:
                part.memory[part.begin : end] = chunk
            else:  # as memory is copied by numpy, other threads go on
                to, found = (
                    np.frombuffer(part.memory, np.uint8)[part.begin : end],
                    np.frombuffer(chunk, np.uint8),
                )
                if not np.may_share_memory(to, found):  # where it was not put there at once
                    to[:] = found
            done += len(chunk)
            if done >= _SMALL:
                self.progress.advance(done)
                done = 0
            if is_last:
                filled.append(part.leaf)
        self.progress.advance(done)
        parts.clear()
        return filled

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
        return ContentReader(self.tree, self.leaves, self.blob, self.pieces, restored)

    def blob(self, identifier: ObjectId, length: int) -> bytearray:
        """Return the bytes of a blob."""
        self.allowance.check_memory(length)
        data, end = bytearray(length), 0
        for piece in self.pieces(identifier, length):
            data[end : end + len(piece)] = piece
            end += len(piece)
        return data

    def pieces(self, identifier: ObjectId, length: int) -> Iterator[Content]:
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
    branches: Sequence[str] = (),
) -> Reading:
    """Attach the packs a commit needs and read its tree.

    Args:
        store: where it lies.
        revision: the commit.
        progress: is told the bytes done.
        exact: whether leaves come from the exact layer.
        allowance: how much may be restored.
        elsewhere: stores that may have more.
        branches: by which commits are called rather than by others, in errors.

    Raises:
        NotFoundError: `exact` is asked for and the exact layer is not (or no longer) stored.
        CorruptionError: something on the way is damaged.
    """
    store.catalog.attach_commit(revision.id)
    # Whoever reads data that were dropped on purpose hears when, and what is there instead.
    store.catalog.explains = functools.partial(explained, store, revision, None, branches)
    tree = store.tree(revision.commit.tree)
    store.catalog.explains = functools.partial(explained, store, revision, tree, branches)
    wanted = exact and any(leaf.original is not None for leaf in tree.leaves)
    if wanted:
        if not has_exact_layer(store.backend, revision):
            raise _without_exact(short_id(revision.id), elsewhere)
        store.catalog.attach_layer(revision.written.exact_packs)
        store.lean_on(tree, revision.written.exact_packs)
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
    chosen = range(len(reading.tree.leaves)) if names is None else dict.fromkeys(names.values())
    made = _made(reading, list(chosen), numpy=numpy)
    if names is not None:
        state: Any = {name: made[index] for name, index in names.items()}
    elif reading.tree.files is None:
        state = rebuild_state(reading.tree.root, made.__getitem__, reading.blob, plain=numpy)
    else:
        state = {
            entry.path: rebuild_state(entry.node, made.__getitem__, reading.blob, plain=numpy)
            for entry in reading.tree.files
        }
    reading.progress.finish()
    return state


def _made(reading: Reading, indices: list[int], *, numpy: bool) -> dict[int, Any]:
    """Return leaves as tensors of torch, or as arrays, by their indices."""
    leaves, made = reading.tree.leaves, dict[int, Any]()
    if numpy:
        for index, data in zip(indices, reading.leaves(indices), strict=True):
            made[index] = numpy_view(leaves[index].dtype, leaves[index].shape, data)
    else:
        from mvcs.checkpoint import tensor_to_fill

        def memory_of(index: int) -> memoryview:
            reading.allowance.check_memory(leaves[index].raw_bytes)
            made[index], memory = tensor_to_fill(leaves[index].dtype, leaves[index].shape)
            return memory

        with closing(reading.fill(indices, memory_of)) as filled:
            deque(filled, maxlen=0)
    for index in indices:
        if leaves[index].original is not None and not reading.exact:
            HANDED_OUT.mark(made[index], reading.revision.id.hex())
    return made


def _runs(tree: Tree, indices: Iterable[int], *, exact: bool) -> Iterator[list[int]]:
    """Yield leaves one by one, but one with the next where that is what its values are in units of."""
    run: list[int] = []
    for index in indices:
        form = None if exact or not run else getattr(tree.leaves[run[-1]].tensor, "parameters", None)
        if run and not (isinstance(form, RootLattice) and form.root == tree.leaves[index].tensor):
            yield run
            run = []
        run.append(index)
    if run:
        yield run


def primitives(tree: Tree) -> Iterator[tuple[str, Any]]:
    """Yield path and value of every primitive leaf of a state, for `show` and `diff`."""
    for path, node in tree.nodes():
        if not isinstance(node, list | bytes):
            yield path_text(path), node


def missing_file_error(tree: Tree, who: str, rev: str, name: str) -> NotFoundError:
    """Return the error that a commit has no file of a name.

    Args:
        tree: what it holds.
        who: the commit, as a message says it.
        rev: the commit, as it is typed.
        name: of the file, or the part of a state.
    """
    parts = tree.parts
    command = _to_write_tensors(tree, rev, name)
    if command is not None:
        return NotFoundError(f"{who} has no file '{name}', which names {command[0]}", hint=command[1])
    if parts is None:
        known = [entry.path for entry in tree.files or ()]
        return not_found(f"{who} has no file '{name}'", name, known, f"'mvcs show {rev}' lists those it has")
    if name in parts:
        said = f"'{name}' is a part of the state that {who} holds, and no file"
        return NotFoundError(said, hint=ways_to_write(parts, rev, name))
    told = f"its parts are {some_of(parts, NAMES_LISTED)}; " if parts else ""
    said = f"{who} holds a state, committed from Python, and no file '{name}'"
    return NotFoundError(said, hint=told + ways_to_write(parts, rev))


def ways_to_write(parts: Sequence[str], rev: str, part: str | None = None, *, exact: bool = False) -> str:
    """Return how a part of a state, else its model, if it has one, or else all of it becomes a file."""
    layer = " --exact" if exact else ""
    if part is None and "model" not in parts:
        return f"'mvcs checkout {rev} -o state.safetensors{layer}' writes it to a file"
    what = "its model" if part is None else "that part"
    part = part or "model"
    return f"'mvcs checkout {rev}:{part} -o {part}.safetensors{layer}' writes {what} to a file"


def _to_write_tensors(tree: Tree, rev: str, name: str) -> tuple[str, str] | None:
    """Return what a name stands for, and how that becomes a file, where it is a tensor's or begins some's."""
    holder = _holder(tree, name)
    if holder is None or name in (tree.parts or ()):
        return None
    where, pattern = rev, glob.escape(name)
    if tree.files is not None:
        where, pattern = f"{rev}:{holder}", glob.escape(name.removeprefix(f"{holder}."))
    single = any(text == name for text, _ in _spellings(tree))
    words = ["mvcs", "checkout", where, "--tensor", pattern if single else f"{pattern}.*"]
    what = ("a tensor", "it") if single else ("several tensors", "them")
    return what[0], f"this writes {what[1]} to a file: {shlex.join(words)} -o FILE.safetensors"


def _spellings(tree: Tree) -> Iterable[tuple[str, str]]:
    """Yield what each tensor can be called, with the file or the part it stands in."""
    for path, _ in tree.tensor_paths():
        whole, holder = path_text(path), str(path[0]) if path else ""
        yield whole, holder
        if tree.files is not None:
            yield path_text(path[1:]), holder


def _holder(tree: Tree, name: str) -> str | None:
    """Return the file or part that has a tensor of a name, or tensors whose names begin so."""
    found = (holder for text, holder in _spellings(tree) if f"{text}.".startswith(f"{name}."))
    return next(found, None)


def on_neither_side_error(names: Collection[str], trees: Sequence[Tree]) -> NotFoundError:
    """Return the error that none of some names stands for something that is compared.

    Args:
        names: what is called so nowhere.
        trees: what is compared.
    """
    for name in names:
        holder = next((found for tree in trees if (found := _holder(tree, name))), None)
        if holder is not None:
            command = shlex.join(["--all", "--", holder])
            return NotFoundError(
                f"'{name}' names tensors, and only files, folders and parts of a state are compared",
                hint=f"this lists each tensor in '{holder}': mvcs diff ... {command}",
            )
    known = list(dict.fromkeys(name for tree in trees for name in _names_in(tree)))
    near = meant(next(iter(names)), known)
    such = f", such as '{known[0]}'" if known and not near else ""
    either = some_of([f"'{name}'" for name in names], NAMES_LISTED, " or ")
    return NotFoundError(
        f"neither side has a file, a folder or a part named {either}",
        hint=f"{near and f'{near} '}a name is that of a file, a folder, or a part of a state{such}; "
        "'mvcs diff ... --all' lists each tensor",
    )


def _names_in(tree: Tree) -> Iterable[str]:
    if tree.files is None:
        return tree.parts or ()
    paths = [entry.path for entry in tree.files]
    folders = [str(folder) for path in paths for folder in PurePosixPath(path).parents]
    return [*paths, *(folder for folder in folders if folder != ".")]


def flat_names(tree: Tree, pattern: str | None, prefix: str = "") -> dict[str, int]:
    """Return the leaves of tensors by their paths, without a prefix; tied ones have all their names.

    Args:
        tree: what a commit holds.
        pattern: a glob of paths, or of paths behind the file's name; None for all that begin with the prefix.
        prefix: what is taken off from paths that begin with it.

    Raises:
        NotFoundError: nothing matches.
        UsageError: without the prefix two tensors would have one name.
    """
    found: dict[str, int] = {}
    for path, index in tree.tensor_paths():
        names = [path_text(path), *([path_text(path[1:])] if tree.files is not None else [])]
        begun = next((name for name in names if name.startswith(prefix)), None)
        is_chosen = begun if pattern is None else any(fnmatchcase(name, pattern) for name in names)
        if not is_chosen:
            continue
        name = names[0] if begun is None else begun.removeprefix(prefix)
        if name in found:
            raise UsageError(f"without '{prefix}' two tensors would be called '{name}'")
        found[name] = index
    if not found:
        asked = f"begins with '{prefix}'" if pattern is None else f"matches '{pattern}'"
        raise NotFoundError(f"no tensor {asked}", hint="'mvcs show REV --all' lists the tensors")
    return found
