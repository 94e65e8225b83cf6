"""Leaves as they were handed over: each hashed, stored near the parent's, and named in the tree."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

from mvcs.checkpoint import Captured, CapturedLeaf
from mvcs.commits.plan.anatomy import Anatomy
from mvcs.commits.plan.predecessors import predecessors, shapes, shapes_of
from mvcs.commits.plan.treatments import Planned, Treatment
from mvcs.delta import ElementFormat
from mvcs.errors import ConflictError, CorruptionError, NotFoundError
from mvcs.objects import BLOB_CHUNK_BYTES, ExactTensor, Kind, Leaf, ObjectId, Path, Tree, blob_reference
from mvcs.progress import Progress
from mvcs.store import EntryBase, Near, ObjectStore, ObjectWriter


@dataclass(frozen=True)
class Bases:
    """The parent's leaves by path, among which a leaf looks for its base.

    Attributes:
        leaves: by full path; of files that new ones continue also by the paths they have there.
    """

    leaves: Mapping[Path, Leaf] = field(default_factory=dict)

    @classmethod
    def of(cls, parent: Tree | None, captured: Captured, behind: Tree | None = None) -> "Bases":
        """Index a parent tree for what was captured; leaves that it lacks are looked for in the one behind.

        A file whose path the parent lacks takes the leaves of the parent's file that is most like it.
        """
        if parent is None:
            return cls()
        trees = [behind, parent] if behind else [parent]
        leaves = {
            path: leaf for tree in trees for path, leaf in zip(tree.leaf_paths(), tree.leaves, strict=True)
        }
        old = {entry.path for entry in parent.files or ()}
        if old and any(entry.path not in old for entry in captured.files or ()):
            found = ((leaf.path, leaf.dtype, leaf.shape) for leaf in captured.leaves)
            twins = predecessors(shapes(captured.files, found), shapes_of(parent))
            leaves |= dict(_renamed(parent, twins))
        return cls(leaves)

    def find(self, leaf: CapturedLeaf) -> Leaf | None:
        """Return the parent's leaf of the same path, dtype and shape."""
        found = self.leaves.get(leaf.path)
        return found if found and (found.dtype, found.shape) == (leaf.dtype, leaf.shape) else None


def _renamed(parent: Tree, twins: Mapping[str, str]) -> Iterator[tuple[Path, Leaf]]:
    """Yield leaves of the parent by the paths they have in the files that continue theirs."""
    found: dict[object, list[tuple[Path, Leaf]]] = {}
    for path, leaf in zip(parent.leaf_paths(), parent.leaves, strict=True):
        found.setdefault(path[0], []).append((path, leaf))
    for new, old in twins.items():
        yield from (((new, *path[1:]), leaf) for path, leaf in found.get(old, ()))


@dataclass
class _Kept:
    """A leaf that is being stored: its number, the parent's chunks, and its own so far."""

    index: int
    old: tuple[ObjectId, ...]
    chunks: list[ObjectId] = field(default_factory=list)


Stored = list[tuple[int, Leaf]]
_LARGE = 1 << 22  # bytes of a group of leaves that is worth a thread of its own


