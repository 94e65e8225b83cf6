"""How payloads hold chunks (`encodings.md`, `entropy.md`), read one symbol at a time. Part of `reader.py`."""

from fractions import Fraction

import numpy as np
import zstandard


class CorruptionError(Exception):
    """A MUST of a page is broken, or a hash, checksum, digest or limit is."""


class UnsupportedError(Exception):
    """A newer writer may have made this: an unknown version, kind, tag, encoding, form, type or field."""


class MissingError(Exception):
    """An object or a file is not there: dropped, not fetched, or lost."""


def must(condition, what, error=CorruptionError):
    if not condition:
        raise error(what)


def known(condition, what):
    must(condition, f"unknown {what}", UnsupportedError)


class Cursor:
    """Reads bytes from the front, and bits that begin at a new byte; nothing beyond the end."""

    def __init__(self, data, order="big"):
        self.data, self.order, self.at = data, order, 0  # in bits

    def left(self):
        return len(self.data) - (self.at + 7) // 8

    def take(self, count):
        must(count <= self.left(), "data end too early")
        first, self.at = self.at // 8, self.at + 8 * count
        return self.data[first : first + count]

    def bits(self, count):
        """Return the next bits as a number; a byte is eight of them."""
        first, end = self.at // 8, self.at + count
        last = (end + 7) // 8
        must(last <= len(self.data), "data end too early")
        spare = 8 * last - end if self.order == "big" else self.at % 8
        self.at = end
        return int.from_bytes(self.data[first:last], self.order) >> spare & (1 << count) - 1

    def align(self):
        must(not self.bits(-self.at % 8), "spare bits are not zero")

    def close(self):
        self.align()
        must(not self.left(), "data go on behind their end")

    def varint(self):
        parts = [self.bits(8)]
        while parts[-1] > 127:
            parts.append(self.bits(8))
        must(len(parts) <= 4 and (parts[-1] or len(parts) == 1), "a varint has too many bytes")
        return sum((part & 127) << 7 * place for place, part in enumerate(parts))

    def body(self, order="big"):
        """Return what a size stands in front of; whoever reads it closes it."""
        return Cursor(self.take(self.varint()), order)

    def gamma(self):
        zeros = 0
        while not self.bits(1):
            zeros += 1
        return 1 << zeros | self.bits(zeros)

    # Groups of codes.

    def group(self, count, levels):
        mode = self.bits(8) if count else 0
        must(mode < 5, "no mode of a group")
        if mode < 2:
            symbols = [self.bits(8) if mode else 0] * count
        elif mode == 2:
            symbols = [self.bits((levels - 1).bit_length()) for _ in range(count)]
            self.align()
        else:
            body = self.body()
            symbols = body.coded(count, levels) if mode == 3 else body.runs(count, levels)
            body.close()
        must(max(symbols, default=0) < levels, "a symbol is not below levels")
        return symbols

    def coded(self, count, levels):
        words = self.words(levels)
        return [self.word(words) for _ in range(count)]

    def runs(self, count, levels):
        common, others, classes, symbols = self.bits(8), self.words(levels), self.words(23), []
        must(common not in others.values(), "the common symbol has a code word")
        while len(symbols) < count:
            size = self.word(classes)
            run = (1 << size | self.bits(size)) - 1
            must(run <= count - len(symbols), "a run is longer than what is left")
            symbols += [common] * run
            if len(symbols) < count:
                symbols.append(self.word(others))
        return symbols

    def words(self, alphabet):
        """Return the symbol of each code word of a table; a 1 stands before the bits of a word."""
        lengths, symbol, total = [], 0, 0
        while total < 1 << 14:
            nibble = self.bits(4)
            if nibble:
                lengths.append((nibble % 15, symbol))
                total += 1 << 14 - nibble % 15
            symbol += 1 if nibble else self.bits(4) + 1
        must(total == 1 << 14 and symbol <= alphabet, "a table goes beyond 1 or beyond the alphabet")
        self.align()
        words, word, before = {}, 1, 0
        for length, symbol in sorted(lengths):
            word <<= length - before
            words[word], before = symbol, length
            word += 1
        return words

    def word(self, words):
        word = 1
        while word not in words:
            word = word << 1 | self.bits(1)
        return words[word]

    # Models and streams.

    def model(self, alphabet, contexts):
        """Return tables of frequencies, and the number of that of each context."""
        tables = [self.table(alphabet) for _ in range(self.bits(4) + 1)]
        return tables, self.map(len(tables), contexts)

    def table(self, alphabet):
        """Return for each of 4096 slots its symbol, that one's frequency, and where its slots begin."""
        slots, symbol, before = [], 0, 10
        while len(slots) < 4096:
            length = before + unzigzag(self.gamma() - 1)
            must(0 <= length <= 13, "a frequency has no such length")
            if length:
                frequency, before = 1 << length - 1 | self.bits(length - 1), length
                slots += [(symbol, frequency, len(slots))] * frequency
            symbol += 1 if length else self.gamma()
            must(symbol <= alphabet, "a table goes beyond the alphabet")
        must(len(slots) == 4096, "frequencies do not sum to 4096")
        return slots

    def map(self, tables, contexts):
        """Return the number of the table, or class, of each context."""
        found = [0] * contexts if tables == 1 else []
        while len(found) < contexts:
            run = self.gamma()
            must(run <= contexts - len(found), "a run of the map goes beyond the last context")
            found += [self.bits((tables - 1).bit_length())] * run
        must(max(found, default=0) < tables, "a table of the map does not exist")
        self.align()
        return np.array(found, int)

    def stream(self, model, contexts, *, certain_too=False):
        """Return a symbol for each context; streams of certain ones are left out, or stand there too."""
        tables, of = model
        certain = all(table[0][1] == 4096 for table in tables)
        tables = [tables[number] for number in of[contexts].tolist()]
        if not tables or (certain and not certain_too):
            return [table[0][0] for table in tables]
        lanes, symbols = self.bits(8), []
        must(lanes <= 6, "too many lanes")
        states = np.frombuffer(self.take(4 << lanes), "<u4").tolist()
        must(min(states) >= 1 << 16, "a state is too low")
        for index, table in enumerate(tables):
            lane = index % len(states)
            slots, slot = divmod(states[lane], 4096)
            symbol, frequency, start = table[slot]
            state = frequency * slots + slot - start
            states[lane] = state if state >> 16 else state << 16 | int.from_bytes(self.take(2), "little")
            symbols.append(symbol)
        must(set(states) == {1 << 16}, "a state does not end where it began")
        return symbols


