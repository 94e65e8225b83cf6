"""The coders of codes, readable: the bytes of docs/format/encodings.md and nothing clever."""

LONGEST, WHOLE = 14, 1 << 14
ONLY = 15
RUN_CLASSES = 23
ZEROS, CONSTANT, BITS, HUFFMAN, RUNS = range(5)


class MalformedError(ValueError):
    """No encoder wrote these bytes."""


def encode_codes(codes, levels):
    return _group(list(codes), levels)


def decode_codes(payload, levels, count):
    payload = bytearray(payload)
    codes = _take_group(payload, levels, count)
    _require(not payload)
    return codes


def encode_delta(codes, base, levels):
    if list(codes) == list(base):
        return b""
    groups = [[] for _ in range(levels)]
    for code, source in zip(codes, base, strict=True):
        groups[source].append((int(source) - int(code)) % levels)
    return b"".join(_group(group, levels) for group in groups)


def decode_delta(payload, base, levels):
    if not payload:
        return list(base)
    payload = bytearray(payload)
    sizes = [list(base).count(bucket) for bucket in range(levels)]
    groups = [iter(_take_group(payload, levels, size)) for size in sizes]
    _require(not payload)
    return [(int(source) - next(groups[source])) % levels for source in base]


def _group(symbols, levels):
    if not symbols:
        return b""
    if len(set(symbols)) == 1:
        return bytes([ZEROS]) if symbols[0] == 0 else bytes([CONSTANT, symbols[0]])
    width = (levels - 1).bit_length()
    candidates = [
        bytes([BITS]) + _bytes("".join(f"{symbol:0{width}b}" for symbol in symbols)),
        bytes([HUFFMAN]) + _sized(_huffman_body(symbols, levels)),
        bytes([RUNS]) + _sized(_runs_body(symbols, levels)),
    ]
    return min(candidates, key=len)


def _huffman_body(symbols, levels):
    lengths = code_lengths([symbols.count(symbol) for symbol in range(levels)])
    words = _words(lengths)
    return _table(lengths) + _bytes("".join(words[symbol] for symbol in symbols))


def _runs_body(symbols, levels):
    counts = [symbols.count(symbol) for symbol in range(levels)]
    common = counts.index(max(counts))
    steps = list(_runs(symbols, common))
    counts[common] = 0
    other_lengths = code_lengths(counts)
    classes = [(run + 1).bit_length() - 1 for run, _ in steps]
    run_lengths = code_lengths([classes.count(c) for c in range(RUN_CLASSES)])
    other, run_words = _words(other_lengths), _words(run_lengths)
    bits = ""
    for (run, symbol), run_class in zip(steps, classes, strict=True):
        rest = run + 1 - (1 << run_class)
        bits += run_words[run_class] + (f"{rest:0{run_class}b}" if run_class else "")
        bits += "" if symbol is None else other[symbol]
    return bytes([common]) + _table(other_lengths) + _table(run_lengths) + _bytes(bits)


def _runs(symbols, common):
    """Yield (length of a run of the common symbol, the symbol after it or None at the end)."""
    run = 0
    for symbol in symbols:
        if symbol == common:
            run += 1
        else:
            yield run, symbol
            run = 0
    if run:
        yield run, None


def code_lengths(counts):
    """Package-merge: each level has leaves and pairs of the level before, lightest first, leaves first."""
    leaves = sorted((count, symbol) for symbol, count in enumerate(counts) if count)
    lengths = [0] * len(counts)
    if len(leaves) == 1:
        lengths[leaves[0][1]] = ONLY
        return lengths
    level = []
    for _ in range(LONGEST):
        pairs = [(a[0] + b[0], a[1] + b[1]) for a, b in zip(level[::2], level[1::2], strict=False)]
        singles = [(count, [symbol]) for count, symbol in leaves]
        level = sorted(singles + pairs, key=lambda item: item[0])
    for _, symbols in level[: 2 * len(leaves) - 2]:
        for symbol in symbols:
            lengths[symbol] += 1
    return lengths


