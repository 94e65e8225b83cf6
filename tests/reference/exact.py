"""The exact coders, readable: the bytes of docs/format/encodings.md and nothing clever."""

from collections import Counter

from tests.reference.rans import lanes_for, put_stream, take, take_stream
from tests.reference.rans_tables import (
    DIGITS,
    _prices,
    cluster,
    coded_price,
    entropy,
    fit_frequencies,
    put_model,
    require,
    take_model,
)

ESCAPE = 255
CONTEXTS = 256
RAW, CONSTANT, CODED = range(3)
PIECE, BLOCK = 1 << 16, 256


def put_symbols(table_of, symbols, tables, model_bits):
    intervals = [
        (sum(tables[t][:symbol]), tables[t][symbol]) for t, symbol in zip(table_of, symbols, strict=True)
    ]
    return put_stream(intervals, 12, lanes_for(model_bits))


def take_symbols(payload, table_of, tables):
    starts = [[sum(table[:s]) for s in range(len(table))] for table in tables]

    def symbol_at(i, slot):
        table, start = tables[table_of[i]], starts[table_of[i]]
        symbol = next(s for s, f in enumerate(table) if start[s] <= slot < start[s] + f)
        return symbol, start[symbol], table[symbol]

    return take_stream(payload, len(table_of), 12, symbol_at)


# --- words near a base


def encode_residual(content, base, width, floating):
    if content == base:
        return b""
    words, near = words_of(content, width), words_of(base, width)
    parts = [split(word, b, width, floating) for word, b in zip(words, near, strict=True)]
    symbols = [symbol for symbol, _, _ in parts]
    contexts = _contexts(near, width, floating)
    tables, table_of, model_bits = _residual_model(contexts, symbols, _pieces(near) * CONTEXTS)
    used = [table_of[context] for context in contexts]
    escaped = [s for s, t in zip(symbols, used, strict=True) if not tables[t][s]]
    symbols = [s if tables[t][s] else ESCAPE for s, t in zip(symbols, used, strict=True)]
    out = put_model(tables, table_of) + sized(bytes(escaped))
    out += sized(_tail_bytes([(tail, low) for _, tail, low in parts]))
    return out + put_symbols(used, symbols, tables, model_bits)


