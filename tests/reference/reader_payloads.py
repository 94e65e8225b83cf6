"""How payloads hold chunks (`docs/format/encodings.md`, `entropy.md`), and what a reader does with a defect.

Part of the second reader, `tests/reference/reader.py`. One symbol is read at a time, as the pages say it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import zstandard

# README.md: what a reader does with a defect.


class CorruptionError(Exception):
    """A MUST of a page is broken, or a hash, checksum, digest or limit is."""


class UnsupportedError(Exception):
    """A newer writer may have made this: an unknown version, kind, tag, encoding, form, type or field."""


class MissingError(Exception):
    """An object or a file is not there: dropped, not fetched, or lost."""


def must(condition: object, what: str) -> None:
    """Raise a corruption where a condition does not hold."""
    if not condition:
        raise CorruptionError(what)


def known(condition: object, what: str) -> None:
    """Raise an unsupported format where a condition does not hold."""
    if not condition:
        raise UnsupportedError(what)


# encodings.md and entropy.md: reading a payload.


class Bits:
    """A bit stream that starts with the most significant bit of a byte."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> int:
        """Return the next bits as a number."""
        first, last = self.at >> 3, (self.at + count + 7) >> 3
        must(last <= len(self.data), "a bit stream ends too early")
        number = int.from_bytes(self.data[first:last], "big") >> (8 * last - self.at - count)
        self.at += count
        return number & ((1 << count) - 1)

    def gamma(self) -> int:
        """Return a number of at least 1 in Elias' gamma code."""
        zeros = 0
        while not self.take(1):
            zeros += 1
        return 1 << zeros | self.take(zeros)

    def close(self) -> int:
        """Return how many bytes were read; what is left of the last must be zeros."""
        must(not self.take(-self.at % 8), "spare bits are not zero")
        return self.at >> 3


