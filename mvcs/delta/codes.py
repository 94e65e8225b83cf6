"""The native coders of codes: alone, or near base codes in one group per source bucket."""

import numpy as np

import mvcs_native
from mvcs.delta.buffers import Bytes
from mvcs.errors import CorruptionError, UsageError

MAX_COUNT = 1 << 22


def encode_alone(codes: Bytes, levels: int) -> bytes:
    """Encode codes below `levels` as one group."""
    try:
        return mvcs_native.encode_codes(codes, levels)
    except ValueError as error:
        raise UsageError(f"codes cannot be encoded: {error}") from error


def decode_alone(payload: Bytes, levels: int, count: int) -> Bytes:
    """Decode `count` codes.

    Raises:
        CorruptionError: no encoder wrote this payload for that many codes.
    """
    out = mvcs_native.empty(count, np.uint8)
    try:
        mvcs_native.decode_codes(payload, levels, out)
    except ValueError as error:
        raise CorruptionError(f"codes cannot be decoded: {error}") from error
    return out


def encode_near(codes: Bytes, base: Bytes, levels: int) -> bytes:
    """Encode codes near base codes, both below `levels`; unchanged codes are no bytes.

    Cyclic differences, one group per source bucket: Inshrinkerator, section 6.
    """
    try:
        return mvcs_native.encode_delta(codes, base, levels)
    except ValueError as error:
        raise UsageError(f"codes cannot be encoded: {error}") from error


def decode_near(payload: Bytes, base: Bytes, levels: int) -> Bytes:
    """Decode the codes that were encoded near `base`.

    Raises:
        CorruptionError: no encoder wrote this payload for that base.
    """
    out = mvcs_native.empty(base.size, np.uint8)
    try:
        mvcs_native.decode_delta(payload, base, levels, out)
    except ValueError as error:
        raise CorruptionError(f"codes cannot be decoded: {error}") from error
    return out
