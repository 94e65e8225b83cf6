"""The compiled kernels; arrays are one-dimensional and C-contiguous."""

import numpy as np
from numpy.typing import NDArray

def levels() -> list[str]:
    """Return the levels this machine has, of "portable", "avx2" and "avx512"; the last is the best."""

def level() -> str:
    """Return the level that kernels use: the best one unless `use_level` chose another."""

def use_level(name: str) -> None:
    """Make all kernels use this level from now on; every level gives the same results."""

def sketch(
    values: NDArray[np.float32],
    counts: NDArray[np.uint64],
    low: NDArray[np.uint32],
    high: NDArray[np.uint32],
) -> None:
    """Add values to a sketch of 65536 buckets, the top 16 bits of a float32 pattern each.

    `low` and `high` hold the smallest and largest pattern of a bucket and start as 0xFFFFFFFF and 0.
    """

def kmeans(points: NDArray[np.float64], weights: NDArray[np.float64], k: int) -> NDArray[np.uint32]:
    """Return the first index of each of min(k, n) clusters of least weighted squared error.

    Points ascend, at most 65536 of them; k is in 1 .. 255.
    """

def assign(values: NDArray[np.float32], bounds: NDArray[np.float32], out: NDArray[np.uint8]) -> None:
    """Write the number of bounds below each value; at most 255 ascending bounds."""

def encode_codes(codes: NDArray[np.uint8], levels: int) -> bytes:
    """Encode at most 2^22 codes below `levels` (1 .. 256) alone."""

def decode_codes(payload: NDArray[np.uint8], levels: int, out: NDArray[np.uint8]) -> None:
    """Decode what `encode_codes` returned into `out`, whose length says how many codes there are."""

def encode_delta(codes: NDArray[np.uint8], base: NDArray[np.uint8], levels: int) -> bytes:
    """Encode codes near base codes of the same length, both below `levels`, one group per base code."""

def decode_delta(
    payload: NDArray[np.uint8], base: NDArray[np.uint8], levels: int, out: NDArray[np.uint8]
) -> None:
    """Decode what `encode_delta` returned for the same base into `out`."""

def encode_residual(content: NDArray[np.uint8], base: NDArray[np.uint8], width: int, floating: bool) -> bytes:
    """Encode words of `width` bytes (1, 2, 4 or 8) near a base of the same length; unchanged is no bytes."""

def decode_residual(
    payload: NDArray[np.uint8],
    base: NDArray[np.uint8],
    width: int,
    floating: bool,
    out: NDArray[np.uint8],
) -> None:
    """Decode what `encode_residual` returned for the same base into `out`."""

def encode_planes(content: NDArray[np.uint8], width: int, floating: bool) -> bytes:
    """Encode words of `width` bytes (1, 2, 4 or 8) alone, as planes of bytes."""

def decode_planes(payload: NDArray[np.uint8], width: int, floating: bool, out: NDArray[np.uint8]) -> None:
    """Decode what `encode_planes` returned into `out`, whose length says how many words there are."""
