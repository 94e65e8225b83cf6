from .chosen_files import (
    DESCRIPTION_FILE,
    FolderWalk,
    FoundKind,
    KnownFiles,
    committed_name,
    is_store,
    link_instead_error,
    missing_error,
    refuse_unfit,
    store_around,
)
from .files import capture_files, export_file, needing_torch, write_file
from .formats.detection import SUFFIXES, format_as_it_is, format_in, format_of, is_called_file
from .formats.layout import compresses_otherwise
from .formats.safetensors_file import METADATA_KEY, can_hold
from .ignore_rules import IgnoreRules
from .known_optimizers import KnownOptimizer, Moment, known_optimizer, momentum_names
from .optimizers import Parameter, loose_parameters, optimizer_parameters
from .roles import (
    GRADIENTS,
    GROUPS,
    MODEL,
    MODELS,
    MOMENT_NAMES,
    STATE,
    Role,
    is_embedding,
    layer_type,
    path_components,
    roles_of,
)
from .state.arrays import numpy_view
from .state.captured import Captured, CapturedLeaf
from .state.objects import check_positions, make_object, object_parts, set_generator
from .state.stamped import Stamp, StampedFile, file_kind
from .state.state import ContentReader, capture_state, check_state, rebuild_state
from .state.torch_values import tensor_to_fill, torch_tensor
from .torch_files.torch_file import save_torch

__all__ = [
    "DESCRIPTION_FILE",
    "GRADIENTS",
    "GROUPS",
    "METADATA_KEY",
    "MODEL",
    "MODELS",
    "MOMENT_NAMES",
    "STATE",
    "SUFFIXES",
    "Captured",
    "CapturedLeaf",
    "ContentReader",
    "FolderWalk",
    "FoundKind",
    "IgnoreRules",
    "KnownFiles",
    "KnownOptimizer",
    "Moment",
    "Parameter",
    "Role",
    "Stamp",
    "StampedFile",
    "can_hold",
    "capture_files",
    "capture_state",
    "check_positions",
    "check_state",
    "committed_name",
    "compresses_otherwise",
    "export_file",
    "file_kind",
    "format_as_it_is",
    "format_in",
    "format_of",
    "is_called_file",
    "is_embedding",
    "is_store",
    "known_optimizer",
    "layer_type",
    "link_instead_error",
    "loose_parameters",
    "make_object",
    "missing_error",
    "momentum_names",
    "needing_torch",
    "numpy_view",
    "object_parts",
    "optimizer_parameters",
    "path_components",
    "rebuild_state",
    "refuse_unfit",
    "roles_of",
    "save_torch",
    "set_generator",
    "store_around",
    "tensor_to_fill",
    "torch_tensor",
    "write_file",
]
