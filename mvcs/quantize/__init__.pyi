from .codings.bare import BareCoding
from .codings.lattice import UNPACED, LatticeCoding
from .codings.moment import LogCoding, RestoredTensor, RootCoding
from .codings.table import TableCoding
from .config import MAX_BINS, KMeansConfig, LatticeConfig, QuantizerConfig
from .error_sums import errors_of
from .float_values import (
    WIDE_DTYPE,
    Floats,
    Halves,
    from_float32,
    from_upper_halves,
    out_of_range,
    to_float32,
    upper_halves,
)
from .lattices.lattice import balance_rows, lattice_codes, lattice_values
from .lattices.log_lattice import LogGrid
from .lattices.root_lattice import RootSums, root_codes, root_signs, root_sums, root_values
from .lattices.steps import (
    STEADY_RATIO,
    Scale,
    finest_step,
    lattice_step,
    nearest_step,
    rms,
    steady_step,
    step_value,
)
from .leading_directions import LEADING_DIRECTIONS, remove_leading_directions
from .measure import ErrorSums, ProgressSums, measure_errors, measure_progress
from .moments.next_update import UpdateRule, update_rule
from .moments.plausible import implausible_setting
from .moments.settings import ABSENT_MOMENT, AUTO_TIER, CARRIED_MOMENT, LEFT_OUT, LOG_SCALES, MomentsConfig
from .moments.tiers import UNNAMED, USUAL_DEGRADATION, auto_takes, cheapest_tier, tier_class
from .options import QuantizerOptions, moments_config, quantizer_config
from .outliers import Codes
from .published.codebook import fit_codebook
from .published.table_codes import ScoredValues, dequantize, quantize
from .quantizer import Coded, Coding, LatticeContext
from .rehearsal import Rehearsal
from .resolution import Resolution
from .restore import OtherValuesError, Restorer
from .sampling import sample_of
from .sketch import Sketch

__all__ = [
    "ABSENT_MOMENT",
    "AUTO_TIER",
    "CARRIED_MOMENT",
    "LEADING_DIRECTIONS",
    "LEFT_OUT",
    "LOG_SCALES",
    "MAX_BINS",
    "STEADY_RATIO",
    "UNNAMED",
    "UNPACED",
    "USUAL_DEGRADATION",
    "WIDE_DTYPE",
    "BareCoding",
    "Coded",
    "Codes",
    "Coding",
    "ErrorSums",
    "Floats",
    "Halves",
    "KMeansConfig",
    "LatticeCoding",
    "LatticeConfig",
    "LatticeContext",
    "LogCoding",
    "LogGrid",
    "MomentsConfig",
    "OtherValuesError",
    "ProgressSums",
    "QuantizerConfig",
    "QuantizerOptions",
    "Rehearsal",
    "Resolution",
    "RestoredTensor",
    "Restorer",
    "RootCoding",
    "RootSums",
    "Scale",
    "ScoredValues",
    "Sketch",
    "TableCoding",
    "UpdateRule",
    "auto_takes",
    "balance_rows",
    "cheapest_tier",
    "dequantize",
    "errors_of",
    "finest_step",
    "fit_codebook",
    "from_float32",
    "from_upper_halves",
    "implausible_setting",
    "lattice_codes",
    "lattice_step",
    "lattice_values",
    "measure_errors",
    "measure_progress",
    "moments_config",
    "nearest_step",
    "out_of_range",
    "quantize",
    "quantizer_config",
    "remove_leading_directions",
    "rms",
    "root_codes",
    "root_signs",
    "root_sums",
    "root_values",
    "sample_of",
    "steady_step",
    "step_value",
    "tier_class",
    "to_float32",
    "update_rule",
    "upper_halves",
]
