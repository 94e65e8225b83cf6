from .baseline import Baseline, Batch, Measured, as_batches, as_number, check_repeatable
from .bound import Bound, Goal
from .candidates import HYSTERESES, LatticeChoice, LatticeOutcome, StepCost, Tested
from .early_verdict import STANDARD_ERRORS, PairedCheck, Verdict
from .evaluation import METRIC, Evaluation
from .insensitive_measures import InsensitiveMeasure
from .published_search import MAGNITUDE, CubeOutcome, CubeSearch, TableCube, TableSetting
from .step_search import DEFAULT_EVALUATIONS, DEFAULT_MEAN, LatticeSearch

__all__ = [
    "DEFAULT_EVALUATIONS",
    "DEFAULT_MEAN",
    "HYSTERESES",
    "MAGNITUDE",
    "METRIC",
    "STANDARD_ERRORS",
    "Baseline",
    "Batch",
    "Bound",
    "CubeOutcome",
    "CubeSearch",
    "Evaluation",
    "Goal",
    "InsensitiveMeasure",
    "LatticeChoice",
    "LatticeOutcome",
    "LatticeSearch",
    "Measured",
    "PairedCheck",
    "StepCost",
    "TableCube",
    "TableSetting",
    "Tested",
    "Verdict",
    "as_batches",
    "as_number",
    "check_repeatable",
]