class Payload:
    """Bytes that are read from the front."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, count: int) -> bytes:
        must(count <= self.left(), "a payload ends too early")
        self.at += count
        return self.data[self.at - count : self.at]

    def byte(self) -> int:
        return self.take(1)[0]

    def varint(self) -> int:
        number = 0
        for place in range(4):
            byte = self.byte()
            number |= (byte & 127) << 7 * place
            if byte < 128:
                must(byte or not place, "a varint has needless bytes")
                return number
        raise CorruptionError("a varint has more than four bytes")

    @contextmanager
    def bits(self) -> Iterator[Bits]:
        """A bit stream from here; afterwards the payload goes on behind it."""
        bits = Bits(self.data[self.at :])
        yield bits
        self.at += bits.close()

    @contextmanager
    def body(self) -> Iterator[Payload]:
        """A size, and a body that must be used up."""
        body = Payload(self.take(self.varint()))
        yield body
        must(not body.left(), "a payload has spare bytes")


# encodings.md: CODES and DELTA.

MOST_CODES, _LONGEST_WORD, _RUN_CLASSES = 1 << 22, 14, 23


def _huffman_codes(payload: Payload, base: list[int] | None, count: int) -> list[int]:
    """Return codes of one byte: CODES, or DELTA near a base."""
    levels = payload.byte() + 1
    must(count <= MOST_CODES, "a chunk has too many codes")
    if base is None:
        return _group(payload, count, levels)
    must(max(base, default=0) < levels, "a code of the base is not below levels")
    if not payload.left():
        return base
    groups = [iter(_group(payload, base.count(code), levels)) for code in range(levels)]
    return [(code - next(groups[code])) % levels for code in base]


def _group(payload: Payload, count: int, levels: int) -> list[int]:
    if not count:
        return []
    mode = payload.byte()
    must(mode < 5, f"mode {mode} of a group")
    if mode < 3:
        symbols = _plain_group(payload, mode, count, levels)
    else:
        with payload.body() as body:
            symbols = _huffman_group(body, count, levels) if mode == 3 else _runs(body, count, levels)
    must(max(symbols) < levels, "a symbol is not below levels")
    return symbols


def _plain_group(payload: Payload, mode: int, count: int, levels: int) -> list[int]:
    if mode < 2:
        return [payload.byte() if mode else 0] * count
    width = (levels - 1).bit_length()
    with payload.bits() as bits:
        return [bits.take(width) for _ in range(count)]


def _huffman_group(body: Payload, count: int, levels: int) -> list[int]:
    words = _code_words(body, levels)
    with body.bits() as bits:
        return [_word(bits, words) for _ in range(count)]


def _runs(body: Payload, count: int, levels: int) -> list[int]:
    common = body.byte()
    others, classes = _code_words(body, levels), _code_words(body, _RUN_CLASSES)
    must(common not in others.values(), "the common symbol has a code word")
    symbols: list[int] = []
    with body.bits() as bits:
        while len(symbols) < count:
            size = _word(bits, classes)
            run = (1 << size | bits.take(size)) - 1
            must(run <= count - len(symbols), "a run is longer than what is left")
            symbols += [common] * run
            if len(symbols) < count:
                symbols.append(_word(bits, others))
    return symbols


def _code_words(body: Payload, alphabet: int) -> dict[tuple[int, int], int]:
    """Read a table; return the symbol of each code word, told by its length and bits."""
    lengths: dict[int, int] = {}
    symbol, total = 0, Fraction(0)
    with body.bits() as bits:
        while total < 1:
            nibble = bits.take(4)
            if nibble == 0:
                symbol += bits.take(4) + 1
                continue
            lengths[symbol] = nibble % 15
            total += Fraction(1, 1 << nibble % 15)
            symbol += 1
    must(total == 1 and symbol <= alphabet, "a table goes beyond 1 or beyond the alphabet")
    return _canonical_words(lengths)


def _canonical_words(lengths: dict[int, int]) -> dict[tuple[int, int], int]:
    words, word, before = {}, 0, 0
    for symbol, length in sorted(lengths.items(), key=lambda item: (item[1], item[0])):
        word <<= length - before
        words[length, word] = symbol
        word, before = word + 1, length
    return words


def _word(bits: Bits, words: dict[tuple[int, int], int]) -> int:
    word = 0
    for length in range(_LONGEST_WORD + 1):
        if (length, word) in words:
            return words[length, word]
        word = word << 1 | bits.take(1)
    raise CorruptionError("no such code word")  # a complete code has one for all bits


# entropy.md: models, streams and the encodings of codes.

_SCALE, _LOWEST_STATE, _ESCAPE = 4096, 1 << 16, 255


class Table:
    """Frequencies of symbols that sum to 4096."""

    def __init__(self, frequencies: dict[int, int]) -> None:
        self.frequencies, self.starts = frequencies, dict[int, int]()
        self.slots: list[int] = []
        for symbol, frequency in frequencies.items():
            self.starts[symbol] = len(self.slots)
            self.slots += [symbol] * frequency

    def only(self) -> int | None:
        return self.slots[0] if len(self.frequencies) == 1 else None


def _table(bits: Bits, alphabet: int) -> Table:
    frequencies: dict[int, int] = {}
    symbol, total, before = 0, 0, 10
    while total < _SCALE:
        length = before + _unzigzag(bits.gamma() - 1)
        must(0 <= length <= 13, "a frequency has no such length")
        if length:
            frequencies[symbol] = 1 << (length - 1) | bits.take(length - 1)
            total, before = total + frequencies[symbol], length
        symbol += 1 if length else bits.gamma()
        must(symbol <= alphabet, "a table goes beyond the alphabet")
    must(total == _SCALE, "frequencies do not sum to 4096")
    return Table(frequencies)


def _unzigzag(number: int) -> int:
    return -(number + 1 >> 1) if number & 1 else number >> 1


def _map(bits: Bits, tables: int, contexts: int) -> list[int]:
    """Return the table of each context."""
    if tables == 1:
        return [0] * contexts
    tables_of: list[int] = []
    while len(tables_of) < contexts:
        run = bits.gamma()
        must(run <= contexts - len(tables_of), "a run of the map goes beyond the last context")
        tables_of += [bits.take((tables - 1).bit_length())] * run
    must(max(tables_of, default=0) < tables, "a table of the map does not exist")
    return tables_of


class Model:
    """The table of each context."""

    def __init__(self, payload: Payload, alphabet: int, contexts: int) -> None:
        with payload.bits() as bits:
            self.tables = [_table(bits, alphabet) for _ in range(bits.take(4) + 1)]
            self.of = _map(bits, len(self.tables), contexts)

    def certain(self) -> bool:
        return all(table.only() is not None for table in self.tables)

    def stream(self, payload: Payload, contexts: list[int], *, leave_out_certain: bool = False) -> list[int]:
        """Return one symbol for each context of `contexts`."""
        tables = [self.tables[self.of[context]] for context in contexts]
        if leave_out_certain and self.certain():
            return [table.slots[0] for table in tables]
        return _stream(payload, tables) if tables else []


def _stream(payload: Payload, tables: list[Table]) -> list[int]:
    lanes = payload.byte()
    must(lanes <= 6, "too many lanes")
    states = list(struct.unpack(f"<{1 << lanes}I", payload.take(4 << lanes)))
    must(min(states) >= _LOWEST_STATE, "a state is too low")
    symbols = []
    for index, table in enumerate(tables):
        state = states[index % len(states)]
        symbol = table.slots[state % _SCALE]
        state = table.frequencies[symbol] * (state // _SCALE) + state % _SCALE - table.starts[symbol]
        if state < _LOWEST_STATE:
            state = state << 16 | int.from_bytes(payload.take(2), "little")
        states[index % len(states)] = state
        symbols.append(symbol)
    must(set(states) == {_LOWEST_STATE}, "a state does not end where it began")
    return symbols


def _escaped(payload: Payload, width: int) -> int:
    return int.from_bytes(payload.take(width), "little", signed=width == 2)


def _rans_codes(payload: Payload, counts: list[int], width: int) -> list[int]:
    """Return codes by RANS_CODES; `counts` has how many each member has."""
    if not sum(counts):
        return []
    mode = payload.byte()
    must(mode < 2, f"mode {mode} of RANS_CODES")
    if mode == 0:
        return [_escaped(payload, width) for _ in range(sum(counts))]
    model = Model(payload, 256, len(counts))
    symbols = model.stream(payload, _members(counts), leave_out_certain=True)
    if width == 1:
        return symbols
    return [_escaped(payload, 2) if symbol == _ESCAPE else _unzigzag(symbol) for symbol in symbols]


def _members(counts: list[int]) -> list[int]:
    """Return the member of each code."""
    return [member for member, count in enumerate(counts) for _ in range(count)]


def _rans_delta(payload: Payload, base: list[int], counts: list[int], width: int) -> list[int]:
    """Return codes by RANS_DELTA near those of a base."""
    mode = payload.byte()
    known(mode not in {1, 3, 5, 7}, f"mode {mode} of RANS_DELTA")
    must(mode < 8, f"mode {mode} of RANS_DELTA")
    must(mode < 4 or width == 2, "steps of codes of one byte")
    if mode & 4:
        base = _in_new_steps(payload, base, counts)
    if not mode & 2:
        return base
    buckets = [code if width == 1 else min(abs(code), 15) for code in base]
    contexts = [
        bucket * len(counts) + member for bucket, member in zip(buckets, _members(counts), strict=True)
    ]
    model = Model(payload, 256, (256 if width == 1 else 16) * len(counts))
    changed = _changed(payload, contexts, len(model.of))
    return _moved(payload, model, base, contexts, changed, width)


def _in_new_steps(payload: Payload, base: list[int], counts: list[int]) -> list[int]:
    """Re-express base codes in the steps of the codes."""
    flags = int.from_bytes(payload.take((len(counts) + 7) // 8), "little")
    must(flags < 1 << len(counts), "spare bits are not zero")
    ratios = [_ratio(payload) if flags >> member & 1 else Fraction(1) for member in range(len(counts))]
    return [
        code if code == -32768 else max(-32767, min(32767, round(code * ratios[member])))
        for code, member in zip(base, _members(counts), strict=True)
    ]


def _ratio(payload: Payload) -> Fraction:
    old, new = step(payload.byte()), step(payload.byte())
    return old / new


def step(byte: int) -> Fraction:
    """Return the step that a step byte means."""
    return Fraction(4 + byte % 4) * Fraction(2) ** (byte // 4 - 60)


def _changed(payload: Payload, contexts: list[int], number: int) -> list[int]:
    """Read the gaps; return in order the codes that are not the base code."""
    with payload.bits() as bits:
        classes = bits.take(4) + 1
        class_of = _map(bits, classes, number)
    codes: list[list[int]] = [[] for _ in range(classes)]
    for index, context in enumerate(contexts):
        codes[class_of[context]].append(index)
    counts = [payload.varint() for _ in range(classes)]
    must(all(count <= len(of) for count, of in zip(counts, codes, strict=True)), "too many gaps")
    symbols = Model(payload, 45, classes).stream(payload, _members(counts), leave_out_certain=True)
    with payload.bits() as bits:
        gaps = iter([_gap(symbol, bits) for symbol in symbols])
    changed = [index for count, of in zip(counts, codes, strict=True) for index in _behind(gaps, count, of)]
    return sorted(changed)


def _gap(symbol: int, bits: Bits) -> int:
    length = symbol + 1 >> 1
    if not length:
        return 0
    top = 2 | (symbol + 1) & 1
    return (top << (length - 1) | bits.take(length - 1)) - 1


def _behind(gaps: Iterator[int], count: int, codes: list[int]) -> Iterator[int]:
    at = -1
    for _ in range(count):
        at += next(gaps) + 1
        must(at < len(codes), "a gap is longer than what is left of its class")
        yield codes[at]


def _moved(
    payload: Payload, model: Model, base: list[int], contexts: list[int], changed: list[int], width: int
) -> list[int]:
    symbols = model.stream(payload, [contexts[index] for index in changed], leave_out_certain=True)
    codes = list(base)
    for index, symbol in zip(changed, symbols, strict=True):
        move = _escaped(payload, width) if symbol == _ESCAPE else _unzigzag(symbol + 1)
        codes[index] += -move if width == 2 and codes[index] < 0 else move
    half = 1 << 15 if width == 2 else 0
    return [(code + half) % (1 << 8 * width) - half for code in codes]


# encodings.md: the encodings of elements.

_MOST_WORDS = 1 << 23


@dataclass(frozen=True)
class ElementFormat:
    """Bytes of an element, and whether it is floating-point."""

    size: int
    floating: bool

    @classmethod
    def of(cls, number: Any) -> ElementFormat:
        must(type(number) is int and number >= 0, "not an element format")
        known(number < 16 and number & 7 < 5, f"element format {number}")
        return cls(1 << (number & 7), bool(number & 8))

    @property
    def word(self) -> np.dtype[Any]:
        """The type of a word: elements of 16 bytes are two."""
        return np.dtype(f"<u{min(self.size, 8)}")


def _residual(payload: Payload, base: bytes, element: ElementFormat) -> bytes:
    """Return a chunk by RANS_RESIDUAL near a base."""
    if not payload.left():
        return base
    bits = 8 * element.word.itemsize
    words = [int(word) for word in np.frombuffer(base, element.word)]
    contexts = [
        256 * (index >> 16) + _residual_context(word, bits, floating=element.floating)
        for index, word in enumerate(words)
    ]
    must(len(words) <= _MOST_WORDS, "a chunk has too many words")
    model = Model(payload, 256, 256 * ((len(words) + 65535) >> 16))
    for symbol in {symbol for table in model.tables for symbol in table.frequencies} - {_ESCAPE}:
        _tail(symbol, bits)
    escaped, tails = Payload(payload.take(payload.varint())), _Tails(payload.take(payload.varint()))
    symbols = model.stream(payload, contexts)
    chunk = [
        _near(word, _difference(symbol, escaped, tails, bits), bits, floating=element.floating)
        for word, symbol in zip(words, symbols, strict=True)
    ]
    must(not escaped.left(), "escaped symbols are left")
    tails.close()
    return np.array(chunk, element.word).tobytes()


class _Tails:
    """A bit stream that starts with the least significant bit of a byte."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> int:
        first, last = self.at >> 3, (self.at + count + 7) >> 3
        must(last <= len(self.data), "the tails end too early")
        number = int.from_bytes(self.data[first:last], "little") >> (self.at & 7)
        self.at += count
        return number & ((1 << count) - 1)

    def close(self) -> None:
        must(not self.take(-self.at % 8), "spare bits of the tails are not zero")
        must(self.at == 8 * len(self.data), "tails are left")


