"""Chunks of weights in codes that nothing stores: what a step would lose, keep of their moves, and take."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mvcs.checkpoint import CapturedLeaf
from mvcs.commits.leaves.coded_tensor import progress, rescaled, worthwhile
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
)
from mvcs.store import payload_bytes


@dataclass(frozen=True)
class SampledChunk:
    """One chunk of a weight, the parent's codes for it with their step, and how it came from there.

    What it was lossily restored to is `before`; None where progress since is not measured.
    """

    leaf: CapturedLeaf
    index: int
    part: memoryview
    old: tuple[Codes, int] | None
    context: Callable[[CapturedLeaf, int, Codes | None], LatticeContext]
    before: Floats | None = None

    def coded(self, coding: LatticeCoding) -> tuple[Coded, Codes | None]:
        """Return the chunk's codes, and the parent's on the same step."""
        near = None if self.old is None else rescaled(*self.old, coding.step)
        return coding.code(self.part, self.index, self.context(self.leaf, self.index, near)), near


@dataclass(frozen=True)
class Attempt:
    """Chunks of one weight in codes, and those of the parent on the same step; what its tensor would lose."""

    coding: LatticeCoding
    chunks: list[SampledChunk]
    codes: list[Coded]
    olds: list[Codes | None]

    @classmethod
    def of(cls, chunks: list[SampledChunk], coding: Coding) -> "Attempt | None":
        """Code the chunks; None where codes may not stand for them."""
        if not isinstance(coding, LatticeCoding):
            return None
        codes, olds = zip(*(chunk.coded(coding) for chunk in chunks), strict=True)
        made = cls(coding, chunks, list(codes), list(olds))
        return made if worthwhile(chunks[0].leaf, made.codes, raw_bytes_of(chunks)) else None

    @cached_property
    def errors(self) -> ErrorSums:
        """What the values lose."""
        return ErrorSums.total(
            [
                errors_of(self.coding, coded, chunk.part, chunk.index, chunk.leaf.dtype.name)
                for chunk, coded in zip(self.chunks, self.codes, strict=True)
            ]
        )

    @property
    def progress(self) -> ProgressSums:
        """What is kept of the moves since a lossy restore; of none where there was none."""
        sums = ProgressSums()
        for chunk, coded in zip(self.chunks, self.codes, strict=True):
            if chunk.before is not None:
                sums += progress(chunk.leaf, self.coding, coded, chunk.index, chunk.part, chunk.before)
        return sums


def raw_bytes_of(chunks: Iterable[SampledChunk]) -> int:
    """Return the bytes of chunks as they were handed over."""
    return sum(chunk.part.nbytes for chunk in chunks)


def stored_bytes(codes: list[Coded], olds: list[Codes | None]) -> int:
    """Return about how many bytes codes and exceptions take in a pack."""
    exceptions = sum(len(each.exceptions) for each in codes)
    near = (None if old is None else old.view(np.uint8) for old in olds)
    return exceptions + payload_bytes(zip((each.codes for each in codes), near, strict=True))
