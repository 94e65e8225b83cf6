"""A leaf as it comes to be stored: one value with all that its codes need."""

from dataclasses import dataclass

from mvcs.checkpoint import CapturedLeaf
from mvcs.commits.leaves.tensor_errors import FIRST_MOMENT, SECOND_MOMENT
from mvcs.commits.plan.treatments import Treatment
from mvcs.objects import Leaf, QuantizedTensor
from mvcs.quantize import MomentsConfig, RestoredTensor

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