def _residual_context(word: int, bits: int, *, floating: bool) -> int:
    if bits == 8:
        return word
    if floating:
        exponent = word >> (bits - 9) & 255 if bits < 64 else (word >> 52 & 2047) - 800
        return max(0, min(255, exponent))
    whole = 64 if bits == 64 else 32
    shifted, negative = word << (whole - bits), word >> (bits - 1)
    return (shifted ^ ((1 << whole) - 1 if negative else 0)).bit_length() + 128 * negative


def _difference(symbol: int, escaped: Payload, tails: _Tails, bits: int) -> int:
    """Return the signed difference that a symbol and its tail say."""
    if symbol == _ESCAPE:
        symbol = escaped.byte()
        must(symbol != _ESCAPE, "an escaped symbol is the escape")
    low, tail = _tail(symbol, bits)
    size, negative = symbol + 1 >> 1, symbol & 1
    size = (size - (tail << low)) << tail | tails.take(tail)
    return -size if negative else size


def _tail(symbol: int, bits: int) -> tuple[int, int]:
    """Return r of words of so many bits, and how many low bits of a size are the symbol's tail."""
    low = 1 if bits == 64 else 2
    tail = max(0, (symbol + 1 >> 1 + low) - 1)
    must(not tail or tail + low < bits, "a symbol that must not occur")
    return low, tail


