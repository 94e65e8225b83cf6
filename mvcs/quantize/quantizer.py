"""Quantizers under one protocol: settings fixed for a tensor, then chunks to codes and what they restore."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mvcs.objects import Form
from mvcs.quantize.float_values import Floats, Halves
from mvcs.quantize.outliers import Buffer, Codes


@dataclass(frozen=True)
class LatticeContext:
    """Where the values of a chunk come from, and where they go.

    Attributes:
        codes: the parent's, on the step of the coding; None where there are none.
        earlier: upper halves of its values at an earlier commit; None where nothing tells them.
        drifts: whether weights have gone somewhere since, instead of to and fro.
        ahead: float32 [n], what momentum would still add to them, to be carried; None for nothing.
    """

    codes: Codes | None = None
    earlier: Halves | None = None
    drifts: bool = True
    ahead: Floats | None = None


@dataclass(frozen=True)
class Coded:
    """One chunk of a tensor as it will be stored.

    Attributes:
        codes: little-endian codes of the coding's width; empty when all of them are 0 and left out.
        exceptions: ascending positions as uint32, then the exact elements; empty for none.
    """

    codes: NDArray[np.uint8]
    exceptions: bytes


class Coding(Protocol):
    """How one tensor is quantized. An implementer is immutable and may be called from several threads."""

    @property
    def parameters(self) -> bytes | Form:
        """What stands in the quantized tensor."""
        ...

    @property
    def width(self) -> int:
        """Bytes of a code."""
        ...

    @property
    def levels(self) -> int:
        """For codes of one byte, how many there are; 256 otherwise."""
        ...

    def code(self, part: memoryview, index: int, context: LatticeContext | None) -> Coded:
        """Quantize one chunk.

        Args:
            part: its elements, little-endian.
            index: its number on the tensor's grid.
            context: where its values come from and go, where something is known; a lattice follows it.
        """
        ...

    def restore(self, coded: Coded, index: int, count: int) -> Buffer:
        """Return the `count` elements that readers will restore from a coded chunk."""
        ...
