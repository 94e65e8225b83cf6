"""The delta encoder (Inshrinkerator, section 6): how codes differ from those before, in a Huffman code.

The difference is cyclic: D = (before - C) mod n, where n is the larger of both numbers of levels. It is
decoded as C = (before - D) mod n; algorithm 6 prints a sum, which gives other codes. Before the first
checkpoint all codes are 0.

Three coders take the differences. `he` is a Huffman code of them. `rle` is one of their run lengths. `pe`
parts them by the code before (algorithm 5), which a decoder has, and makes run lengths of each part.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bitarray import bitarray  # an optional package: it is imported where it is used

Codes = NDArray[np.uint8]
Integers = NDArray[np.integer[Any]]

CODERS: Final = ("he", "rle", "pe")
_MOST = 256  # levels
_FEW = 1 << 24  # values that are counted in an array
_LONGEST = 64  # bits of a code, which needs more symbols than memory holds


def encode_delta(codes: Codes, before: Codes, levels: int, coder: str) -> list[bytes]:
    """Return what `decode_delta` needs beside the codes before: one Huffman code a part.

    Args:
        codes: uint8 [n], below `levels`.
        before: uint8 [n], likewise.
        levels: the larger of both numbers of levels, at most 256.
        coder: one of `CODERS`.
    """
    return [huffman(part) for part in _parts(codes, before, levels, coder)]


def delta_size(codes: Codes, before: Codes, levels: int, coder: str) -> int:
    """Return how many bytes `encode_delta` takes."""
    return sum(huffman_size(part) for part in _parts(codes, before, levels, coder))


def decode_delta(sections: Sequence[bytes], before: Codes, levels: int, coder: str) -> Codes:
    """Return the codes that `encode_delta` was given.

    Raises:
        ValueError: it did not return these sections for such codes before.
    """
    places = list(_places(before, coder))
    if coder not in CODERS or levels > _MOST:
        raise ValueError(f"there is no coder {coder} of {levels} levels")
    if len(sections) != len(places):
        raise ValueError(f"{len(sections)} sections of {coder} for {len(places)} parts")
    differences = np.empty(before.size, np.int16)
    for place, section in zip(places, sections, strict=True):
        size = differences[place].size
        found = unhuffman(section, size)
        if coder != "he":
            found = unruns(found, size)
        if found.size != size or (size and not 0 <= found.min() <= found.max() < levels):
            raise ValueError(f"these are not {size} differences below {levels}")
        differences[place] = found
    return ((before - differences) % levels).astype(np.uint8)


def _parts(codes: Codes, before: Codes, levels: int, coder: str) -> Iterator[Integers]:
    """Yield what each Huffman code is for."""
    differences = (before.astype(np.int16) - codes) % np.int16(levels)
    for place in _places(before, coder):
        yield differences[place] if coder == "he" else runs(differences[place])


def _places(before: Codes, coder: str) -> Iterator[NDArray[np.int64] | slice]:
    """Yield where each part of the differences stands: for `pe` one for each code there is, ascending."""
    if coder != "pe":
        yield slice(None)
        return
    order = np.argsort(before, kind="stable")
    counts = np.bincount(before)
    for end, count in zip(np.cumsum(counts), counts, strict=True):
        if count:
            yield order[end - count : end]


def huffman(symbols: Integers) -> bytes:
    """Return integers in a canonical Huffman code, its table in front.

    First come the numbers of symbols and of distinct ones. One symbol alone, of 32 bits, follows. Several
    have their table as a raw deflate stream, its size in front, and the number of bits before the bits. The
    table has the number of lengths, how many symbols have each length, from 0 bits on, and the symbols by
    length and size, each less the one before: the low bytes of all these, then the higher ones. All numbers
    are little-endian, of 32 bits.

    Args:
        symbols: integers of at most 32 bits, of any shape.
    """
    head, codes, count = _code(symbols)
    if not codes:
        return head
    from bitarray import bitarray

    bits = bitarray()
    bits.encode(codes, symbols.ravel().tolist())
    return head + struct.pack("<I", count) + bits.tobytes()


def huffman_size(symbols: Integers) -> int:
    """Return how many bytes `huffman` takes, which needs no codes of all symbols."""
    head, codes, count = _code(symbols)
    return len(head) + (4 + -(-count // 8) if codes else 0)


def _code(symbols: Integers) -> tuple[bytes, "dict[int, bitarray]", int]:
    """Return what stands before the bits, the codes of several symbols, and how many bits they take."""
    from bitarray.util import canonical_huffman

    values, counts = _counted(symbols)
    head = struct.pack("<II", symbols.size, values.size)
    if values.size < 2:
        return head + values.astype("<i4").tobytes(), {}, 0
    codes, lengths, order = canonical_huffman(dict(zip(values.tolist(), counts.tolist(), strict=True)))
    ascending = sorted(order, key=lambda symbol: (len(codes[symbol]), symbol))
    codes = dict(zip(ascending, [codes[symbol] for symbol in order], strict=True))
    numbers = np.concatenate([[len(lengths)], lengths, np.diff(ascending, prepend=0)]).astype("<i4")
    table = _deflated(numbers.view(np.uint8).reshape(-1, 4).T.tobytes())
    bits = np.dot([len(codes[value]) for value in values.tolist()], counts)
    return head + struct.pack("<I", len(table)) + table, codes, int(bits)


def _counted(symbols: Integers) -> tuple[Integers, Integers]:
    """Return the distinct symbols, ascending, and how often each is there."""
    low, high = (int(symbols.min()), int(symbols.max())) if symbols.size else (0, 0)
    if high - low >= _FEW:
        values, counts = np.unique(symbols, return_counts=True)
        return values, counts
    counts = np.bincount(symbols.ravel().astype(np.int64) - low)
    values = np.flatnonzero(counts)
    return values + low, counts[values]


def _deflated(data: bytes) -> bytes:
    deflater = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    return deflater.compress(data) + deflater.flush()


def unhuffman(payload: bytes, most: int) -> NDArray[np.int64]:
    """Return the integers of `huffman`.

    Args:
        payload: what it returned.
        most: how many there may be.

    Raises:
        ValueError: it did not return this, or for more integers.
    """
    from bitarray import bitarray
    from bitarray.util import canonical_decode

    size, distinct = _numbers(payload, 0, 2)
    if size > most or distinct > size:
        raise ValueError(f"{size} symbols, {distinct} of them distinct, for at most {most}")
    if distinct < 2:
        only = np.frombuffer(payload, "<i4", distinct, 8)
        return np.full(size, only[0] if distinct else 0, np.int64)
    (length,) = _numbers(payload, 8, 1)
    lengths, order = _table(payload[12 : 12 + length], distinct)
    (count,) = _numbers(payload, 12 + length, 1)
    bits = bitarray(bytes(payload[16 + length :]))
    if not count <= len(bits) < count + 8:
        raise ValueError("the bits are torn")
    del bits[count:]
    found = np.fromiter(canonical_decode(bits, lengths, order), np.int64)
    if found.size != size:
        raise ValueError(f"{found.size} symbols instead of {size}")
    return found


def _table(deflated: bytes, distinct: int) -> tuple[list[int], list[int]]:
    """Return how many of so many symbols have each length, and the symbols by length."""
    most = 4 * (1 + _LONGEST + distinct)
    try:
        planes = np.frombuffer(zlib.decompressobj(-zlib.MAX_WBITS).decompress(deflated, most), np.uint8)
    except zlib.error as error:
        raise ValueError(f"a Huffman table is damaged: {error}") from error
    numbers = np.ascontiguousarray(planes.reshape(4, -1).T).view("<i4").ravel().tolist()
    longest = numbers[0] if numbers else 0
    if len(numbers) != 1 + longest + distinct:
        raise ValueError("a Huffman table has another size")
    return numbers[1 : 1 + longest], np.cumsum(numbers[1 + longest :]).tolist()


def _numbers(payload: bytes, start: int, count: int) -> tuple[int, ...]:
    if len(payload) < start + 4 * count:
        raise ValueError("a Huffman code is torn")
    return struct.unpack_from(f"<{count}I", payload, start)


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
