"""The native coders of exact chunks: near a base of the same type, and alone, both by rANS."""

from collections.abc import Callable

import numpy as np

import mvcs_native
from mvcs.delta.buffers import Buffer, Bytes, as_array
from mvcs.delta.element import ElementFormat
from mvcs.errors import CorruptionError, UsageError

MAX_WORDS = 1 << 23

_SLICES = 3
_SLICE_ELEMENTS = 1 << 13


def encode_residual(content: Buffer, base: Buffer, element: ElementFormat) -> memoryview:
    """Encode a chunk near a base of the same length and element format; unchanged content is no bytes.

    Differences of order-preserving integers, their sizes by rANS in the context of the base's exponent.

    Raises:
        UsageError: the two differ in length or are not whole elements, or there are more than 2^23 words.
    """
    data, near = as_array(content), as_array(base)
    return _encoded(lambda: mvcs_native.encode_residual(data, near, element.lane, element.floating))


def decode_residual(
    payload: Buffer, base: Buffer, element: ElementFormat, *, overwrite: bool = False
) -> memoryview:
    """Decode what `encode_residual` returned for the same base, in place of it where it may be overwritten.

    Raises:
        CorruptionError: no encoder wrote this payload for that base.
    """
    data, near = as_array(payload), as_array(base)
    out = near if overwrite else mvcs_native.empty(near.size, np.uint8)
    return _decoded(lambda: mvcs_native.decode_residual(data, near, element.lane, element.floating, out), out)


def encode_planes_rans(content: Buffer, element: ElementFormat) -> memoryview:
    """Encode a chunk alone: planes of bytes, each raw, constant, or by static rANS.

    Raises:
        UsageError: the content is not whole elements, or there are more than 2^23 words.
    """
    data = as_array(content)
    return _encoded(lambda: mvcs_native.encode_planes(data, element.lane, element.floating))


def decode_planes_rans(payload: Buffer, length: int, element: ElementFormat) -> memoryview:
    """Decode what `encode_planes_rans` returned into `length` bytes.

    Raises:
        CorruptionError: no encoder wrote this payload for that many bytes.
    """
    data = as_array(payload)
    out = mvcs_native.empty(length, np.uint8)
    return _decoded(lambda: mvcs_native.decode_planes(data, element.lane, element.floating, out), out)


def estimate_residual(content: Buffer, base: Buffer, element: ElementFormat) -> int:
    """Return about how many bytes `encode_residual` would take, from slices of a large chunk."""
    data, near = as_array(content), as_array(base)
    part = _sample(data, element.width)
    payload = encode_residual(part, _sample(near, element.width), element)
    return _scaled(len(payload), part.size, data.size)


def estimate_planes(content: Buffer, element: ElementFormat) -> int:
    """Return about how many bytes `encode_planes_rans` would take, from slices of a large chunk."""
    data = as_array(content)
    part = _sample(data, element.width)
    return _scaled(len(encode_planes_rans(part, element)), part.size, data.size)


def _encoded(encode: Callable[[], Bytes]) -> memoryview:
    try:
        return encode().data
    except ValueError as error:
        raise UsageError(f"a chunk cannot be encoded: {error}") from error


def _decoded(decode: Callable[[], None], out: Bytes) -> memoryview:
    try:
        decode()
    except ValueError as error:
        raise CorruptionError(f"a chunk cannot be decoded: {error}") from error
    return out.data.toreadonly()


def _sample(data: Bytes, width: int) -> Bytes:
    """The start, the middle and the end of a large chunk, in whole elements; a small chunk as it is."""
    count = data.size // width
    if count <= _SLICES * _SLICE_ELEMENTS:
        return data
    starts = (0, (count - _SLICE_ELEMENTS) // 2, count - _SLICE_ELEMENTS)
    return np.concatenate([data[start * width : (start + _SLICE_ELEMENTS) * width] for start in starts])


def _scaled(size: int, part: int, whole: int) -> int:
    return size if part == whole else size * whole // part
