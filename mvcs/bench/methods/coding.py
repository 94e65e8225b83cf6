"""Coders that the papers share: whole bits and LZMA. Huffman codes are those of `mvcs.inshrinkerator`."""

import lzma
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.integer[Any]]


def to_bits(codes: Integers, width: int) -> bytes:
    """Return each code in `width` bits, at most 16, the high one first."""
    bits = np.unpackbits(codes.ravel().astype(">u2").view(np.uint8)).reshape(-1, 16)
    return np.packbits(bits[:, 16 - width :]).tobytes()


def from_bits(payload: bytes, width: int, count: int) -> NDArray[np.uint16]:
    """Return `count` codes of `width` bits.

    Raises:
        ValueError: there are not as many bytes.
    """
    if not 0 < width <= 16 or len(payload) != -(-width * count // 8):
        raise ValueError(f"{len(payload)} bytes for {count} codes of {width} bits")
    bits = np.unpackbits(np.frombuffer(payload, np.uint8), count=width * count).reshape(count, width)
    worth = (1 << np.arange(width - 1, -1, -1)).astype(np.uint16)
    codes: NDArray[np.uint16] = bits.astype(np.uint16) @ worth
    return codes


def compressed(data: bytes) -> bytes:
    """Return LZMA of some bytes, at its usual preset."""
    return lzma.compress(data, lzma.FORMAT_ALONE)


def decompressed(payload: bytes, size: int) -> bytes:
    """Return `size` bytes that `compressed` was given.

    Raises:
        ValueError: it was given others.
    """
    try:
        found = lzma.LZMADecompressor(lzma.FORMAT_ALONE).decompress(payload, size + 1)
    except lzma.LZMAError as error:
        raise ValueError(f"LZMA: {error}") from error
    if len(found) != size:
        raise ValueError(f"{len(found)} bytes instead of {size}")
    return found


def sealed(sections: Sequence[bytes]) -> list[bytes]:
    """Put a checksum in front of what goes to libraries that may crash on damaged bytes."""
    return [struct.pack("<I", zlib.crc32(b"".join(sections))), *sections]


def unsealed(sections: Sequence[bytes]) -> Sequence[bytes]:
    """Return what `sealed` was given.

    Raises:
        ValueError: the checksum is of others.
    """
    checksum, *others = sections
    if checksum != struct.pack("<I", zlib.crc32(b"".join(others))):
        raise ValueError("its checksum is of other bytes")
    return others
