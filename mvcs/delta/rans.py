"""The entropy coder of codes: static rANS, alone or near base codes (docs/format/entropy.md).

A payload holds the codes of one or several *members*, one after another, which share its tables. Codes are
bytes, or signed little-endian integers of two bytes; arrays hold their bytes.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import mvcs_native
from mvcs.delta.buffers import Bytes
from mvcs.errors import CorruptionError, UnsupportedFormatError, UsageError

_RESERVED_MODES = (1, 3, 5, 7)  # of moves


def encode_codes(codes: Bytes, width: int, counts: Sequence[int]) -> bytes:
    """Encode codes of `width` bytes (1 or 2) alone; `counts` has the number of codes of each member.

    Raises:
        UsageError: the counts do not add up to the codes, or are more than an entry may hold.
    """
    try:
        return mvcs_native.encode_rans_codes(codes, width, _as_counts(counts))
    except ValueError as error:
        raise UsageError(f"codes cannot be encoded: {error}") from error


def decode_codes(payload: Bytes, width: int, counts: Sequence[int]) -> Bytes:
    """Decode the bytes of codes that were encoded alone.

    Raises:
        CorruptionError: no encoder wrote this payload for members of these counts.
    """
    out = mvcs_native.empty(sum(counts) * width, np.uint8)
    try:
        mvcs_native.decode_rans_codes(payload, width, _as_counts(counts), out)
    except ValueError as error:
        raise CorruptionError(f"codes cannot be decoded: {error}") from error
    return out


def encode_moves(
    codes: Bytes,
    base: Bytes,
    width: int,
    counts: Sequence[int],
    steps: Sequence[tuple[int, int]] | None = None,
) -> bytes:
    """Encode codes near base codes of the same width and counts; if none changed that is one byte.

    `steps`, for lattice codes of two bytes, holds the step byte of each member's base codes and of its codes.
    A base in another step is re-expressed first (`rescale_codes`); the payload tells readers to do the same.

    Raises:
        UsageError: codes, base, counts and steps do not fit each other, or are more than an entry may hold.
    """
    try:
        flat = np.array([] if steps is None else steps, np.uint8).reshape(-1)
        return mvcs_native.encode_rans_moves(codes, base, width, _as_counts(counts), flat)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"codes cannot be encoded: {error}") from error


def decode_moves(
    payload: Bytes, base: Bytes, width: int, counts: Sequence[int], *, overwrite: bool = False
) -> Bytes:
    """Decode the bytes of codes that were encoded near `base`, in place of it where it may be overwritten.

    Raises:
        CorruptionError: no encoder wrote this payload for that base and members of these counts.
        UnsupportedFormatError: it has a reserved mode.
    """
    if payload.size and payload[0] in _RESERVED_MODES:
        raise UnsupportedFormatError(
            f"codes near others have the unknown mode {payload[0]}",
            hint="a newer mvcs may have written it; upgrade and try again",
        )
    out = base if overwrite else mvcs_native.empty(sum(counts) * width, np.uint8)
    try:
        mvcs_native.decode_rans_moves(payload, base, width, _as_counts(counts), out)
    except ValueError as error:
        raise CorruptionError(f"codes cannot be decoded: {error}") from error
    return out


def rescale_codes(codes: NDArray[np.int16], old_step: int, new_step: int) -> NDArray[np.int16]:
    """Re-express lattice codes in another step: code * old / new, of two nearest the even one.

    A step byte s means (4 + s % 4) * 2^(s // 4 - 60). Results are clamped to -32767 .. 32767; -32768, which
    marks an exception, stays.

    Raises:
        UsageError: a step is not a byte.
    """
    out = mvcs_native.empty(codes.size, np.int16)
    try:
        mvcs_native.rescale(codes, old_step, new_step, out)
    except ValueError as error:
        raise UsageError(f"codes cannot be rescaled: {error}") from error
    return out


def _as_counts(counts: Sequence[int]) -> NDArray[np.uint64]:
    return np.array(counts, np.uint64)
