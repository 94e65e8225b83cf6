"""From floats to codes and back: sketches, code tables, lattices, moments; measured errors and progress."""

from mvcs.quantize.config import KMeansConfig, LatticeConfig, QuantizerConfig
from mvcs.quantize.lattices.lattice import balance, lattice_codes, lattice_values
from mvcs.quantize.lattices.log_lattice import LogGrid
from mvcs.quantize.lattices.root_lattice import RootSums, root_codes, root_signs, root_sums, root_values
from mvcs.quantize.lattices.steps import lattice_step, nearest_step, rms, steady_step, step_value
from mvcs.quantize.measure import ErrorSums, ProgressSums, measure, measure_progress, retained_progress
from mvcs.quantize.moments.settings import MomentsConfig
from mvcs.quantize.options import QuantizerOptions, quantizer_config
from mvcs.quantize.restore import Restorer
from mvcs.quantize.tables.codebook import Codebook, fit
from mvcs.quantize.tables.sketch import Sketch
from mvcs.quantize.tables.table_codes import Quantized, dequantize, quantize
from mvcs.quantize.values import from_float32, to_float32

__all__ = [
    "Codebook",
    "ErrorSums",
    "KMeansConfig",
    "LatticeConfig",
    "LogGrid",
    "MomentsConfig",
    "ProgressSums",
    "Quantized",
    "QuantizerConfig",
    "QuantizerOptions",
    "Restorer",
    "RootSums",
    "Sketch",
    "balance",
    "dequantize",
    "fit",
    "from_float32",
    "lattice_codes",
    "lattice_step",
    "lattice_values",
    "measure",
    "measure_progress",
    "nearest_step",
    "quantize",
    "quantizer_config",
    "retained_progress",
    "rms",
    "root_codes",
    "root_signs",
    "root_sums",
    "root_values",
    "steady_step",
    "step_value",
    "to_float32",
]
