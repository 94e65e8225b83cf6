"""A leaf in codes stored: its codes for good, and the leaf itself near what they restore."""

from collections.abc import Callable
from dataclasses import dataclass

from mvcs.commits.leaves.coded_tensor import CodedTensor
from mvcs.commits.leaves.given_leaf import GivenLeaf
from mvcs.delta import Buffer, ElementFormat
from mvcs.objects import ExactTensor, Kind, Lattice, Leaf, ObjectId, QuantizedTensor, RootLattice, object_id
from mvcs.quantize import Coded, Coding, RestoredTensor
from mvcs.store import EntryBase, Near, ObjectWriter, StoredCodes

_MARK = ElementFormat(1, floating=False)


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
