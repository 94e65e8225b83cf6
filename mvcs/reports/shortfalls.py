"""What `show` and a run tell of a commit that is not small beside its state."""

from dataclasses import dataclass
from enum import StrEnum

from mvcs.reports.report import Report


class Cause(StrEnum):
    """What costs most of the bytes of a commit."""

    NOT_BOUNDED = "not bounded"
    EVALUATION_FAILED = "evaluation failed"
    NOTHING_KEPT_THE_BOUND = "nothing kept the bound"
    FIRST_COMMIT = "first commit"
    NOT_NEAR = "not near"
    NOISE = "noise"
    LOSSY_RESTORE = "lossy restore"
    WEIGHTS = "weights"
    EXACT_WEIGHTS = "exact weights"
    SMALL_TENSORS = "small tensors"
    MOMENTS = "moments"
    EXACT_MOMENTS = "exact moments"
    UNKNOWN_OPTIMIZER = "unknown optimizer"
    OTHERS = "others"
    BLOBS = "blobs"
    METADATA = "metadata"


@dataclass(frozen=True)
class Shortfall(Report):
    """Why a commit is less than 30 times smaller than its state.

    Attributes:
        cause: what costs most of its bytes; one of `Cause`.
        told: a sentence: how many times smaller it is, why, and what can be done about it.
    """

    cause: str
    told: str