def unzigzag(number):
    return -(number + 1 >> 1) if number & 1 else number >> 1


def step(byte):
    """Return the step that a step byte means."""
    return Fraction(4 + byte % 4) * Fraction(2) ** (byte // 4 - 60)


def rounded(values, element):
    """Return float32 values as bytes of an element type, rounded to nearest, ties to even."""
    pattern = np.ascontiguousarray(values, "<f4").view("<u4").astype("u8")
    if element == "bfloat16":
        near, nan = pattern + 0x7FFF + (pattern >> 16 & 1) >> 16, pattern >> 16 | 0x40
        return np.where(np.isnan(values), nan, near).astype("<u2").tobytes()
    with np.errstate(over="ignore", invalid="ignore"):
        near = values.astype({"float16": "<f2", "float32": "<f4", "float64": "<f8"}[element])
    if element == "float16":
        nan = pattern >> 16 & 0x8000 | 0x7E00 | pattern >> 13 & 0x3FF
        near = np.where(np.isnan(values), nan, near.view("<u2")).astype("<u2")
    return near.tobytes()


class Payload(Cursor):
    """A payload, with what the header of its entry says, and with its base."""

    def __init__(self, data, element, lengths, base):
        super().__init__(data)
        self.size, self.floating, self.length, self.base = 1 << (element & 7), element & 8, sum(lengths), base
        self.counts = [length // self.size for length in lengths]
        self.word = np.dtype(f"<u{min(self.size, 8)}")  # elements of 16 bytes are two words
        self.code = np.dtype("u1" if self.size == 1 else "<i2")

    def members(self):
        """Return the member of each element."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def raw(self):
        return self.take(self.left())

    def zstd(self):
        data, base, kind = self.raw(), self.base or b"", zstandard.DICT_TYPE_RAWCONTENT
        near = zstandard.ZstdCompressionDict(base, dict_type=kind) if base else None
        decoder = zstandard.ZstdDecompressor(dict_data=near).decompressobj()
        try:
            frame = zstandard.get_frame_parameters(data)
            must(frame.content_size == self.length and not frame.dict_id, "another size, or a dictionary")
            must(frame.window_size <= max(1024, 2 * (self.length + len(base))), "a window is too large")
            content = decoder.decompress(data)
        except zstandard.ZstdError as error:
            raise CorruptionError("a damaged zstd frame") from error
        must(decoder.eof and not decoder.unused_data, "not one whole zstd frame")
        return content

    def codes(self):
        """CODES, and DELTA near a base."""
        levels = self.bits(8) + 1
        must(max(self.base or b"\0") < levels, "a code of the base is not below levels")
        if self.base is None:
            return bytes(self.group(self.length, levels))
        if not self.left():
            return self.base
        groups = [iter(self.group(self.base.count(code), levels)) for code in range(levels)]
        return bytes((code - next(groups[code])) % levels for code in self.base)

    def rans_codes(self):
        mode = self.bits(8) if self.length else 0
        must(mode < 2, "no mode of RANS_CODES")
        if mode == 0:
            return self.raw()
        symbols = self.stream(self.model(256, len(self.counts)), self.members())
        return np.array(symbols if self.size == 1 else self._unescaped(symbols, 0), self.code).tobytes()

    def _unescaped(self, symbols, least):
        """Return numbers: symbols are their zigzags above the least, or 255 for one that follows."""
        escaped = np.frombuffer(self.take(symbols.count(255) * self.size), self.code)
        each = iter(escaped.tolist())
        return [next(each) if symbol == 255 else unzigzag(symbol + least) for symbol in symbols]

    def rans_delta(self):
        mode, codes = self.bits(8), np.frombuffer(self.base, self.code).astype(int)
        known(mode not in {1, 3, 5, 7}, f"mode {mode} of RANS_DELTA")
        must(mode < 8 and (mode < 4 or self.size == 2), "no mode of RANS_DELTA")
        if mode & 4:
            codes = self._in_new_steps(codes)
        if mode & 2:
            buckets = codes if self.size == 1 else np.minimum(abs(codes), 15)
            contexts, number = buckets * len(self.counts) + self.members(), 256 if self.size == 1 else 16
            model = self.model(256, number * len(self.counts))
            changed = self._changed(contexts, number * len(self.counts))
            moves = self._unescaped(self.stream(model, contexts[changed]), 1)
            codes[changed] += np.where(codes[changed] < 0, -1, 1) * np.array(moves, int)
        return codes.astype(self.code).tobytes()

    def _in_new_steps(self, codes):
        """Return the base's codes in the steps of the codes."""
        flags = Cursor(self.take((len(self.counts) + 7) // 8), "little")
        ratios = [step(self.bits(8)) / step(self.bits(8)) if flags.bits(1) else 1 for _ in self.counts]
        flags.close()
        pairs = zip(codes.tolist(), self.members().tolist(), strict=True)
        found = [max(-32767, min(32767, round(code * ratios[member]))) for code, member in pairs]
        return np.where(codes == -32768, codes, np.array(found, int))

    def _changed(self, contexts, number):
        """Read the gaps; return in order the codes that are not the base code."""
        classes, changed, gaps = self.bits(4) + 1, [], []
        class_of = self.map(classes, number)[contexts]
        codes = [np.flatnonzero(class_of == one) for one in range(classes)]
        counts = [self.varint() for _ in codes]
        must(all(count <= len(own) for count, own in zip(counts, codes, strict=True)), "too many gaps")
        for symbol in self.stream(self.model(45, classes), np.repeat(np.arange(classes), counts)):
            top, rest = 2 | symbol + 1 & 1, symbol - 1 >> 1
            gaps.append(top << rest | self.bits(rest) if symbol else 1)  # one more than each
        self.align()
        for own, steps in zip(codes, np.split(np.array(gaps, int), np.cumsum(counts)[:-1]), strict=True):
            places = np.cumsum(steps) - 1
            must(places.max(initial=-1) < len(own), "a gap is longer than what is left of its class")
            changed.append(own[places])
        return np.sort(np.concatenate(changed))

    def residual(self):
        if not self.left():
            return self.base
        words, width = np.frombuffer(self.base, self.word), 8 * self.word.itemsize
        must(len(words), "a payload of no words")
        tables, of = self.model(256, 256 * (len(words) + 65535 >> 16))
        escaped, rest, low = self.body(), self.body("little"), 1 if width == 64 else 2
        tails = [max(0, (symbol + 1 >> 1 + low) - 1) for symbol in range(256)]
        may = {symbol for symbol, tail in enumerate(tails) if not tail or tail + low < width}  # not 255
        symbols = self.stream((tables, of), self._contexts(words, width), certain_too=True)
        symbols = [escaped.bits(8) if symbol == 255 else symbol for symbol in symbols]
        there = {slot[0] for table in tables for slot in table}
        must(there <= may | {255} and may.issuperset(symbols), "a symbol that must not occur")
        sizes = []
        for symbol in symbols:
            size = (symbol + 1 >> 1) - (tails[symbol] << low) << tails[symbol] | rest.bits(tails[symbol])
            sizes.append((-size if symbol & 1 else size) % (1 << width))
        escaped.close()
        rest.close()
        found, sign = np.array(sizes, self.word), 1 << width - 1
        if not self.floating:
            return (words + found).astype(self.word).tobytes()
        ordered = np.where(words & sign != 0, ~words - found, (words ^ sign) + found)
        return np.where(ordered & sign != 0, ordered ^ sign, ~ordered).astype(self.word).tobytes()

    def _contexts(self, words, width):
        within = words.astype(int)
        if self.floating and width == 64:
            within = np.clip((words >> 52 & 2047).astype(int) - 800, 0, 255)
        elif self.floating and width > 8:
            within = (words >> width - 9 & 255).astype(int)
        elif width > 8:
            shifted = [word << max(32, width) - width for word in words.view(f"<i{width // 8}").tolist()]
            within = np.array([(word ^ word >> 64).bit_length() + 128 * (word < 0) for word in shifted], int)
        return 256 * (np.arange(len(words)) >> 16) + within

    def planes(self):
        size, count, planes = self.word.itemsize, self.length // self.word.itemsize, b""
        for _ in range(size if count else 0):
            mode = self.bits(8)
            must(mode < 3, "no mode of a plane")
            if mode < 2:
                planes += self.take(1) * count if mode else self.take(count)
            else:
                body = self.body()
                model = body.model(256, (count + 255) >> 8)
                planes += bytes(body.stream(model, np.arange(count) >> 8, certain_too=True))
                body.close()
        words = np.frombuffer(planes, "u1").reshape(size, -1).T.copy().view(self.word)
        return ((words >> 1 | words << 8 * size - 1).astype(self.word) if self.floating else words).tobytes()

    def narrowed(self):
        kind = self.bits(8)
        must(kind < 2, "no type of NARROWED")
        return rounded(np.frombuffer(self.base, "<f4"), "bfloat16" if kind else "float16")


RAW, ZSTD = 0, 1
CODES, DELTA, RANS_CODES, RANS_DELTA, RANS_RESIDUAL, RANS_PLANES, ZSTD_DELTA, NARROWED = range(4, 12)
NEAR = {DELTA, RANS_DELTA, RANS_RESIDUAL, ZSTD_DELTA, NARROWED}
DECODERS = {RAW: Payload.raw, ZSTD: Payload.zstd, ZSTD_DELTA: Payload.zstd, NARROWED: Payload.narrowed}
DECODERS |= {CODES: Payload.codes, DELTA: Payload.codes, RANS_CODES: Payload.rans_codes}
DECODERS |= {RANS_DELTA: Payload.rans_delta, RANS_RESIDUAL: Payload.residual, RANS_PLANES: Payload.planes}
# At most so many bytes of an element, and elements or words of 8 bytes.
_MOST = {CODES: (1, 1 << 22), DELTA: (1, 1 << 22), RANS_CODES: (2, 1 << 22), RANS_DELTA: (2, 1 << 22)}
_MOST |= {RANS_RESIDUAL: (16, 1 << 23), RANS_PLANES: (16, 1 << 23)}


def decode(encoding, element, lengths, data, base=None):
    """Return what a payload holds: members of these lengths, one behind the other."""
    payload = Payload(data, element, lengths, base)
    size, words = _MOST.get(encoding, (16, 1 << 26))
    few = payload.length // payload.word.itemsize <= words
    must(few and payload.size <= size, "elements that are too large, or too many")
    content = DECODERS[encoding](payload)
    payload.close()
    must(len(content) == payload.length, "the decoded content has another length")
    return content
