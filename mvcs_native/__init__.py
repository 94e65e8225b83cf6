"""The hot kernels of mvcs in C++: raw buffers in and out, no Python inside, the interpreter lock released.

Arrays are one-dimensional and C-contiguous; a kernel checks every length and bound and raises `ValueError`
for a broken contract or for a payload that no encoder wrote.
"""

from mvcs_native._core import (
    assign,
    decode_codes,
    decode_delta,
    encode_codes,
    encode_delta,
    error_sums,
    kmeans,
    lattice,
    level,
    levels,
    log_lattice,
    log_sums,
    log_unlattice,
    progress_sums,
    root_lattice,
    root_signs,
    root_sums,
    root_unlattice,
    sketch,
    unlattice,
    use_level,
)

__all__ = [
    "assign",
    "decode_codes",
    "decode_delta",
    "encode_codes",
    "encode_delta",
    "error_sums",
    "kmeans",
    "lattice",
    "level",
    "levels",
    "log_lattice",
    "log_sums",
    "log_unlattice",
    "progress_sums",
    "root_lattice",
    "root_signs",
    "root_sums",
    "root_unlattice",
    "sketch",
    "unlattice",
    "use_level",
]
