"""Which loss of quality is acceptable, which candidate comes next, and how few batches decide about it."""

from mvcs.search.baseline import Baseline, Batch, Measured, check_repeatable
from mvcs.search.bound import Bound, Goal
from mvcs.search.candidates import Cost, LatticeChoice, LatticeOutcome, Tested
from mvcs.search.early_verdict import PairedCheck, Verdict
from mvcs.search.evaluation import METRIC, Evaluation
from mvcs.search.insensitive_measures import InsensitiveMeasure
from mvcs.search.step_search import LatticeSearch

__all__ = [
    "METRIC",
    "Baseline",
    "Batch",
    "Bound",
    "Cost",
    "Evaluation",
    "Goal",
    "InsensitiveMeasure",
    "LatticeChoice",
    "LatticeOutcome",
    "LatticeSearch",
    "Measured",
    "PairedCheck",
    "Tested",
    "Verdict",
    "check_repeatable",
]
