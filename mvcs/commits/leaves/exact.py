"""Leaves as they were handed over: each hashed, and stored near the parent's."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from mvcs.commits.before.bases import Bases
from mvcs.commits.plan.anatomy import Anatomy
from mvcs.commits.plan.treatments import Planned, Treatment
from mvcs.delta import Content, ElementFormat
from mvcs.objects import ExactTensor, Kind, Leaf, ObjectId
from mvcs.store import EntryBase, Near, ObjectStore, ObjectWriter


@dataclass
class _Kept:
    """A leaf that is being stored: its number, the parent's chunks, and its own so far."""

    index: int
    old: tuple[ObjectId, ...]
    chunks: list[ObjectId] = field(default_factory=list)


Stored = list[tuple[int, Leaf]]


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

    def groups(self) -> list[list[Planned]]:
        """Return all leaves in groups: a leaf, then the low-precision copies of it."""
        copies = self.anatomy.copies
        found = {
            i: [Planned(i, Treatment.EXACT)]
            for i in range(len(self.anatomy.captured.leaves))
            if i not in copies
        }
        for copy, master in copies.items():
            found[master].append(Planned(copy, Treatment.EXACT, master))
        return list(found.values())

    def keep_all(self, group: Iterable[Planned]) -> Stored:
        """Store a group: of all its leaves a chunk, near that of the first where they are copies of it."""
        kept = [_Kept(item.index, self._old_chunks(item.index)) for item in group]
        leaves = [self.anatomy.captured.leaves[one.index] for one in kept]
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
        dtype, number = self.anatomy.captured.leaves[one.index].dtype, len(one.chunks)
        near = Near(EntryBase(one.old[number]), _reader(self.store, one.old[number])) if one.old else None
        element = ElementFormat.of(dtype.itemsize, dtype.kind)
        company = self.anatomy.roles[one.index].value
        one.chunks.append(self.writer.put_chunk(part, element, near, wide, company=company))
        return one.chunks[-1]

    def _described(self, one: "_Kept") -> Leaf:
        leaf = self.anatomy.captured.leaves[one.index]
        tensor = ExactTensor(leaf.dtype, leaf.shape, tuple(one.chunks))
        return Leaf(tensor)

    def _old_chunks(self, index: int) -> tuple[ObjectId, ...]:
        base = self.bases.find(self.anatomy.captured.leaves[index])
        if base is None or base.original is not None:
            return ()
        return base.handed_over.chunks


def _reader(store: ObjectStore, identifier: ObjectId) -> Callable[[], Content]:
    return lambda: store.read(Kind.CHUNK, identifier)


def _itself(part: memoryview) -> memoryview:
    return part
