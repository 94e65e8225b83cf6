"""Coders that the papers share: canonical Huffman codes, whole bits, run lengths, LZMA."""

import lzma
import struct
from typing import Any

import numpy as np
from bitarray import bitarray
from bitarray.util import canonical_decode, canonical_huffman
from numpy.typing import NDArray

Integers = NDArray[np.integer[Any]]


def huffman(symbols: Integers) -> bytes:
    """Return integers in a canonical Huffman code, its table in front.

    The table has the number of symbols of each length, and the symbols from the shortest code to the longest.
    All numbers before the bits are little-endian, of 32 bits but for the lengths' counts.

    Args:
        symbols: integers of at most 32 bits, of any shape.
    """
    values, counts = np.unique(symbols, return_counts=True)
    if values.size < 2:
        only = values.astype("<i4").tobytes()
        return struct.pack("<II", symbols.size, values.size) + only
    table, lengths, order = canonical_huffman(dict(zip(values.tolist(), counts.tolist(), strict=True)))
    bits = bitarray()
    bits.encode(table, symbols.ravel().tolist())
    head = struct.pack(f"<IIB{len(lengths)}I", symbols.size, values.size, len(lengths), *lengths)
    return head + np.array(order, "<i4").tobytes() + struct.pack("<I", len(bits)) + bits.tobytes()


def unhuffman(payload: bytes, most: int) -> NDArray[np.int64]:
    """Return the integers of `huffman`.

    Args:
        payload: what it returned.
        most: how many there may be.

    Raises:
        ValueError: it did not return this, or for more integers.
    """
    size, distinct = struct.unpack_from("<II", payload)
    if size > most or distinct > size:
        raise ValueError(f"{size} symbols, {distinct} of them distinct, for at most {most}")
    if distinct < 2:
        only = np.frombuffer(payload, "<i4", distinct, 8)
        return np.full(size, only[0] if distinct else 0, np.int64)
    (longest,) = struct.unpack_from("<B", payload, 8)
    lengths = struct.unpack_from(f"<{longest}I", payload, 9)
    start = 9 + 4 * longest
    order = np.frombuffer(payload, "<i4", distinct, start).tolist()
    (count,) = struct.unpack_from("<I", payload, start + 4 * distinct)
    bits = bitarray(bytes(payload[start + 4 * distinct + 4 :]))
    if not count <= len(bits) < count + 8:
        raise ValueError("the bits are torn")
    del bits[count:]
    found = np.fromiter(canonical_decode(bits, lengths, order), np.int64)
    if found.size != size:
        raise ValueError(f"{found.size} symbols instead of {size}")
    return found


def runs(symbols: Integers) -> NDArray[np.int64]:
    """Return run lengths as Inshrinkerator writes them (section 6): values negated, so at most 0.

    Each is followed by how often it is repeated, if that is more than once.

    Args:
        symbols: integers of at least 0, one dimension.
    """
    if not symbols.size:
        return np.zeros(0, np.int64)
    starts = np.flatnonzero(np.r_[True, symbols[1:] != symbols[:-1]])
    lengths = np.diff(np.r_[starts, symbols.size])
    pairs = np.stack([-symbols[starts].astype(np.int64), lengths], axis=1).ravel()
    tokens: NDArray[np.int64] = pairs[pairs != 1]
    return tokens


def unruns(tokens: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return the integers of `runs`.

    Raises:
        ValueError: these are no run lengths, or of more integers than `most`.
    """
    is_length = tokens > 0
    if is_length.size and (is_length[0] or (is_length[1:] & is_length[:-1]).any()):
        raise ValueError("a run has no value")
    values = -tokens[~is_length]
    lengths = np.ones(values.size, np.int64)
    lengths[np.cumsum(~is_length)[is_length] - 1] = tokens[is_length]
    if lengths.sum() > most or (lengths > most).any():
        raise ValueError(f"the runs are longer than {most}")
    return np.repeat(values, lengths)


def to_bits(codes: Integers, width: int) -> bytes:
    """Return each code in `width` bits, at most 16, the high one first."""
    shifts = np.arange(width - 1, -1, -1)
    return np.packbits((codes.ravel()[:, None] >> shifts & 1).astype(np.uint8)).tobytes()


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