def _near(base: int, difference: int, bits: int, *, floating: bool) -> int:
    mask, sign = (1 << bits) - 1, 1 << (bits - 1)
    if not floating:
        return (base + difference) & mask
    ordered = base ^ mask if base & sign else base ^ sign
    ordered = (ordered + (-difference if base & sign else difference)) & mask
    return ordered ^ sign if ordered & sign else ordered ^ mask


def _planes(payload: Payload, length: int, element: ElementFormat) -> bytes:
    """Return a chunk by RANS_PLANES."""
    if not length:
        return b""
    word = element.word
    must(length // word.itemsize <= _MOST_WORDS, "a chunk has too many words")
    planes = [_plane(payload, length // word.itemsize) for _ in range(word.itemsize)]
    words = np.frombuffer(b"".join(map(bytes, zip(*planes, strict=True))), word)
    if element.floating:
        words = words >> 1 | words << (8 * word.itemsize - 1)
    return words.astype(word).tobytes()


def _plane(payload: Payload, count: int) -> bytes:
    mode = payload.byte()
    must(mode < 3, f"mode {mode} of a plane")
    if mode < 2:
        return payload.take(1) * count if mode else payload.take(count)
    with payload.body() as body:
        model = Model(body, 256, (count + 255) >> 8)
        return bytes(model.stream(body, [index >> 8 for index in range(count)]))


def _zstd(payload: Payload, length: int, base: bytes | None) -> bytes:
    """Return a chunk by ZSTD, or ZSTD_DELTA near a base."""
    data = payload.take(payload.left())
    try:
        frame = zstandard.get_frame_parameters(data)
    except zstandard.ZstdError as error:
        raise CorruptionError("not a zstd frame") from error
    must(frame.content_size == length and not frame.dict_id, "a frame of another size, or with a dictionary")
    must(
        frame.window_size <= max(1024, 2 * (length + len(base or b""))), "the window of a frame is too large"
    )
    near = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT) if base else None
    decoder = zstandard.ZstdDecompressor(dict_data=near).decompressobj()
    try:
        content = decoder.decompress(data)
    except zstandard.ZstdError as error:
        raise CorruptionError("a damaged zstd frame") from error
    must(decoder.eof and not decoder.unused_data, "not one whole zstd frame")
    return content


def _narrowed(payload: Payload, base: bytes) -> bytes:
    """Return float32 elements rounded to two bytes each."""
    kind = payload.byte()
    must(kind < 2, f"type {kind} of NARROWED")
    return rounded(np.frombuffer(base, "<f4"), "bfloat16" if kind else "float16")


def rounded(values: np.ndarray[Any, Any], element: str) -> bytes:
    """Return float32 values rounded to an element type, to nearest, ties to even."""
    values = np.ascontiguousarray(values, "<f4")
    pattern, nan = values.view("<u4"), np.isnan(values)
    if element == "bfloat16":
        even = (pattern.astype(np.uint64) + 0x7FFF + (pattern >> 16 & 1)) >> 16
        return np.where(nan, pattern >> 16 | 0x40, even).astype("<u2").tobytes()
    if element == "float16":
        with np.errstate(over="ignore", invalid="ignore"):
            half = values.astype("<f2").view("<u2")
        quiet = pattern >> 16 & 0x8000 | 0x7E00 | pattern >> 13 & 0x3FF
        return np.where(nan, quiet, half).astype("<u2").tobytes()
    return values.astype("<f8" if element == "float64" else "<f4").tobytes()


# encodings.md: chunks.

RAW, ZSTD = 0, 1
CODES, DELTA, RANS_CODES, RANS_DELTA, RANS_RESIDUAL, RANS_PLANES, ZSTD_DELTA, NARROWED = range(4, 12)
NEAR = {DELTA, RANS_DELTA, RANS_RESIDUAL, ZSTD_DELTA, NARROWED}
KNOWN = {RAW, ZSTD, CODES, RANS_CODES, RANS_PLANES} | NEAR


def decode(
    encoding: int, element: ElementFormat, lengths: list[int], data: bytes, base: bytes | None = None
) -> bytes:
    """Return what a payload holds: members of these lengths, one behind the other."""
    payload, length = Payload(data), sum(lengths)
    if encoding in {CODES, DELTA, RANS_CODES, RANS_DELTA}:
        content = _codes(encoding, payload, element, lengths, base)
    elif encoding == RANS_RESIDUAL:
        content = _residual(payload, base or b"", element)
    elif encoding == RANS_PLANES:
        content = _planes(payload, length, element)
    elif encoding == NARROWED:
        content = _narrowed(payload, base or b"")
    else:
        content = payload.take(payload.left()) if encoding == RAW else _zstd(payload, length, base)
    must(not payload.left(), "a payload has spare bytes")
    must(len(content) == length, "the decoded content has another length")
    return content


def _codes(
    encoding: int, payload: Payload, element: ElementFormat, lengths: list[int], base: bytes | None
) -> bytes:
    width, kind = element.size, np.dtype("u1" if element.size == 1 else "<i2")
    must(width == 1 or (width == 2 and encoding in {RANS_CODES, RANS_DELTA}), "codes of another width")
    near = None if base is None else np.frombuffer(base, kind).tolist()
    counts = [length // width for length in lengths]
    if encoding in {CODES, DELTA}:
        codes = _huffman_codes(payload, near, sum(counts))
    elif encoding == RANS_CODES:
        codes = _rans_codes(payload, counts, width)
    else:
        codes = _rans_delta(payload, near or [], counts, width)
    return np.array(codes, kind).tobytes()
