"""All leaves and blobs of a commit are stored: large groups side by side, small ones in order."""

import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from typing import TypeVar

from mvcs.checkpoint import Captured, CapturedLeaf
from mvcs.commits.before.parent import Bases
from mvcs.commits.leaves.coded_tensor import CodedTensor, GivenLeaf
from mvcs.commits.plan.anatomy import Anatomy
from mvcs.commits.plan.treatments import Planned, Treatment
from mvcs.delta import IDLE_BYTES, ElementFormat, release_idle
from mvcs.errors import ConflictError
from mvcs.memory import Budget, Use
from mvcs.objects import (
    BLOB_CHUNK_BYTES,
    ExactTensor,
    Kind,
    Lattice,
    Leaf,
    ObjectId,
    QuantizedTensor,
    RootLattice,
    Tree,
    blob_reference,
    chunk_elements,
    object_id,
)
from mvcs.progress import Progress
from mvcs.quantize import Coded, RestoredTensor
from mvcs.store import EntryBase, Near, ObjectStore, ObjectWriter, StoredCodes

_LARGE = 1 << 22  # bytes of a group of leaves that is worth a thread of its own
_SMALL = 1 << 14  # bytes of a leaf that takes no longer to hash twice, where it did change, than to prepare
_COPIES = 8  # of a chunk at most, while it is stored: itself, as floats, restored, codes, bases, payloads
Stored = list[tuple[int, Leaf]]
_MARK = ElementFormat(1, floating=False)
Given = TypeVar("Given")
Got = TypeVar("Got")


def store_tree(
    captured: Captured,
    same: Mapping[int, Leaf],
    waves: Iterable[Iterable[list[Planned]]],
    store: Callable[[list[Planned]], Stored],
    writer: ObjectWriter,
    memory: Budget,
    progress: Progress,
) -> Tree:
    """Store all leaves and blobs of what was captured.

    Args:
        captured: the state or files.
        same: leaves that are stored already, by their numbers.
        waves: every other leaf once, in groups. What one wave stored, the next may be stored near.
        store: stores a group; called from several threads.
        writer: takes blobs, and places what waits for company after each wave but the last.
        memory: what groups may take together that are stored side by side; one that takes more is alone.
        progress: is told the bytes done.

    Raises:
        ConflictError: a file was written meanwhile; the error names it.
    """
    progress.start("storing", captured.raw_bytes, "bytes")
    progress.advance(sum(captured.leaves[index].raw_bytes for index in same))
    leaves = dict(same)
    for number, groups in enumerate(waves):
        if number:
            writer.gather()
        jobs = _jobs(groups, store, captured, lean=memory.limit(Use.POOL) < IDLE_BYTES)
        with closing(memory.side_by_side(jobs, captured.raw_bytes)) as each:
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


def _jobs(
    groups: Iterable[list[Planned]],
    store: Callable[[list[Planned]], Stored],
    captured: Captured,
    *,
    lean: bool,
) -> Iterator[tuple[Callable[[], Stored], int]]:
    """Yield what stores each group; small ones are stored in order, so that they share entries in order."""
    for group in groups:
        if lean:
            release_idle()
        leaves = [captured.leaves[item.index] for item in group]
        is_large = sum(leaf.raw_bytes for leaf in leaves) >= _LARGE
        yield partial(store, group), _working_bytes(leaves) if is_large else 0


def _working_bytes(leaves: Iterable[CapturedLeaf]) -> int:
    """Return about how many bytes it takes to store a group: copies of a chunk, and all codes and moves."""
    found = list(leaves)
    largest = max(min(leaf.raw_bytes, chunk_elements(leaf.dtype) * leaf.dtype.itemsize) for leaf in found)
    return _COPIES * largest + sum(leaf.raw_bytes for leaf in found)


def _changed(captured: Captured, identifier: ObjectId) -> ConflictError:
    """Return the error for a blob that is not what was hashed when it was captured."""
    references = ((entry.path, blob_reference(entry.node)) for entry in captured.files or ())
    found = next((path for path, blob in references if blob and blob[0] == identifier), "a value")
    return ConflictError(f"'{found}' changed while it was read", hint="try again when nobody writes to it")


