"""The hot kernels of mvcs in C++: raw buffers in and out, no Python inside, the interpreter lock released.

Arrays are one-dimensional and C-contiguous; a kernel checks every length and bound and raises `ValueError`
for a broken contract or for a payload that no encoder wrote.
"""

from mvcs_native._core import (
    assign,
    decode_codes,
    decode_delta,
    decode_planes,
    decode_residual,
    encode_codes,
    encode_delta,
    encode_planes,
    encode_residual,
    kmeans,
    level,
    levels,
    sketch,
    use_level,
)

__all__ = [
    "assign",
    "decode_codes",
    "decode_delta",
    "decode_planes",
    "decode_residual",
    "encode_codes",
    "encode_delta",
    "encode_planes",
    "encode_residual",
    "kmeans",
    "level",
    "levels",
    "sketch",
    "use_level",
]
