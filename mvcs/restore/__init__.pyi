from . import show
from .compare import ComparedSide, compare_sides, side_of, summarize
from .explain_size import falls_short
from .export import ExportTarget, export_to, from_folder
from .file_match import FileMatch, content_key, exact_tensor, is_lossy
from .foreign_packs import PartlyNeeded, partly_needed
from .handed_out import HANDED_OUT, GivenStates
from .machine_rates import measure_rates
from .open_commit import (
    EXACT_LAYER,
    NAMES_LISTED,
    Reading,
    build_state,
    missing_file_error,
    on_neither_side_error,
    open_best,
    open_reading,
    state_parts,
    ways_to_write,
)
from .open_folder import (
    LEFT_STORED_NOTE,
    OpenFolder,
    lies_inside,
    link_on_the_way,
    refuse_detours,
    refuse_inside,
    refuse_unfit_tree,
    remove_file,
    stored_among,
)
from .plan import PlannedReads, planned, reads_of_export, reads_of_files, reads_of_state
from .show import FileDetails, details_of_file, located_chunks, stored_share
from .size_allowance import UNLIMITED, Allowance, file_bytes
from .value_traces import traced_commit
from .written_files import write_files

__all__ = [
    "EXACT_LAYER",
    "HANDED_OUT",
    "LEFT_STORED_NOTE",
    "NAMES_LISTED",
    "UNLIMITED",
    "Allowance",
    "ComparedSide",
    "ExportTarget",
    "FileDetails",
    "FileMatch",
    "GivenStates",
    "OpenFolder",
    "PartlyNeeded",
    "PlannedReads",
    "Reading",
    "build_state",
    "compare_sides",
    "content_key",
    "details_of_file",
    "exact_tensor",
    "export_to",
    "falls_short",
    "file_bytes",
    "from_folder",
    "is_lossy",
    "lies_inside",
    "link_on_the_way",
    "located_chunks",
    "measure_rates",
    "missing_file_error",
    "on_neither_side_error",
    "open_best",
    "open_reading",
    "partly_needed",
    "planned",
    "reads_of_export",
    "reads_of_files",
    "reads_of_state",
    "refuse_detours",
    "refuse_inside",
    "refuse_unfit_tree",
    "remove_file",
    "show",
    "side_of",
    "state_parts",
    "stored_among",
    "stored_share",
    "summarize",
    "traced_commit",
    "ways_to_write",
    "write_files",
]