@dataclass
class _Kept:
    """A leaf that is being stored: its number, the parent's leaf where that is exact, and chunks so far."""

    index: int
    old: Leaf | None
    chunks: list[ObjectId] = field(default_factory=list)

    def stored(self, leaf: CapturedLeaf) -> Leaf:
        """Return what stands in the tree."""
        return Leaf(ExactTensor(leaf.dtype, leaf.shape, tuple(self.chunks)))


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

    def unchanged(self) -> dict[int, Leaf]:
        """Return the small leaves that are the parent's, by their numbers; no copies, nor what has some."""
        grouped = {*self.anatomy.copies, *self.anatomy.copies.values()}
        return self._same(index for index in range(len(self.anatomy.captured.leaves)) if index not in grouped)

    def groups(self, same: Container[int]) -> list[list[Planned]]:
        """Return all leaves but `same` in groups: a leaf, then the low-precision copies of it."""
        copies = self.anatomy.copies
        found = {
            i: [Planned(i, Treatment.EXACT)]
            for i in range(len(self.anatomy.captured.leaves))
            if i not in copies and i not in same
        }
        for copy, master in copies.items():
            found[master].append(Planned(copy, Treatment.EXACT, master))
        return list(found.values())

    def keep_all(self, group: Iterable[Planned]) -> Stored:
        """Store a group: of all its leaves a chunk, near that of the first where they are copies of it."""
        kept = [_Kept(item.index, self._exact_base(item.index)) for item in group]
        leaves = [self.anatomy.captured.leaves[one.index] for one in kept]
        # The grid counts elements, so that chunks of all of them cover the same ones.
        for parts in zip(*(leaf.chunks() for leaf in leaves), strict=True):
            wide = None
            for one, part in zip(kept, parts, strict=True):
                identifier = self._keep_chunk(one, part, wide)
                wide = wide or Near(EntryBase(identifier), partial(_itself, part))
        return [(one.index, one.stored(leaf)) for one, leaf in zip(kept, leaves, strict=True)]

    def keep(self, index: int) -> Leaf:
        """Store a leaf, near the parent's exact leaf where that is smaller."""
        same = self._same([index])
        return same[index] if same else self.keep_all([Planned(index, Treatment.EXACT)])[0][1]

    def _keep_chunk(self, one: "_Kept", part: memoryview, wide: Near | None) -> ObjectId:
        dtype, number = self.anatomy.captured.leaves[one.index].dtype, len(one.chunks)
        near = None
        if one.old is not None:
            old = one.old.handed_over.chunks[number]
            near = Near(EntryBase(old), partial(self.store.read, Kind.CHUNK, old))
        element = ElementFormat.of(dtype.itemsize, dtype.kind)
        company = self.anatomy.roles[one.index].value
        one.chunks.append(self.writer.put_chunk(part, element, near, wide, company=company))
        return one.chunks[-1]

    def _same(self, indices: Iterable[int]) -> dict[int, Leaf]:
        """Return the small leaves that are the parent's, and are kept: they are neither copied nor coded."""
        leaves, found = self.anatomy.captured.leaves, list[tuple[int, Leaf]]()
        for index in indices:
            old = self._exact_base(index) if leaves[index].raw_bytes <= _SMALL else None
            chunks = () if old is None else old.handed_over.chunks
            if old and len(chunks) == 1 and object_id(Kind.CHUNK, leaves[index].source.read()) == chunks[0]:
                found.append((index, old))
        kept = self.writer.keeps([old.handed_over.chunks[0] for _, old in found])
        return dict(compress(found, kept))

    def _exact_base(self, index: int) -> Leaf | None:
        base = self.bases.find(self.anatomy.captured.leaves[index])
        return None if base is None or base.original is not None else base


def _itself(part: memoryview) -> memoryview:
    return part


