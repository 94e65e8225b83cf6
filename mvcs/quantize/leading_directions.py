"""The leading directions of a matrix, taken away from it."""

import numpy as np

import mvcs_native
from mvcs.quantize.float_values import Floats

LEADING_DIRECTIONS = 32  # directions, a multiple of the 16 that the kernels add at once
_RESOLVED = 1e-6  # of the largest square of a singular value: what float32 tells from nothing


def remove_leading_directions(matrix: Floats) -> bool:
    """Take from a matrix what it does along its leading singular vectors, about `LEADING_DIRECTIONS`.

    They are found by one round of subspace iteration from random signs (Halko, Martinsson and Tropp 2011,
    algorithm 4.4), so that the last of them are met in part. The same on every machine.

    Args:
        matrix: float32 [rows, columns], changed in place.

    Returns:
        False, with nothing changed, where nothing would be left or some number is not finite.
    """
    if min(matrix.shape) <= LEADING_DIRECTIONS:
        return False
    found = _times_columns(matrix, _signs(matrix.shape[1]))
    found = _times_rows(matrix, _orthonormal(found))
    rows = _orthonormal(_times_columns(matrix, _orthonormal(found)))
    cols = np.ascontiguousarray(_times_rows(matrix, rows).T)
    if not np.isfinite(cols).all() or not rows.any():
        return False
    mvcs_native.less_product(matrix, rows, cols)
    return True


def _orthonormal(thin: Floats) -> Floats:
    """Return an orthonormal basis of the columns, zeros beside it where they are fewer or no numbers."""
    turns, squares = _times_rows(thin, thin).astype(np.float64), np.zeros(thin.shape[1])
    if not np.isfinite(turns).all():
        return np.zeros_like(thin)
    mvcs_native.spectrum(turns.reshape(-1), squares)
    kept = squares > squares.max() * _RESOLVED
    scales = np.where(kept, 1 / np.sqrt(np.where(kept, squares, 1.0)), 0.0)
    return _times_columns(thin, np.ascontiguousarray((turns * scales[:, None]).T, np.float32))


def _times_columns(matrix: Floats, thin: Floats) -> Floats:
    found = np.empty((len(matrix), thin.shape[1]), np.float32)
    mvcs_native.times_columns(matrix, thin, found)
    return found


def _times_rows(matrix: Floats, thin: Floats) -> Floats:
    found = np.empty((matrix.shape[1], thin.shape[1]), np.float32)
    mvcs_native.times_rows(matrix, thin, found)
    return found


def _signs(count: int) -> Floats:
    """Return a random matrix of signs [count, LEADING_DIRECTIONS], the same one for a size."""
    drawn = np.random.PCG64(count).random_raw(-(-count * LEADING_DIRECTIONS // 64)).astype("<u8")
    bits = np.unpackbits(drawn.view(np.uint8))[: count * LEADING_DIRECTIONS]
    return (bits.reshape(count, LEADING_DIRECTIONS) * np.float32(2)) - np.float32(1)
