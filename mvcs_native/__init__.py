"""The hot kernels of mvcs in C++: raw buffers in and out, no Python inside, the interpreter lock released.

Arrays are one-dimensional and C-contiguous; a kernel checks every length and bound and raises `ValueError`
for a broken contract or for a payload that no encoder wrote.
"""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mvcs_native._core import (
    Gather,
    assign,
    balance,
    buffer,
    decode_codes,
    decode_delta,
    decode_planes,
    decode_rans_codes,
    decode_rans_moves,
    decode_residual,
    encode_codes,
    encode_delta,
    encode_planes,
    encode_rans_codes,
    encode_rans_moves,
    encode_residual,
    error_sums,
    keep_pace,
    kmeans,
    lattice,
    less_product,
    level,
    levels,
    log_lattice,
    log_sums,
    log_unlattice,
    mark_largest,
    pack_groups,
    progress_sums,
    quantize_groups,
    release_buffers,
    rescale,
    restore_groups,
    root_lattice,
    root_signs,
    root_sums,
    root_unlattice,
    sketch,
    spectrum,
    times_columns,
    times_rows,
    unlattice,
    unpack_groups,
    use_level,
)

__all__ = [
    "Gather",
    "assign",
    "balance",
    "buffer",
    "decode_codes",
    "decode_delta",
    "decode_planes",
    "decode_rans_codes",
    "decode_rans_moves",
    "decode_residual",
    "empty",
    "encode_codes",
    "encode_delta",
    "encode_planes",
    "encode_rans_codes",
    "encode_rans_moves",
    "encode_residual",
    "error_sums",
    "keep_pace",
    "kmeans",
    "lattice",
    "less_product",
    "level",
    "levels",
    "log_lattice",
    "log_sums",
    "log_unlattice",
    "mark_largest",
    "pack_groups",
    "progress_sums",
    "quantize_groups",
    "release_buffers",
    "rescale",
    "restore_groups",
    "root_lattice",
    "root_signs",
    "root_sums",
    "root_unlattice",
    "sketch",
    "spectrum",
    "times_columns",
    "times_rows",
    "unlattice",
    "unpack_groups",
    "use_level",
]

_POOLED_BYTES = 1 << 18


def empty(count: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return an array [count] of undefined content; a large one comes from memory that was used before."""
    size = count * np.dtype(dtype).itemsize
    return buffer(size).view(dtype) if size >= _POOLED_BYTES else np.empty(count, dtype)