@dataclass
class BoundedLeaves:
    """Stores leaves that are in codes. Safe to use from several threads.

    Attributes:
        value: takes codes.
        exact: takes what was handed over, near what the codes restore; None where no exact layer is kept.
        base_used: whether some tensor found codes to be stored near.
    """

    value: ObjectWriter
    exact: ObjectWriter | None
    base_used: bool = False

    @property
    def keeps_exact(self) -> bool:
        """Whether an exact layer is stored near what the codes restore."""
        return self.exact is not None

    def store(self, given: GivenLeaf, coded: CodedTensor) -> tuple[Leaf, RestoredTensor]:
        """Store a tensor twice: quantized in the value layer, bit for bit in the exact layer.

        Returns:
            what stands in the tree, and what readers will restore.
        """
        if coded.near is not None:  # threads only ever set it
            self.base_used = True
        tensor = self._store_codes(given, coded)
        leaf = Leaf(tensor, self._store_exact(given, tensor, coded))
        return leaf, RestoredTensor(tensor, coded.coding, coded.chunks)

    def _store_codes(self, given: GivenLeaf, coded: CodedTensor) -> QuantizedTensor:
        coding, old = coded.coding, coded.near or _beside(given, coded)
        codes, marks, form = [], [], coding.parameters
        steps = None
        if old and isinstance(form, Lattice) and isinstance(old.parameters, Lattice):
            steps = old.parameters.step, form.step
        for index, chunk in enumerate(coded.chunks):
            near = old.codes[index] if old else None
            bases = not isinstance(form, RootLattice)  # as `comparable` has it
            stored = StoredCodes(chunk.codes.data, coding.levels, coding.width, bases)
            if chunk.codes.size:
                codes.append(self.value.put_codes(stored, near, steps, given.kind, leant_on=self.keeps_exact))
                marks.append(self._marks(chunk, given.kind))
        return QuantizedTensor(
            given.leaf.dtype, given.leaf.shape, coding.width, form, tuple(codes), tuple(marks), coded.digests
        )

    def _marks(self, chunk: Coded, kind: str) -> ObjectId | None:
        if not chunk.exceptions:
            return None
        return self.value.put_chunk(chunk.exceptions, _MARK, company=kind, leant_on=self.keeps_exact)

    def _store_exact(self, given: GivenLeaf, tensor: QuantizedTensor, coded: CodedTensor) -> ExactTensor:
        exact = self.exact
        if exact is None:
            ids = [object_id(Kind.CHUNK, part) for part in coded.parts]
            return ExactTensor(tensor.dtype, tensor.shape, tuple(ids))
        ids, width = [], tensor.dtype.itemsize
        element = ElementFormat.of(width, given.leaf.dtype.kind)
        for index, (chunk, part) in enumerate(zip(coded.chunks, coded.parts, strict=True)):
            restored = partial(coded.coding.restore, chunk, index, len(part) // width)
            near = Near(EntryBase(tensor.id, index), restored)
            ids.append(exact.put_chunk(part, element, near, company=given.kind))
        return ExactTensor(tensor.dtype, tensor.shape, tuple(ids))


def _beside(given: GivenLeaf, coded: CodedTensor) -> QuantizedTensor | None:
    """Return the codes of the weight that a tensor is an average of, where both lie on lattices."""
    other = given.beside
    if other is None or not isinstance(coded.coding.parameters, Lattice):
        return None
    alike = isinstance(other.parameters, Lattice) and len(other.codes) == len(coded.chunks)
    return other if alike else None


class PoolTime:
    """Counts the time of work that runs on other threads than the one that made this.

    Attributes:
        seconds: what was counted so far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._own = threading.get_ident()
        self._lock = threading.Lock()

    def counted(self, work: Callable[[Given], Got]) -> Callable[[Given], Got]:
        """Return `work` with its time counted wherever it runs elsewhere."""

        def run(given: Given) -> Got:
            if threading.get_ident() == self._own:
                return work(given)
            began = time.thread_time()
            try:
                return work(given)
            finally:
                with self._lock:
                    self.seconds += time.thread_time() - began

        return run
