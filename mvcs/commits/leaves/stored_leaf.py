"""A leaf stored: as it was handed over, or its codes for good and the leaf itself near what they restore."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from mvcs.commits.before.parent import Bases
from mvcs.commits.leaves.coded_tensor import CodedTensor
from mvcs.commits.leaves.given_leaf import GivenLeaf
from mvcs.commits.plan.anatomy import Anatomy
from mvcs.commits.plan.treatments import Planned, Treatment
from mvcs.delta import Buffer, Content, ElementFormat
from mvcs.objects import ExactTensor, Kind, Lattice, Leaf, ObjectId, QuantizedTensor, RootLattice, object_id
from mvcs.quantize import Coded, Coding, RestoredTensor
from mvcs.store import EntryBase, Near, ObjectStore, ObjectWriter, StoredCodes

Stored = list[tuple[int, Leaf]]
_MARK = ElementFormat(1, floating=False)


@dataclass
class _Kept:
    """A leaf that is being stored: its number, the parent's chunks, and its own so far."""

    index: int
    old: tuple[ObjectId, ...]
    chunks: list[ObjectId] = field(default_factory=list)


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
        self.base_used |= coded.near is not None
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
            restored = _restorer(coded.coding, chunk, index, len(part) // width)
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


def _restorer(coding: Coding, chunk: Coded, index: int, count: int) -> Callable[[], Buffer]:
    return lambda: coding.restore(chunk, index, count)
