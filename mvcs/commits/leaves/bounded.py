"""The lossy part of a bounded commit: a coding for each leaf, its codes, its exact layer, its errors."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from mvcs.checkpoint import CapturedLeaf
from mvcs.commits.before.earlier_weights import EarlierWeights
from mvcs.commits.before.momentum import Momentum
from mvcs.commits.before.snap_back import SnapBack
from mvcs.commits.leaves.tensor_errors import TensorErrors
from mvcs.delta import Buffer, ElementFormat, rescale_codes
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.objects import (
    MAX_BARE,
    Absent,
    ExactTensor,
    Kind,
    Lattice,
    Leaf,
    ObjectId,
    QuantizedTensor,
    RootLattice,
    chunk_count,
    element_count,
    object_id,
)
from mvcs.quantize import (
    Coded,
    Codes,
    Coding,
    ErrorSums,
    Floats,
    LatticeCoding,
    LatticeContext,
    ProgressSums,
    errors_of,
    measure_progress,
    to_float32,
)
from mvcs.store import EntryBase, Near, ObjectStore, ObjectWriter, StoredCodes

_MARK = ElementFormat(1, floating=False)
_MOST_EXCEPTIONS = 1 / 8  # beyond that share, exceptions cost more than they save


@dataclass(frozen=True)
class Parts:
    """The chunks of a leaf, for several passes: codes are made of them, and then what is near the codes.

    A leaf of one chunk is held, so that all passes see the same memory. A larger one is read again: what is
    stored is whole either way, and between two passes over it nothing changes but by a writer that leaves no
    trace, for files are looked at again at the end.

    Attributes:
        leaf: whose chunks they are.
        held: the only chunk; None where there are more.
    """

    leaf: CapturedLeaf
    held: memoryview | None = None

    @classmethod
    def of(cls, leaf: CapturedLeaf) -> "Parts":
        """Read a leaf for the first time, if it is to be held."""
        return cls(leaf, *(leaf.chunks() if chunk_count(leaf.dtype, leaf.shape) == 1 else ()))

    def __iter__(self) -> Iterator[memoryview]:
        """Yield the chunks, each in memory that nobody else writes."""
        return self.leaf.chunks() if self.held is None else iter((self.held,))


@dataclass(frozen=True)
class CodedTensor:
    """A tensor in codes, before it is stored.

    Attributes:
        coding: how they were made.
        chunks: the codes.
        parts: what they were made of.
        errors: what they lose.
        near: the parent's tensor, where its codes are a base for these.
    """

    coding: Coding
    chunks: list[Coded]
    parts: Parts
    errors: ErrorSums
    near: QuantizedTensor | None = None


@dataclass(frozen=True)
class Quantized:
    """A leaf that was quantized, as long as others may refer to it.

    Attributes:
        leaf: what stands in the tree.
        tensor: the quantized tensor.
        coding: how it was made.
        chunks: its codes.
    """

    leaf: Leaf
    tensor: QuantizedTensor
    coding: Coding
    chunks: list[Coded]
    _last: dict[int, Floats] = field(default_factory=dict)

    def floats(self, index: int) -> Floats:
        """Return one chunk as float32, as readers will restore it; the last one is remembered."""
        found = self._last.get(index)
        if found is None:
            count = self.tensor.chunk_elements(index)
            found = to_float32(self.coding.restore(self.chunks[index], index, count), self.tensor.dtype.name)
            self._last.clear()
            self._last[index] = found
        return found


@dataclass
class BoundedLeaves:
    """Stores quantized leaves. Safe to use from several threads.

    Attributes:
        objects: where the parent's codes come from.
        value: takes codes.
        exact: takes what was handed over, near what the codes restore; None where no exact layer is kept.
        snap_back: what keeps progress since a lossy restore; None where there was none.
        earlier: the weights of the newest commit that is known; None for none.
        momentum: where weights would still go; None where they keep to where they are.
        errors: what was measured so far, and how far off a tensor may be.
        base_used: whether some tensor found codes to be stored near.
    """

    objects: ObjectStore
    value: ObjectWriter
    exact: ObjectWriter | None
    snap_back: SnapBack | None = None
    earlier: EarlierWeights | None = None
    momentum: Momentum | None = None
    errors: TensorErrors = field(default_factory=TensorErrors)
    base_used: bool = False

    @property
    def keeps_exact(self) -> bool:
        """Whether an exact layer is stored near what the codes restore."""
        return self.exact is not None

    def store(self, leaf: CapturedLeaf, coded: CodedTensor, kind: str) -> Quantized:
        """Store a tensor twice: quantized in the value layer, bit for bit in the exact layer.

        Args:
            leaf: the tensor.
            coded: its codes.
            kind: the class its errors count for.
        """
        self.base_used |= coded.near is not None
        tensor = self._store_codes(leaf, coded, kind)
        exact_id = self._store_exact(leaf, tensor, coded, kind)
        value_id = self.value.put(Kind.QUANTIZED, tensor.encode())
        left_out = isinstance(tensor.parameters, Absent)
        self.errors.note(kind, leaf.path, coded.errors, left_out=left_out)
        return Quantized(Leaf(leaf.dtype, leaf.shape, value_id, exact_id), tensor, coded.coding, coded.chunks)

    def coded(self, parts: Parts, base: Leaf | None, coding: Coding) -> CodedTensor:
        """Quantize a whole tensor, near the parent's leaf where that is a base, and store nothing."""
        leaf, near, chunks, errors = parts.leaf, self.comparable(base, coding), [], ErrorSums()
        for index, part in enumerate(parts):
            chunk = coding.code(part, index, self._context(leaf, near, index, coding))
            errors += errors_of(coding, chunk, part, index, leaf.dtype.name)
            chunks.append(chunk)
        return CodedTensor(coding, chunks, parts, errors, near)

    def old_tensor(self, base: Leaf | None) -> QuantizedTensor | None:
        """Return the quantized tensor of the parent's leaf; None where there is none, or it is damaged."""
        if base is None or base.exact is None:
            return None
        try:
            tensor = self.objects.value_tensor(base)
        except (CorruptionError, NotFoundError):
            # The new values are in hand and can be stored alone, even those that are the old ones.
            return None
        return tensor if isinstance(tensor, QuantizedTensor) else None

    def old_step(self, base: Leaf | None) -> int | None:
        """Return the step byte of the parent's leaf; None where it is not on a lattice."""
        old = self.old_tensor(base)
        return old.parameters.step if old is not None and isinstance(old.parameters, Lattice) else None

    def comparable(self, base: Leaf | None, coding: Coding) -> QuantizedTensor | None:
        """Return the same where its codes are a base for this coding's: the same rule on a similar scale."""
        old, form = self.old_tensor(base), coding.parameters
        if (
            old is None
            or not old.codes
            or isinstance(form, RootLattice)
            or type(old.parameters) is not type(form)
        ):
            return None
        return old

    def retained(self, leaf: CapturedLeaf, coded: CodedTensor, before: Iterator[Floats]) -> ProgressSums:
        """Measure how much of the movement since `before` the codes of a tensor keep."""
        sums = ProgressSums()
        for index, (part, old) in enumerate(zip(coded.parts, before, strict=True)):
            sums += progress(leaf, coded.coding, coded.chunks[index], index, part, old)
        return sums

    def old_codes(self, old: QuantizedTensor, index: int) -> Codes | None:
        """Return the codes of a chunk of a lattice's tensor; None where they cannot be read."""
        try:
            codes = np.frombuffer(self.objects.codes(old.codes[index]), "<i2")
        except (CorruptionError, NotFoundError):
            return None
        return codes if codes.size == old.chunk_elements(index) else None

    def _context(
        self, leaf: CapturedLeaf, old: QuantizedTensor | None, index: int, coding: Coding
    ) -> LatticeContext | None:
        if not isinstance(coding, LatticeCoding):
            return None
        if old is None or not coding.hysteresis or not isinstance(old.parameters, Lattice):
            return self.context(leaf, index, None)
        # Read even if none will be kept: where they are damaged, codes that come out alike are stored anew.
        codes = self.old_codes(old, index)
        near = None if codes is None else rescaled(codes, old.parameters.step, coding.step)
        return self.context(leaf, index, near)

    def context(self, leaf: CapturedLeaf, index: int, near: Codes | None) -> LatticeContext:
        """Return where a chunk's values come from and go, beside the parent's codes on the step it gets."""
        ahead = None if self.momentum is None else self.momentum.chunk(leaf, index)
        if self.earlier is None:
            return LatticeContext(near, ahead=ahead)
        return LatticeContext(near, self.earlier.chunk(leaf, index), self.earlier.drifts, ahead)

    def _store_codes(self, leaf: CapturedLeaf, coded: CodedTensor, kind: str) -> QuantizedTensor:
        coding, old = coded.coding, coded.near
        codes, marks, form = [], [], coding.parameters
        steps = None
        if old and isinstance(form, Lattice) and isinstance(old.parameters, Lattice):
            steps = old.parameters.step, form.step
        for index, chunk in enumerate(coded.chunks):
            near = old.codes[index] if old else None
            bases = not isinstance(form, RootLattice)  # as `comparable` has it
            stored = StoredCodes(chunk.codes.data, coding.levels, coding.width, bases)
            if chunk.codes.size:
                codes.append(self.value.put_codes(stored, near, steps, kind, leant_on=self.keeps_exact))
                marks.append(self._marks(chunk, kind))
        return QuantizedTensor(leaf.dtype, leaf.shape, coding.width, form, tuple(codes), tuple(marks))

    def _marks(self, chunk: Coded, kind: str) -> ObjectId | None:
        if not chunk.exceptions:
            return None
        return self.value.put_chunk(chunk.exceptions, _MARK, company=kind, leant_on=self.keeps_exact)

    def _store_exact(
        self, leaf: CapturedLeaf, tensor: QuantizedTensor, coded: CodedTensor, kind: str
    ) -> ObjectId:
        ids, width = [], leaf.dtype.itemsize
        for index, (chunk, part) in enumerate(zip(coded.chunks, coded.parts, strict=True)):
            near = Near(
                EntryBase(tensor.id, index), _restorer(coded.coding, chunk, index, len(part) // width)
            )
            ids.append(self._exact_chunk(leaf, part, near, kind))
        original = ExactTensor(leaf.dtype, leaf.shape, tuple(ids))
        return original.id if self.exact is None else self.exact.put(Kind.TENSOR, original.encode())

    def _exact_chunk(self, leaf: CapturedLeaf, part: memoryview, near: Near, kind: str) -> ObjectId:
        if self.exact is None:
            return object_id(Kind.CHUNK, part)
        return self.exact.put_chunk(
            part, ElementFormat.of(leaf.dtype.itemsize, leaf.dtype.kind), near, company=kind
        )


def progress(
    leaf: CapturedLeaf, coding: Coding, chunk: Coded, index: int, part: memoryview, before: Floats
) -> ProgressSums:
    """Measure how much of the movement since `before` the codes of one chunk keep."""
    restored = coding.restore(chunk, index, before.size)
    name = leaf.dtype.name
    return measure_progress(to_float32(restored, name), to_float32(part, name), before)


def rescaled(codes: Codes, before: int, after: int) -> Codes:
    """Return codes on another step; on the same one they are themselves."""
    return codes if before == after else rescale_codes(codes, before, after)


def worthwhile(leaf: CapturedLeaf, chunks: list[Coded], raw_bytes: int | None = None) -> bool:
    """Tell whether codes may stand for a tensor: few exceptions, and no huge tensor of a few bytes.

    Args:
        leaf: the tensor.
        chunks: the codes, of the whole tensor or of a sample.
        raw_bytes: what the sample has.
    """
    exceptions = sum(len(chunk.exceptions) for chunk in chunks)
    if exceptions > _MOST_EXCEPTIONS * (leaf.raw_bytes if raw_bytes is None else raw_bytes):
        return False
    return element_count(leaf.shape) <= MAX_BARE or bool(chunks[0].codes.size)


def _restorer(coding: Coding, chunk: Coded, index: int, count: int) -> Callable[[], Buffer]:
    return lambda: coding.restore(chunk, index, count)
