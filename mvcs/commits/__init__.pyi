from .before.snap_back import SNAP_BACK_REASON
from .committer import Committer, LayerWriters, nothing_new_error, says_nothing_more
from .describe import MOMENTS_REST, WEIGHTS_REST
from .leaves.tensor_errors import FIRST_MOMENT, GRID_REASON, NAMED_CLASSES, WORST_CLASS, WORST_MOMENT_CLASS
from .plan.anatomy import KEPT_EXACTLY
from .plan.file_selection import KeptFiles, Selection, SelectionRules
from .plan.treatments import NO_SUCH_MOMENT
from .publication import KeptBesideError, Publication, reflog_message
from .request import BranchPosition, CommitRequest, MadeCommit, Mechanisms, step_number
from .trials.code_tables import TableTrial, table_settings
from .trials.lattice_steps import FilesTrial, LatticeTrial, RestoredValues

__all__ = [
    "FIRST_MOMENT",
    "GRID_REASON",
    "KEPT_EXACTLY",
    "MOMENTS_REST",
    "NAMED_CLASSES",
    "NO_SUCH_MOMENT",
    "SNAP_BACK_REASON",
    "WEIGHTS_REST",
    "WORST_CLASS",
    "WORST_MOMENT_CLASS",
    "BranchPosition",
    "CommitRequest",
    "Committer",
    "FilesTrial",
    "KeptBesideError",
    "KeptFiles",
    "LatticeTrial",
    "LayerWriters",
    "MadeCommit",
    "Mechanisms",
    "Publication",
    "RestoredValues",
    "Selection",
    "SelectionRules",
    "TableTrial",
    "nothing_new_error",
    "reflog_message",
    "says_nothing_more",
    "step_number",
    "table_settings",
]
