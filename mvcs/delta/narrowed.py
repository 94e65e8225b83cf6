"""16-bit floats that are 32-bit floats rounded: a copy of master weights is no bytes beside them."""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from mvcs.delta.buffers import Bytes
from mvcs.errors import CorruptionError, UsageError

_SAMPLE = 1 << 10
_INFINITE = 0x7F800000


class NarrowedType(IntEnum):
    """The type that was rounded to."""

    FLOAT16 = 0
    BFLOAT16 = 1


def narrowed_type(content: Bytes, base: Bytes) -> NarrowedType | None:
    """Return the type as which the float32 elements of `base`, rounded to nearest even, are `content`.

    None when they are neither.
    """
    if base.size != 2 * content.size or base.size % 4:
        return None
    for narrow in NarrowedType:
        start = _rounded(base[: 4 * _SAMPLE], narrow)
        if np.array_equal(start, content[: 2 * _SAMPLE]) and np.array_equal(_rounded(base, narrow), content):
            return narrow
    return None


def encode_narrowed(content: Bytes, base: Bytes) -> bytes:
    """Encode 16-bit floats that are the base rounded: the number of their type.

    Raises:
        UsageError: they are not.
    """
    narrow = narrowed_type(content, base)
    if narrow is None:
        raise UsageError("these are not the elements of the base rounded to 16 bits")
    return narrowed_payload(narrow)


def narrowed_payload(narrow: NarrowedType) -> bytes:
    """Return the payload of any chunk that is its base rounded to that type."""
    return bytes([narrow])


def decode_narrowed(payload: Bytes, base: Bytes) -> bytes:
    """Round the float32 elements of the base.

    Raises:
        CorruptionError: the payload names no type, or the base is not whole float32 elements.
    """
    if payload.size != 1 or int(payload[0]) not in NarrowedType._value2member_map_ or base.size % 4:
        raise CorruptionError("a narrowed chunk does not say to which type")
    return _rounded(base, NarrowedType(int(payload[0]))).tobytes()


def _rounded(base: Bytes, narrow: NarrowedType) -> Bytes:
    bits = base.view("<u4")
    rounded = _to_float16(bits) if narrow is NarrowedType.FLOAT16 else _to_bfloat16(bits)
    # Machines differ on NaN: here the sign and the top of the fraction stay, and the quiet bit is set.
    nan = np.flatnonzero((bits & 0x7FFFFFFF) > _INFINITE)
    if nan.size:
        lost, quiet = (13, 0x7E00) if narrow is NarrowedType.FLOAT16 else (16, 0x7FC0)
        rounded[nan] = bits[nan] >> 16 & 0x8000 | (bits[nan] & 0x7FFFFF) >> lost | quiet
    return rounded.astype("<u2", copy=False).view(np.uint8)


def _to_float16(bits: NDArray[np.uint32]) -> NDArray[np.uint16]:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return bits.view("<f4").astype("<f2").view("<u2")


def _to_bfloat16(bits: NDArray[np.uint32]) -> NDArray[np.uint16]:
    odd = bits >> np.uint32(16) & np.uint32(1)
    # A NaN may wrap around here; it is set afterwards.
    return (bits + np.uint32(0x7FFF) + odd >> np.uint32(16)).astype("<u2")