def decode_residual(payload, base, width, floating):
    if not payload:
        return base
    require(base)
    payload = bytearray(payload)
    near = words_of(base, width)
    tables, table_of = take_model(payload, 256, CONTEXTS * _pieces(near))
    escaped = list(take_sized(payload))
    tails = take_sized(payload)
    used = [table_of[context] for context in _contexts(near, width, floating)]
    for table in tables:
        for symbol, frequency in enumerate(table[:ESCAPE]):
            require(not frequency or fits(symbol, width))
    words, at = [], 0
    for symbol, b in zip(take_symbols(payload, used, tables), near, strict=True):
        found = symbol
        if symbol == ESCAPE:
            require(escaped)
            found = escaped.pop(0)
            require(found != ESCAPE and fits(found, width))
        low = tail_length(found, width)
        tail = int.from_bytes(tails, "little") >> at & ((1 << low) - 1)
        at += low
        words.append(joined(b, found, tail, width, floating))
    require(not escaped and not payload)
    require((at + 7) // 8 == len(tails) and int.from_bytes(tails, "little") >> at == 0)
    return bytes_of(words, width)


def _contexts(near, width, floating):
    return [i // PIECE * CONTEXTS + context_of(b, width, floating=floating) for i, b in enumerate(near)]


def _pieces(words):
    return (len(words) + PIECE - 1) // PIECE


def words_of(content, width):
    return [int.from_bytes(content[i : i + width], "little") for i in range(0, len(content), width)]


def bytes_of(words, width):
    return b"".join(word.to_bytes(width, "little") for word in words)


def ordered(word, bits):
    return word ^ ((1 << bits) - 1 if word >> (bits - 1) else 1 << (bits - 1))


def unordered(number, bits):
    return number ^ (1 << (bits - 1) if number >> (bits - 1) else (1 << bits) - 1)


def refinement(width):
    return 1 if width == 8 else 2


def split(word, base, width, floating):
    """Return the symbol, the tail and its length."""
    bits, flip = 8 * width, floating and base >> (8 * width - 1)
    if floating:
        word, base = ordered(word, bits), ordered(base, bits)
    half, apart = 1 << (bits - 1), word - base
    apart = ((-apart if flip else apart) + half) % (2 * half) - half
    size = abs(apart)
    low = max(0, size.bit_length() - 1 - refinement(width))
    return 2 * ((low << refinement(width)) + (size >> low)) - (apart < 0), size & ((1 << low) - 1), low


def joined(base, symbol, tail, width, floating):
    bits, flip = 8 * width, floating and base >> (8 * width - 1)
    if floating:
        base = ordered(base, bits)
    low = tail_length(symbol, width)
    size = ((symbol + 1) // 2 - (low << refinement(width))) << low | tail
    apart = -size if (symbol % 2 == 1) != bool(flip) else size
    word = (base + apart) % (1 << bits)
    return unordered(word, bits) if floating else word


def tail_length(symbol, width):
    return max(((symbol + 1) // 2 >> refinement(width)) - 1, 0)


def fits(symbol, width):
    low = tail_length(symbol, width)
    return low == 0 or low + refinement(width) < 8 * width


def context_of(base, width, *, floating):
    if width == 1:
        return base
    if floating:
        return min(max((base >> 52 & 2047) - 800, 0), 255) if width == 8 else base >> (8 * width - 9) & 255
    wide = max(8 * width, 32)
    base <<= wide - 8 * width
    if base >> (wide - 1):
        return (base ^ ((1 << wide) - 1)).bit_length() | 128
    return base.bit_length()


def coarse(symbol):
    return symbol if symbol < 16 else 12 + symbol // 8 * 2 + symbol % 2


def _residual_model(contexts, symbols, count):
    full = [Counter() for _ in range(count)]
    for context, symbol in zip(contexts, symbols, strict=True):
        full[context][symbol] += 1
    alike = [Counter() for _ in range(count)]
    for context, symbol in zip(contexts, symbols, strict=True):
        alike[context][coarse(symbol)] += 1
    clusters, table_of = cluster([dict(sorted(counts.items())) for counts in alike], 76)
    counted = [[0] * 256 for _ in clusters]
    for counts, table in zip(full, table_of, strict=True):
        for symbol, number in counts.items():
            counted[table][symbol] += number
    return fit_tables(counted, table_of, ESCAPE, 8)


def fit_tables(counted, table_of, escape=None, escape_bits=0):
    tables, price = [], 0
    for counts in counted:
        frequencies = fit_frequencies(counts, escape, escape_bits)
        kept = [count if frequency else 0 for count, frequency in zip(counts, frequencies, strict=True)]
        if escape is not None:
            kept[escape] += sum(counts) - sum(kept)
        price += coded_price(kept, frequencies)
        tables.append(frequencies)
    return tables, table_of, price >> DIGITS


def _tail_bytes(tails):
    stream, at = 0, 0
    for tail, low in tails:
        stream |= tail << at
        at += low
    return stream.to_bytes((at + 7) // 8, "little")


def varint(value):
    out = b""
    while value >= 128:
        out += bytes([value % 128 + 128])
        value //= 128
    return out + bytes([value])


def sized(content):
    return varint(len(content)) + content


def take_sized(payload):
    size, shift, part = 0, 0, 128
    while part >= 128:
        require(shift < 28)
        part = take(payload, 1)[0]
        size |= (part & 127) << shift
        require(part or not shift)
        shift += 7
    return take(payload, size)


# --- planes


def encode_planes(content, width, floating):
    bits = 8 * width
    words = words_of(content, width)
    if floating:
        words = [(word << 1 | word >> (bits - 1)) & ((1 << bits) - 1) for word in words]
    planes = [bytes(word >> 8 * p & 255 for word in words) for p in range(width)]
    return b"".join(_plane(plane) for plane in planes) if words else b""


def decode_planes(payload, length, width, floating):
    payload, bits, count = bytearray(payload), 8 * width, length // width
    planes = [_take_plane(payload, count) for _ in range(width)] if count else []
    require(not payload)
    words = [sum(plane[i] << 8 * p for p, plane in enumerate(planes)) for i in range(count)]
    if floating:
        words = [word >> 1 | (word & 1) << (bits - 1) for word in words]
    return bytes_of(words, width)


def _plane(plane):
    if len(set(plane)) == 1:
        return bytes([CONSTANT, plane[0]])
    raw = bytes([RAW]) + plane
    if _noise(plane):
        return raw
    tables, table_of, model_bits = _plane_model(plane)
    if model_bits // 8 >= len(plane) - len(plane) // 64:
        return raw
    body = put_model(tables, table_of)
    used = [table_of[i // BLOCK] for i in range(len(plane))]
    body += put_symbols(used, list(plane), tables, model_bits)
    return bytes([CODED]) + sized(body) if len(sized(body)) < len(plane) else raw


def samples(plane, length, most):
    blocks = [plane[i : i + length] for i in range(0, len(plane), length)]
    chosen = min(len(blocks), most)
    return [blocks[i * len(blocks) // chosen] for i in range(chosen)]


def _noise(plane):
    parts = samples(plane, 4096, 16)
    price = sum(entropy(counts.values()) + (len(counts) * 3 // 4 << DIGITS) for counts in map(Counter, parts))
    symbols = sum(map(len, parts))
    return price >> DIGITS > symbols * 8 - symbols // 8


def _plane_model(plane):
    clusters, _ = cluster([dict(sorted(Counter(part).items())) for part in samples(plane, BLOCK, 512)], 256)
    prices = [[min(price * 16 >> DIGITS, 255) for price in _prices(counts)] for counts in clusters]
    table_of = []
    for start in range(0, len(plane), BLOCK):
        costs = [sum(price[symbol] for symbol in plane[start : start + BLOCK]) for price in prices]
        best = costs.index(min(costs))
        table_of.append(best if not table_of or costs[best] + 96 < costs[table_of[-1]] else table_of[-1])
    kept = sorted(set(table_of))
    table_of = [kept.index(table) for table in table_of]
    counted = [[0] * 256 for _ in kept]
    for i, symbol in enumerate(plane):
        counted[table_of[i // BLOCK]][symbol] += 1
    return fit_tables(counted, table_of)


def _take_plane(payload, count):
    mode = take(payload, 1)[0]
    if mode == RAW:
        return take(payload, count)
    if mode == CONSTANT:
        return take(payload, 1) * count
    require(mode == CODED)
    body = bytearray(take_sized(payload))
    tables, table_of = take_model(body, 256, (count + BLOCK - 1) // BLOCK)
    plane = bytes(take_symbols(body, [table_of[i // BLOCK] for i in range(count)], tables))
    require(not body)
    return plane
