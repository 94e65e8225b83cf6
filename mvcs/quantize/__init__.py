"""From floats to codes and back: sketches, code tables by exact one-dimensional k-means, measured errors."""

from mvcs.quantize.codebook import Codebook, fit
from mvcs.quantize.config import QuantizerConfig
from mvcs.quantize.kmeans import Quantized, dequantize, quantize
from mvcs.quantize.measure import ErrorSums, measure
from mvcs.quantize.sketch import Sketch
from mvcs.quantize.values import from_float32, to_float32

__all__ = [
    "Codebook",
    "ErrorSums",
    "Quantized",
    "QuantizerConfig",
    "Sketch",
    "dequantize",
    "fit",
    "from_float32",
    "measure",
    "quantize",
    "to_float32",
]
