"""A leaf as it comes to be stored: one value with all that its codes need."""

from collections.abc import Iterator
from dataclasses import dataclass

from mvcs.checkpoint import CapturedLeaf
from mvcs.commits.before.earlier_weights import EarlierWeights, Momentum
from mvcs.commits.before.parent import ParentCodes
from mvcs.commits.leaves.tensor_errors import FIRST_MOMENT, SECOND_MOMENT
from mvcs.commits.plan.treatments import Treatment
from mvcs.delta import rescale_codes
from mvcs.objects import (
    MAX_BARE,
    Digest,
    Lattice,
    Leaf,
    QuantizedTensor,
    chunk_count,
    element_count,
    is_computed,
)
from mvcs.quantize import (
    Coded,
    Codes,
    Coding,
    ErrorSums,
    Floats,
    LatticeCoding,
    LatticeContext,
    MomentsConfig,
    ProgressSums,
    RestoredTensor,
    errors_of,
    measure_progress,
    to_float32,
)

CLASSES = {
    Treatment.WEIGHT: "weight",
    Treatment.COPY: "weight",
    Treatment.FINE: "small",
    Treatment.VARIANCE: "small",
    Treatment.SECOND: SECOND_MOMENT,
    Treatment.FIRST: FIRST_MOMENT,
    Treatment.MOMENTUM: FIRST_MOMENT,
    Treatment.ITERATE: FIRST_MOMENT,
}
_MOST_EXCEPTIONS = 1 / 8  # beyond that share, exceptions cost more than they save


@dataclass(frozen=True)
class GivenLeaf:
    """One leaf of a bounded commit.

    Attributes:
        leaf: what was handed over.
        treatment: what is done with it.
        base: the parent's leaf of its path, dtype and shape; None where there is none.
        source: what the leaf that it refers to restores to; None where it refers to none, or that is exact.
        moments: what is kept of moments of its optimizer.
        beside: the codes of the weight that it is an average of, where it has none yet to be stored near.
    """

    leaf: CapturedLeaf
    treatment: Treatment
    base: Leaf | None = None
    source: RestoredTensor | None = None
    moments: MomentsConfig = MomentsConfig.RESUME
    beside: QuantizedTensor | None = None

    @property
    def kind(self) -> str:
        """The class that its errors count for."""
        return CLASSES[self.treatment]


@dataclass(frozen=True)
class Surroundings:
    """What is known beside the parent's codes.

    Attributes:
        earlier: the weights of the newest commit that is known; None for none.
        momentum: where weights would still go; None where they keep to where they are.
    """

    earlier: EarlierWeights | None = None
    momentum: Momentum | None = None

    def context(self, leaf: CapturedLeaf, index: int, near: Codes | None) -> LatticeContext:
        """Return what a chunk's codes follow, with the parent's codes on the step that it gets."""
        ahead = None if self.momentum is None else self.momentum.chunk(leaf, index)
        if self.earlier is None:
            return LatticeContext(near, ahead=ahead)
        return LatticeContext(near, self.earlier.chunk(leaf, index), self.earlier.drifts, ahead)


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
        digests: of what each chunk restores to, one behind the other; empty where that is one value alone.
    """

    coding: Coding
    chunks: list[Coded]
    parts: Parts
    errors: ErrorSums
    near: QuantizedTensor | None = None
    digests: bytes = b""

    def retained(self, before: Iterator[Floats]) -> ProgressSums:
        """Measure how much of the movement since `before` the codes keep."""
        sums = ProgressSums()
        for index, (part, old) in enumerate(zip(self.parts, before, strict=True)):
            sums += progress(self.parts.leaf, self.coding, self.chunks[index], index, part, old)
        return sums


@dataclass(frozen=True)
class Coder:
    """Quantizes whole tensors. Safe to use from several threads.

    Attributes:
        parents: gives the parent's codes.
        surroundings: tells where weights come from and go.
    """

    parents: ParentCodes
    surroundings: Surroundings

    def coded(self, given: GivenLeaf, parts: Parts, coding: Coding) -> CodedTensor:
        """Quantize a tensor, near the parent's leaf where that is a base."""
        near, chunks, errors = self.parents.comparable(given.base, coding), [], ErrorSums()
        digests = bytearray()
        for index, part in enumerate(parts):
            chunk = coding.code(part, index, self._context(given.leaf, near, index, coding))
            found, digest = _measured(coding, chunk, part, index, given.leaf.dtype.name)
            chunks.append(chunk)
            errors += found
            digests += digest
        return CodedTensor(coding, chunks, parts, errors, near, bytes(digests))

    def _context(
        self, leaf: CapturedLeaf, old: QuantizedTensor | None, index: int, coding: Coding
    ) -> LatticeContext | None:
        if not isinstance(coding, LatticeCoding):
            return None
        follows = coding.hysteresis or coding.keeps
        if old is None or not follows or not isinstance(old.parameters, Lattice):
            return self.surroundings.context(leaf, index, None)
        # Read even if none will be kept: where they are damaged, codes that come out alike are stored anew.
        codes = self.parents.codes(old, index)
        near = None if codes is None else rescaled(codes, old.parameters.step, coding.step)
        return self.surroundings.context(leaf, index, near)


def _measured(
    coding: Coding, chunk: Coded, part: memoryview, index: int, dtype: str
) -> tuple[ErrorSums, bytes]:
    """Return what a chunk loses, and the digest of what it restores to if that is not one value alone."""
    if not is_computed(coding.parameters):
        return errors_of(coding, chunk, part, index, dtype), b""
    digest = Digest()
    return errors_of(coding, chunk, part, index, dtype, digest.update), digest.value


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
