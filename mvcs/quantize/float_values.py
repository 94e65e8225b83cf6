"""Element types to float32, in which quantizers work, and back, each value rounded once to nearest even."""

import numpy as np
from numpy.typing import NDArray

from mvcs.errors import UsageError

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Doubles = NDArray[np.float64]

WIDE_DTYPE = "float64"

_NUMPY = {"float16": "<f2", "float32": "<f4", "float64": "<f8"}
_FLOAT32 = np.dtype("<f4")
_QUIET = np.uint16(0x0040)
_NORMAL = np.finfo(np.float32)


def to_float32(raw: bytes | bytearray | memoryview | Bytes, dtype: str) -> Floats:
    """Read little-endian elements as float32.

    float16 and bfloat16 are exact; float64 is rounded, and becomes infinite where float32 has no such value.

    Args:
        raw: whole elements.
        dtype: "float16", "bfloat16", "float32" or "float64".

    Raises:
        UsageError: the element type is another, or the bytes are not whole elements.
    """
    try:
        if dtype == "bfloat16":
            return from_upper_halves(np.frombuffer(raw, "<u2"))
        if dtype == "float32":
            return np.frombuffer(raw, _FLOAT32)  # no state of errors: of a small tensor that takes longest
        elements = np.frombuffer(raw, _numpy_of(dtype))
    except UsageError:  # it is a ValueError, too, and has a reason of its own
        raise
    except ValueError as error:
        raise UsageError(f"the bytes are not whole elements of {dtype}") from error
    with np.errstate(all="ignore"):
        return elements.astype(np.float32, copy=False)


def out_of_range(raw: bytes | bytearray | memoryview | Bytes) -> tuple[int, int]:
    """Count the finite float64 elements that are no normal float32, and all that are not zero."""
    with np.errstate(invalid="ignore"):
        magnitudes = np.abs(np.frombuffer(raw, "<f8"))
    known = np.isfinite(magnitudes) & (magnitudes > 0)
    inside = (magnitudes >= _NORMAL.tiny) & (magnitudes <= _NORMAL.max)
    whole = int(np.count_nonzero(known))
    return whole - int(np.count_nonzero(inside)), whole


def from_float32(values: Floats, dtype: str) -> bytes:
    """Write float32 values as little-endian elements, rounded to nearest even; NaNs stay NaNs.

    Raises:
        UsageError: the element type is none of those `to_float32` reads.
    """
    return elements_of(values, dtype).tobytes()


def elements_of(values: Floats, dtype: str) -> Bytes:
    """Return the same as an array of bytes; for float32 it is the memory of the values themselves.

    Raises:
        UsageError: as `from_float32`.
    """
    if dtype == "bfloat16":
        return _bfloat16(values).view(np.uint8)
    if dtype == "float32":
        return np.ascontiguousarray(values, _FLOAT32).view(np.uint8)
    with np.errstate(all="ignore"):
        elements = np.ascontiguousarray(values.astype(_numpy_of(dtype), copy=False))
    if dtype == "float16":
        _quiet(elements.view(np.uint16).reshape(-1), values.reshape(-1))
    return elements.view(np.uint8)


def upper_halves(raw: bytes | bytearray | memoryview | Bytes, dtype: str) -> Halves:
    """Read little-endian elements as float32 and return the upper halves of their patterns.

    That is bfloat16, rounded towards zero.
    """
    return np.ascontiguousarray(to_float32(raw, dtype).view(np.uint16)[1::2])


def from_upper_halves(halves: Halves) -> Floats:
    """Return the float32 values whose patterns have these upper halves and nothing below."""
    return (halves.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _numpy_of(dtype: str) -> np.dtype[np.floating]:
    if dtype not in _NUMPY:
        raise UsageError(
            f"elements of {dtype} cannot be quantized", hint="only float16, bfloat16, float32, float64"
        )
    return np.dtype(_NUMPY[dtype])


def _quiet(halves: Halves, values: Floats) -> None:
    """Give every NaN its sign, the top of its fraction and the quiet bit: machines differ on them."""
    if not (nan := np.flatnonzero(np.isnan(values))).size:
        return
    patterns = values[nan].view(np.uint32)
    halves[nan] = patterns >> 16 & 0x8000 | patterns >> 13 & 0x3FF | 0x7E00


def _bfloat16(values: Floats) -> NDArray[np.uint16]:
    """Round the upper half by the lower, ties to even; a NaN stays one, made quiet."""
    patterns = np.ascontiguousarray(values).view(np.uint32)
    upper = (patterns >> np.uint32(16)).astype(np.uint16)
    carry = np.uint32(0x7FFF) + (patterns >> np.uint32(16) & np.uint32(1))
    rounded = (patterns + carry >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(values), upper | _QUIET, rounded).astype("<u2", copy=False)
