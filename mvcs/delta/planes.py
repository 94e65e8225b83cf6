"""Byte planes: all first bytes of a chunk's words, then all second bytes, each stored as suits it.

The exponents of floats are alike and compress; the low bytes of fractions are noise and stay as they are.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from mvcs.delta import codes, frames
from mvcs.delta.buffers import Bytes
from mvcs.delta.element import ElementFormat
from mvcs.errors import CorruptionError

Words = NDArray[np.unsignedinteger]

_ZSTD_LEVEL = 1  # higher levels take noise for matches and come out larger on exponents
_SLICE = 1 << 15
_LEVELS = 256


class PlaneMode(IntEnum):
    """How one plane is stored."""

    RAW = 0
    CONSTANT = 1
    ZSTD = 2
    CODES = 3


def encode_planes(content: Bytes, element: ElementFormat) -> bytes:
    """Encode a chunk alone; floats are rotated left by one, so that the exponent fills the top plane."""
    words = as_words(content, element)
    if element.floating:
        words = words << constant(1, words) | words >> constant(8 * words.itemsize - 1, words)
    return pack(words)


def decode_planes(payload: Bytes, length: int, element: ElementFormat) -> bytes:
    """Decode what `encode_planes` returned into `length` bytes.

    Raises:
        CorruptionError: the payload is not the planes of that many bytes.
    """
    words = unpack(payload, length, element.lane)
    if element.floating:
        words = words >> constant(1, words) | words << constant(8 * words.itemsize - 1, words)
    return little_endian(words).tobytes()


def as_words(content: Bytes, element: ElementFormat) -> Words:
    """View whole elements as little-endian unsigned words."""
    return content.view(f"<u{element.lane}")


def constant(value: int, words: Words) -> Words:
    """Return a number of the words' own type, so that arithmetic with it stays in that type."""
    return np.array(value, words.dtype)


def little_endian(words: Words) -> Words:
    """Return the words in the byte order of format 1."""
    return words.astype(words.dtype.newbyteorder("<"), copy=False)


def pack(words: Words) -> bytes:
    """Store words as planes, the least significant first."""
    if words.size == 0:
        return b""
    rows = little_endian(words).view(np.uint8).reshape(words.size, words.itemsize)
    return b"".join(_pack_plane(plane) for plane in np.ascontiguousarray(rows.T))


def unpack(payload: Bytes, length: int, width: int) -> Words:
    """Read the planes of `length` bytes of words of `width` bytes.

    Raises:
        CorruptionError: a plane is damaged, missing, or followed by more bytes.
    """
    count, rest = divmod(length, width)
    if rest:
        raise CorruptionError(f"{length} bytes are not whole words of {width}")
    rows = np.empty((count, width), np.uint8)
    for place in range(width if count else 0):
        rows[:, place], payload = _take_plane(payload, count)
    if payload.size:
        raise CorruptionError("planes are followed by more bytes")
    return rows.reshape(-1).view(f"<u{width}")


def _pack_plane(plane: Bytes) -> bytes:
    if plane.min() == plane.max():
        return bytes([PlaneMode.CONSTANT, plane[0]])
    mode = _best_mode(plane)
    if mode is not PlaneMode.RAW:
        body = _pack_body(mode, plane)
        if 4 + len(body) < plane.size:
            return bytes([mode]) + len(body).to_bytes(4, "little") + body
    return bytes([PlaneMode.RAW]) + plane.tobytes()


def _best_mode(plane: Bytes) -> PlaneMode:
    """Try a sample of a large plane, because most planes are noise; a gain below 1/64 is none."""
    starts = (0, (plane.size - _SLICE) // 2, plane.size - _SLICE)
    large = plane.size > len(starts) * _SLICE
    sample = np.concatenate([plane[start : start + _SLICE] for start in starts]) if large else plane
    coded = plane.size <= codes.MAX_COUNT
    candidates = (PlaneMode.ZSTD, PlaneMode.CODES) if coded else (PlaneMode.ZSTD,)
    sizes = {mode: len(_pack_body(mode, sample)) for mode in candidates}
    sizes[PlaneMode.RAW] = sample.size - sample.size // 64
    return min(sizes, key=lambda mode: (sizes[mode], mode))


def _pack_body(mode: PlaneMode, plane: Bytes) -> bytes:
    if mode is PlaneMode.ZSTD:
        return frames.compress(plane, _ZSTD_LEVEL)
    return codes.encode_alone(plane, _LEVELS)


def _take_plane(payload: Bytes, count: int) -> tuple[Bytes | int, Bytes]:
    """Split the first plane, or the one byte it consists of, off a payload."""
    head, payload = _take(payload, 1)
    match int(head[0]):
        case PlaneMode.RAW:
            return _take(payload, count)
        case PlaneMode.CONSTANT:
            value, payload = _take(payload, 1)
            return int(value[0]), payload
        case PlaneMode.ZSTD | PlaneMode.CODES as mode:
            size, payload = _take(payload, 4)
            body, payload = _take(payload, int.from_bytes(size.tobytes(), "little"))
            return _unpack_body(mode, body, count), payload
    raise CorruptionError(f"a plane has the unknown mode {head[0]}")


def _unpack_body(mode: int, body: Bytes, count: int) -> Bytes:
    if mode == PlaneMode.ZSTD:
        return np.frombuffer(frames.decompress(body, count), np.uint8)
    return codes.decode_alone(body, _LEVELS, count)


def _take(payload: Bytes, count: int) -> tuple[Bytes, Bytes]:
    if count > payload.size:
        raise CorruptionError("planes end early")
    return payload[:count], payload[count:]
