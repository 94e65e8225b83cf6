"""Where the values of a weight come from and where they go: what its codes on a lattice follow."""

from dataclasses import dataclass

from mvcs.checkpoint import CapturedLeaf
from mvcs.commits.before.earlier_weights import EarlierWeights
from mvcs.commits.before.momentum import Momentum
from mvcs.quantize import Codes, LatticeContext


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
