from .baseline import Baseline, Batch, Measured, as_batches, as_number, check_repeatable, is_zero
from .bound import Bound, Goal
from .candidates import Attempt, LatticeChoice, LatticeOutcome, StepCost, Tested, error_of
from .doubts import ForgottenGoal, SampleSize, SamplingNoise, undecided
from .early_verdict import NO_SHARE, PairedCheck, Verdict
from .evaluation import METRIC, Evaluation
from .published.cube_search import MAGNITUDE, CubeOutcome, CubeSearch, TableCube, TableSetting
from .settings import SEARCH_DEFAULTS, SearchSettings
from .step_search import LatticeSearch

__all__ = [
    "MAGNITUDE",
    "METRIC",
    "NO_SHARE",
    "SEARCH_DEFAULTS",
    "Attempt",
    "Baseline",
    "Batch",
    "Bound",
    "CubeOutcome",
    "CubeSearch",
    "Evaluation",
    "ForgottenGoal",
    "Goal",
    "LatticeChoice",
    "LatticeOutcome",
    "LatticeSearch",
    "Measured",
    "PairedCheck",
    "SampleSize",
    "SamplingNoise",
    "SearchSettings",
    "StepCost",
    "TableCube",
    "TableSetting",
    "Tested",
    "Verdict",
    "as_batches",
    "as_number",
    "check_repeatable",
    "error_of",
    "is_zero",
    "undecided",
]