@dataclass(frozen=True)
class ExactLeaves:
    """Stores leaves bit for bit.

    Attributes:
        anatomy: what was handed over; leaves of one role may share an entry.
        bases: the parent's leaves.
        writer: takes the objects.
        store: where bases come from.
    """

    anatomy: Anatomy
    bases: Bases
    writer: ObjectWriter
    store: ObjectStore

    @property
    def captured(self) -> Captured:
        """What was handed over."""
        return self.anatomy.captured

    def groups(self) -> list[list[Planned]]:
        """Return all leaves in groups: a leaf, then the low-precision copies of it."""
        copies = self.anatomy.copies
        found = {
            i: [Planned(i, Treatment.EXACT)] for i in range(len(self.captured.leaves)) if i not in copies
        }
        for copy, master in copies.items():
            found[master].append(Planned(copy, Treatment.EXACT, master))
        return list(found.values())

    def keep_all(self, group: Iterable[Planned]) -> Stored:
        """Store a group: of all its leaves a chunk, near that of the first where they are copies of it."""
        kept = [_Kept(item.index, self._old_chunks(item.index)) for item in group]
        leaves = [self.captured.leaves[one.index] for one in kept]
        # The grid counts elements, so that chunks of all of them cover the same ones.
        for parts in zip(*(leaf.chunks() for leaf in leaves), strict=True):
            wide = None
            for one, part in zip(kept, parts, strict=True):
                identifier = self._keep_chunk(one, part, wide)
                wide = wide or Near(EntryBase(identifier), partial(_itself, part))
        return [(one.index, self._described(one)) for one in kept]

    def keep(self, index: int) -> Leaf:
        """Store a leaf, near the parent's exact leaf where that is smaller."""
        return self.keep_all([Planned(index, Treatment.EXACT)])[0][1]

    def _keep_chunk(self, one: "_Kept", part: memoryview, wide: Near | None) -> ObjectId:
        dtype, number = self.captured.leaves[one.index].dtype, len(one.chunks)
        near = Near(EntryBase(one.old[number]), _reader(self.store, one.old[number])) if one.old else None
        element = ElementFormat.of(dtype.itemsize, dtype.kind)
        company = self.anatomy.roles[one.index].value
        one.chunks.append(self.writer.put_chunk(part, element, near, wide, company=company))
        return one.chunks[-1]

    def _described(self, one: "_Kept") -> Leaf:
        leaf = self.captured.leaves[one.index]
        tensor = ExactTensor(leaf.dtype, leaf.shape, tuple(one.chunks))
        return Leaf(leaf.dtype, leaf.shape, self.writer.put(Kind.TENSOR, tensor.encode()))

    def _old_chunks(self, index: int) -> tuple[ObjectId, ...]:
        base = self.bases.find(self.captured.leaves[index])
        if base is None or base.exact is not None:
            return ()
        try:
            tensor = self.store.value_tensor(base)
        except (CorruptionError, NotFoundError):
            return ()  # the parent's tensor is damaged; this one is in hand and is stored alone
        return tensor.chunks if isinstance(tensor, ExactTensor) else ()


def store_tree(
    captured: Captured,
    groups: Iterable[list[Planned]],
    store: Callable[[list[Planned]], Stored],
    writer: ObjectWriter,
    threads: int,
    progress: Progress,
) -> Tree:
    """Store all leaves and blobs of what was captured.

    Args:
        captured: the state or files.
        groups: every leaf once.
        store: stores a group; called from several threads.
        writer: takes blobs.
        threads: how many large groups are stored at a time.
        progress: is told the bytes done.

    Raises:
        ConflictError: a file was written meanwhile; the error names it.
    """
    progress.start("storing", captured.raw_bytes, "bytes")
    leaves: dict[int, Leaf] = {}
    # An error must not leave threads that still write.
    with closing(_each(groups, store, captured, threads)) as each:
        for stored in each:
            leaves |= dict(stored)
            progress.advance(sum(leaf.raw_bytes for _, leaf in stored))
    for identifier, blob in captured.blobs.items():
        if writer.put_blob(blob.parts(BLOB_CHUNK_BYTES)) != identifier:
            raise _changed(captured, identifier)
        progress.advance(blob.length)
    captured.check()
    progress.finish()
    ordered = tuple(leaves[index] for index in range(len(captured.leaves)))
    return Tree(ordered, root=captured.root, files=captured.files)


def _each(
    groups: Iterable[list[Planned]],
    store: Callable[[list[Planned]], Stored],
    captured: Captured,
    threads: int,
) -> Generator[Stored, None, None]:
    """Store large groups side by side, and small ones in order, so that they share entries in order."""
    with ThreadPoolExecutor(threads) as pool:
        running: deque[Future[Stored]] = deque()
        for group in groups:
            size = sum(captured.leaves[item.index].raw_bytes for item in group)
            if threads < 2 or size < _LARGE:
                yield store(group)
                continue
            running.append(pool.submit(store, group))
            if len(running) > threads:
                yield running.popleft().result()
        for future in running:
            yield future.result()


def _reader(store: ObjectStore, identifier: ObjectId) -> Callable[[], bytes]:
    return lambda: store.read(Kind.CHUNK, identifier)


def _itself(part: memoryview) -> memoryview:
    return part


def _changed(captured: Captured, identifier: ObjectId) -> ConflictError:
    """Return the error for a blob that is not what was hashed when it was captured."""
    references = ((entry.path, blob_reference(entry.node)) for entry in captured.files or ())
    found = next((path for path, blob in references if blob and blob[0] == identifier), "a value")
    return ConflictError(f"'{found}' changed while it was read", hint="try again when nobody writes to it")
