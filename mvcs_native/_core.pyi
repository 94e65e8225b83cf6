"""The compiled kernels; arrays are one-dimensional and C-contiguous."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

def levels() -> list[str]:
    """Return the levels this machine has, of "portable", "avx2" and "avx512"; the last is the best."""

def level() -> str:
    """Return the level that kernels use: the best one unless `use_level` chose another."""

def use_level(name: str) -> None:
    """Make all kernels use this level from now on; every level gives the same results."""

def buffer(size: int) -> NDArray[np.uint8]:
    """Return that many bytes of undefined content, from memory used before where some is idle."""

def release_buffers() -> None:
    """Give memory that no array uses any more back to the system; at most 96 MiB stay idle otherwise."""

class Gather:
    """Arrays that are filled from memory elsewhere, again and again, past the processor's caches."""

    def __init__(self, targets: Sequence[NDArray[np.uint8]]) -> None:
        """Take the arrays [n] to fill, which are kept alive."""

    def fill(self, addresses: Sequence[int], threads: int) -> None:
        """Copy to each target as many bytes as it has from its address.

        The caller vouches that so many bytes can be read there, and that nobody writes them meanwhile.

        Args:
            addresses: one for each target.
            threads: the most to copy on, this one included; few bytes are copied on one.
        """

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

def quantize_groups(
    values: NDArray[np.float32],
    width: int,
    bits: int,
    stochastic: bool,
    seed: int,
    scales: NDArray[np.uint16],
    packed: NDArray[np.uint8],
    restored: NDArray[np.float32],
) -> None:
    """Write a scale for each group of `width` finite values, their codes, and what these restore to.

    docs/format/channels.md says which; bits are 1 .. 8 or 16, the seed is below 2^32.
    """

def restore_groups(
    scales: NDArray[np.uint16],
    packed: NDArray[np.uint8],
    width: int,
    bits: int,
    out: NDArray[np.float32],
) -> None:
    """Write what scales and packed codes restore to."""

def pack_groups(codes: NDArray[np.int8], groups: int, width: int, bits: int, out: NDArray[np.uint8]) -> None:
    """Pack codes of 1 .. 8 bits, low ones first; each group begins at a byte."""

def unpack_groups(
    packed: NDArray[np.uint8], groups: int, width: int, bits: int, out: NDArray[np.int8]
) -> None:
    """Unpack what `pack_groups` wrote."""

def mark_largest(values: NDArray[np.float32], width: int, sent: int, out: NDArray[np.bool_]) -> None:
    """Mark the `sent` values of each group that are largest in magnitude, of equal ones the first."""

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

def lattice(
    values: NDArray[np.float32],
    step: int,
    base: NDArray[np.int16],
    hysteresis: float,
    out: NDArray[np.int16],
) -> int:
    """Write nearest multiples of a step, or the base's code within 0.5 + hysteresis steps; count exceptions.

    `step` is a step byte; an empty base stands for none. What is subnormal or not finite or has no code is an
    exception, -32768.
    """

def unlattice(codes: NDArray[np.int16], step: int, out: NDArray[np.float32]) -> None:
    """Write code times step; what stands for an exception is to be replaced."""

def balance(values: NDArray[np.float32], step: int, run: int, start: int, codes: NDArray[np.int16]) -> int:
    """Move codes by one so that errors add up to at most half a step in every row; count the moved.

    The values are part of a tensor, from its element `start`; its rows have `run` elements. What they have of
    a row is balanced by itself, unless it is fewer than 8 elements or has an exception. Codes that are off
    most are moved, and none that is off by a quarter of a step or less.
    """

def keep_pace(
    values: NDArray[np.float32],
    past: NDArray[np.uint16],
    step: int,
    run: int,
    start: int,
    codes: NDArray[np.int16],
) -> int:
    """Move codes by one so that no row lags behind its move from `past`, upper halves of floats; count them.

    A row lags by the sum over it of error times move, errors as values in steps less codes. Those codes are
    moved that have most of it, until it is near zero, and none that is off by a quarter of a step or less. A
    row that is ahead stays. Rows are those of `balance`.
    """

def log_lattice(
    values: NDArray[np.float32],
    scale: int,
    rows: NDArray[np.int16],
    cols: NDArray[np.int16],
    columns: int,
    start: int,
    out: NDArray[np.int16],
) -> int:
    """Write the codes of patterns on a lattice of 2^scale; count exceptions.

    The values are a run of a matrix of `columns` columns from its element `start`; `rows` and `cols` are all
    its offsets in quarter steps, empty for none. A zero is -32767, an exception -32768.
    """

def log_unlattice(
    codes: NDArray[np.int16],
    scale: int,
    rows: NDArray[np.int16],
    cols: NDArray[np.int16],
    columns: int,
    start: int,
    out: NDArray[np.float32],
) -> None:
    """Write what `log_lattice` codes stand for; no codes are codes of 0; exceptions become 0."""