def _words(lengths):
    """Canonical code words as strings of 0 and 1, by symbol."""
    if ONLY in lengths:
        return {lengths.index(ONLY): ""}
    words, code, before = {}, 0, 0
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(lengths) if length):
        code <<= length - before
        words[symbol] = f"{code:0{length}b}"
        code, before = code + 1, length
    return words


def _table(lengths):
    nibbles, zeros = [], 0
    for length in lengths:
        if length == 0:
            zeros += 1
            continue
        while zeros:
            nibbles += [0, min(zeros, 16) - 1]
            zeros -= min(zeros, 16)
        nibbles.append(length)
    return bytes.fromhex("".join(f"{n:x}" for n in nibbles) + "0" * (len(nibbles) % 2))


def _bytes(bits):
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))


def _sized(body):
    size, varint = len(body), b""
    while size >= 128:
        varint += bytes([size & 127 | 128])
        size >>= 7
    return varint + bytes([size]) + body


def _require(holds):
    if not holds:
        raise MalformedError


def _take(payload, count):
    _require(count <= len(payload))
    taken = bytes(payload[:count])
    del payload[:count]
    return taken


def _take_size(payload):
    size = 0
    for shift in (0, 7, 14, 21):
        part = _take(payload, 1)[0]
        size |= (part & 127) << shift
        if part < 128:
            _require(part or shift == 0)
            return size
    raise MalformedError


def _take_group(payload, levels, count):
    if count == 0:
        return []
    mode = _take(payload, 1)[0]
    if mode == ZEROS:
        return [0] * count
    if mode == CONSTANT:
        symbol = _take(payload, 1)[0]
        _require(symbol < levels)
        return [symbol] * count
    if mode == BITS:
        width = (levels - 1).bit_length()
        bits = _Bits(_take(payload, (count * width + 7) // 8))
        symbols = [bits.number(width) for _ in range(count)]
        _require(all(symbol < levels for symbol in symbols))
        bits.finish()
        return symbols
    _require(mode in (HUFFMAN, RUNS))
    body = bytearray(_take(payload, _take_size(payload)))
    return _take_huffman(body, levels, count) if mode == HUFFMAN else _take_runs(body, levels, count)


def _take_huffman(body, levels, count):
    words = _words(_take_table(body, levels))
    bits = _Bits(body)
    symbols = [bits.symbol(words) for _ in range(count)]
    bits.finish()
    return symbols


def _take_runs(body, levels, count):
    common = _take(body, 1)[0]
    _require(common < levels)
    lengths = _take_table(body, levels)
    _require(lengths[common] == 0)
    other, run_words = _words(lengths), _words(_take_table(body, RUN_CLASSES))
    bits, symbols = _Bits(body), []
    while len(symbols) < count:
        run_class = bits.symbol(run_words)
        run = (1 << run_class) + bits.number(run_class) - 1
        _require(run <= count - len(symbols))
        symbols += [common] * run
        if len(symbols) < count:
            symbols.append(bits.symbol(other))
    bits.finish()
    return symbols


def _take_table(body, alphabet):
    lengths, kraft, nibbles = [], 0, []

    def nibble():
        if not nibbles:
            nibbles.extend(divmod(_take(body, 1)[0], 16))
        return nibbles.pop(0)

    while kraft < WHOLE:
        length = nibble()
        lengths += [0] * (nibble() + 1) if length == 0 else [length]
        _require(len(lengths) <= alphabet)
        kraft += 0 if length == 0 else WHOLE >> (0 if length == ONLY else length)
    _require(kraft == WHOLE)
    _require(nibbles in ([], [0]))
    return lengths + [0] * (alphabet - len(lengths))


class _Bits:
    def __init__(self, data):
        self.bits = "".join(f"{byte:08b}" for byte in data)
        self.at = 0

    def number(self, width):
        _require(self.at + width <= len(self.bits))
        taken = self.bits[self.at : self.at + width]
        self.at += width
        return int(taken or "0", 2)

    def symbol(self, words):
        by_word = {word: symbol for symbol, word in words.items()}
        word = ""
        while word not in by_word:
            _require(self.at < len(self.bits) and len(word) <= LONGEST)
            word += self.bits[self.at]
            self.at += 1
        return by_word[word]

    def finish(self):
        rest = self.bits[self.at :]
        _require(len(rest) < 8 and "1" not in rest)
