"""Which loss of quality is acceptable, and how few batches of an evaluation decide whether it is kept."""

from mvcs.search.baseline import Baseline, Batch, Measured, check_repeatable
from mvcs.search.bound import Bound, Goal
from mvcs.search.paired import PairedCheck, Verdict

__all__ = ["Baseline", "Batch", "Bound", "Goal", "Measured", "PairedCheck", "Verdict", "check_repeatable"]