def log_sums(
    values: NDArray[np.float32],
    scale: int,
    rows: NDArray[np.int16],
    columns: int,
    start: int,
    by_column: bool,
    sums: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    """Add patterns less their row's offset, and how many, to rows or columns; positive normal ones only."""

def root_lattice(
    values: NDArray[np.float32], roots: NDArray[np.float32], step: int, out: NDArray[np.int16]
) -> int:
    """Write the nearest multiple of step times the root of `roots`; count exceptions."""

def root_signs(values: NDArray[np.float32], roots: NDArray[np.float32], out: NDArray[np.int16]) -> int:
    """Write -1, 0 or 1, and 0 where `roots` is zero or not finite; count exceptions."""

def root_unlattice(
    codes: NDArray[np.int16], roots: NDArray[np.float32], step: int, out: NDArray[np.float32]
) -> None:
    """Write code times step times the root; 0 where that is not finite or the root is 0."""

def root_sums(values: NDArray[np.float32], roots: NDArray[np.float32]) -> tuple[float, int]:
    """Return the sum of |value| / root and the number of values that have one."""

def times_columns(values: NDArray[np.float32], factor: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Write the product of a matrix [rows, columns] with a thin one [columns, width] to `out` [rows, width].

    The width is a multiple of 16. Every level of instructions adds in the same order.
    """

def times_rows(values: NDArray[np.float32], factor: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Write the product of a matrix's transpose with a thin one [rows, width] to `out` [columns, width]."""

def less_product(values: NDArray[np.float32], rows: NDArray[np.float32], cols: NDArray[np.float32]) -> None:
    """Take the product of `rows` [rows, width] and `cols` [width, columns] from a matrix."""

def spectrum(rows: NDArray[np.float64], values: NDArray[np.float64]) -> None:
    """Turn a symmetric matrix [n * n] without negative eigenvalues into its eigenvectors, row by row.

    Their eigenvalues go to `values` [n], in no order. n is up to 512. For small matrices: a LAPACK would
    start threads, and end in other last bits elsewhere.
    """

def error_sums(exact: NDArray[np.float32], restored: NDArray[np.float32]) -> tuple[float, float, float]:
    """Return the largest error, the sum of squared errors and the sum of squared finite values."""

def progress_sums(
    restored: NDArray[np.float32], now: NDArray[np.float32], before: NDArray[np.float32]
) -> tuple[float, float]:
    """Return the sums of (restored - before) * (now - before) and of (now - before)^2."""

def encode_residual(
    content: NDArray[np.uint8],
    base: NDArray[np.uint8],
    width: int,
    floating: bool,
) -> NDArray[np.uint8]:
    """Encode words of `width` bytes (1, 2, 4 or 8) near a base of the same length; unchanged is no bytes."""

def decode_residual(
    payload: NDArray[np.uint8],
    base: NDArray[np.uint8],
    width: int,
    floating: bool,
    out: NDArray[np.uint8],
) -> None:
    """Decode what `encode_residual` returned for the same base into `out`, which may be the base."""

def encode_planes(content: NDArray[np.uint8], width: int, floating: bool) -> NDArray[np.uint8]:
    """Encode words of `width` bytes (1, 2, 4 or 8) alone, as planes of bytes."""

def decode_planes(payload: NDArray[np.uint8], width: int, floating: bool, out: NDArray[np.uint8]) -> None:
    """Decode what `encode_planes` returned into `out`, whose length says how many words there are."""

def encode_rans_codes(codes: NDArray[np.uint8], width: int, counts: NDArray[np.uint64]) -> bytes:
    """Encode the codes of an entry alone: `width` (1 or 2) bytes a code, `counts` codes a member."""

def decode_rans_codes(
    payload: NDArray[np.uint8], width: int, counts: NDArray[np.uint64], out: NDArray[np.uint8]
) -> None:
    """Decode what `encode_rans_codes` returned for the same width and counts into `out`."""

def encode_rans_moves(
    codes: NDArray[np.uint8],
    base: NDArray[np.uint8],
    width: int,
    counts: NDArray[np.uint64],
    steps: NDArray[np.uint8],
) -> bytes:
    """Encode the codes of an entry's members near base codes of the same counts.

    `steps` is empty or holds two bytes a member: the step of its base codes and of its codes.
    """

def decode_rans_moves(
    payload: NDArray[np.uint8],
    base: NDArray[np.uint8],
    width: int,
    counts: NDArray[np.uint64],
    out: NDArray[np.uint8],
) -> None:
    """Decode what `encode_rans_moves` returned for the same base into `out`, which may be the base."""

def rescale(codes: NDArray[np.int16], old_step: int, new_step: int, out: NDArray[np.int16]) -> None:
    """Write codes of one step in another, ties to even, within -32767 .. 32767; -32768 stays."""
