"""The coder of codes in static rANS, readable: the bytes of docs/format/entropy.md and nothing clever."""

import struct
from collections import Counter

from tests.reference.rans_tables import (
    Bits,
    BitsOf,
    MalformedError,
    cluster,
    fit_model,
    put_map,
    put_model,
    require,
    take_map,
    take_model,
    unzigzag,
    zigzag,
)

ESCAPE = 255
FIRST_STATE = 1 << 16
UNCHANGED, GAPS = 0, 2
STEPS_FOLLOW = 4
GAP_SYMBOLS = 45
BUCKETS = {1: 256, 2: 16}
ESCAPE_BITS = {1: 8, 2: 16}


# --- streams: intervals are (start, frequency) in 2^bits for each symbol


def lanes_for(bits):
    return min(max(bits // 4096, 1), 64).bit_length() - 1


def put_stream(intervals, bits, power):
    lanes = 1 << power
    states, words = [FIRST_STATE] * lanes, []
    for i, (start, frequency) in reversed(list(enumerate(intervals))):
        state = states[i % lanes]
        if state >> (32 - bits) >= frequency:
            words.append(state & 0xFFFF)
            state >>= 16
        states[i % lanes] = (state // frequency << bits) + state % frequency + start
    return bytes([power]) + struct.pack(f"<{lanes}I", *states) + struct.pack(f"<{len(words)}H", *words[::-1])


def take_stream(payload, count, bits, symbol_at):
    """Decode symbols; symbol_at(i, slot) returns (symbol, start, frequency)."""
    power = take(payload, 1)[0]
    require(power <= 6)
    lanes = 1 << power
    states = list(struct.unpack(f"<{lanes}I", take(payload, 4 * lanes)))
    require(min(states) >= FIRST_STATE)
    symbols = []
    for i in range(count):
        slot = states[i % lanes] & ((1 << bits) - 1)
        symbol, start, frequency = symbol_at(i, slot)
        state = frequency * (states[i % lanes] >> bits) + slot - start
        if state < FIRST_STATE:
            state = state << 16 | struct.unpack("<H", take(payload, 2))[0]
        states[i % lanes] = state
        symbols.append(symbol)
    require(set(states) == {FIRST_STATE})
    return symbols


def take(payload, size):
    require(size <= len(payload))
    taken = bytes(payload[:size])
    del payload[:size]
    return taken


def only_symbols(tables):
    """Return the only symbol of each table, or None where a table has several."""
    return [table.index(4096) for table in tables] if all(4096 in table for table in tables) else None


def put_symbols(table_of, symbols, tables, model_bits):
    if not symbols or only_symbols(tables):
        return b""
    intervals = [
        (sum(tables[t][:symbol]), tables[t][symbol]) for t, symbol in zip(table_of, symbols, strict=True)
    ]
    return put_stream(intervals, 12, lanes_for(model_bits))


def take_symbols(payload, table_of, tables):
    if not table_of:
        return []
    if only := only_symbols(tables):
        return [only[t] for t in table_of]
    starts = [[sum(table[:s]) for s in range(len(table))] for table in tables]

    def symbol_at(i, slot):
        table, start = tables[table_of[i]], starts[table_of[i]]
        symbol = next(s for s, f in enumerate(table) if start[s] <= slot < start[s] + f)
        return symbol, start[symbol], table[symbol]

    return take_stream(payload, len(table_of), 12, symbol_at)


# --- codes alone


def unpack(codes, width):
    return list(struct.unpack(f"<{len(codes) // width}{'Bh'[width - 1]}", bytes(codes)))


def pack(codes, width):
    return struct.pack(f"<{len(codes)}{'BH'[width - 1]}", *(code % (1 << 8 * width) for code in codes))


def members_of(counts):
    return [m for m, count in enumerate(counts) for _ in range(count)]


def count_contexts(contexts, context_of, symbols):
    counts = [Counter() for _ in range(contexts)]
    for context, symbol in zip(context_of, symbols, strict=True):
        counts[context][symbol] += 1
    return counts


def encode_codes(payload, width, counts):
    codes = unpack(payload, width)
    if not codes:
        return b""
    symbols = codes if width == 1 else [min(zigzag(code), ESCAPE) for code in codes]
    members = members_of(counts)
    escape = (ESCAPE, 16) if width == 2 else (None, 0)
    tables, table_of, bits = fit_model(count_contexts(len(counts), members, symbols), 256, *escape)
    tables_used = [table_of[m] for m in members]
    symbols = [s if tables[t][s] else ESCAPE for t, s in zip(tables_used, symbols, strict=True)]
    out = b"\1" + put_model(tables, table_of) + put_symbols(tables_used, symbols, tables, bits)
    if width == 2:
        out += pack([code for code, s in zip(codes, symbols, strict=True) if s == ESCAPE], 2)
    return out if len(out) <= len(payload) else b"\0" + bytes(payload)


def decode_codes(payload, width, counts):
    payload = bytearray(payload)
    codes = b""
    if sum(counts):
        mode = take(payload, 1)[0]
        require(mode <= 1)
        codes = _take_coded(payload, width, counts) if mode else take(payload, sum(counts) * width)
    require(not payload)
    return codes


def _take_coded(payload, width, counts):
    tables, table_of = take_model(payload, 256, len(counts))
    symbols = take_symbols(payload, [table_of[m] for m in members_of(counts)], tables)
    if width == 1:
        return bytes(symbols)
    return b"".join(take(payload, 2) if s == ESCAPE else pack([unzigzag(s)], 2) for s in symbols)


# --- codes near base codes


def bucket_of(base, width):
    return base if width == 1 else min(abs(base), 15)


def sign_of(base, width):
    return -1 if width == 2 and base < 0 else 1


def wrapped(number, width):
    """Bring into the signed range of the width."""
    half = 1 << (8 * width - 1)
    return (number + half) % (2 * half) - half


def rescale(codes, old, new):
    def scaled(code):
        if code == -32768:
            return code
        shift = (old >> 2) - (new >> 2)
        product = abs(code) * (4 + (old & 3)) << max(shift, 0)
        divisor = (4 + (new & 3)) << max(-shift, 0)
        quotient, rest = divmod(product, divisor)
        quotient += 2 * rest > divisor or (2 * rest == divisor and quotient % 2 == 1)
        return min(quotient, 32767) * (-1 if code < 0 else 1)

    return [scaled(code) for code in codes]


def _rescaled(base, counts, steps):
    out, start = [], 0
    for count, (old, new) in zip(counts, steps, strict=True):
        part = base[start : start + count]
        out += rescale(part, old, new) if old != new else part
        start += count
    return out


def _contexts_of(base, width, counts):
    """Contexts are numbered by bucket, then by member."""
    members = members_of(counts)
    return [bucket_of(code, width) * len(counts) + member for code, member in zip(base, members, strict=True)]


def encode_moves(payload, base_payload, width, counts, steps=None):
    codes, base = unpack(payload, width), unpack(base_payload, width)
    head, follows = b"", 0
    if steps and any(old != new for old, new in steps):
        base = _rescaled(base, counts, steps)
        bits = sum((old != new) << m for m, (old, new) in enumerate(steps))
        head = bits.to_bytes((len(steps) + 7) // 8, "little")
        head += b"".join(bytes(pair) for pair in steps if pair[0] != pair[1])
        follows = STEPS_FOLLOW
    mode, body = _encode_changes(codes, base, width, counts)
    return bytes([mode + follows]) + head + body


def _encode_changes(codes, base, width, counts):
    flags = [int(code != near) for code, near in zip(codes, base, strict=True)]
    if not any(flags):
        return UNCHANGED, b""
    context_of = _contexts_of(base, width, counts)
    contexts = BUCKETS[width] * len(counts)
    moves = [
        wrapped((codes[i] - base[i]) * sign_of(base[i], width), width) for i, set_ in enumerate(flags) if set_
    ]
    changed = [context for context, set_ in zip(context_of, flags, strict=True) if set_]
    symbols = [min(zigzag(move) - 1, ESCAPE) for move in moves]
    tables, table_of, bits = fit_model(
        count_contexts(contexts, changed, symbols), 256, ESCAPE, ESCAPE_BITS[width], len(counts)
    )
    symbols = [s if tables[table_of[c]][s] else ESCAPE for c, s in zip(changed, symbols, strict=True)]
    out = put_model(tables, table_of) + _encode_flags(flags, context_of, contexts, len(counts))
    out += put_symbols([table_of[c] for c in changed], symbols, tables, bits)
    return GAPS, out + pack([m for m, s in zip(moves, symbols, strict=True) if s == ESCAPE], width)


def _encode_flags(flags, context_of, contexts, members):
    counted, class_of = cluster(count_contexts(contexts, context_of, flags), 2, members)
    classes = [class_of[c] for c in context_of]
    return _map_alone(class_of, len(counted)) + _encode_gaps(flags, classes, len(counted))


def _map_alone(table_of, tables):
    bits = Bits()
    bits.put(tables - 1, 4)
    put_map(bits, table_of, tables)
    return bits.bytes()


def _gap_class(gap):
    """Return (class, bits that follow, their value)."""
    power = (gap + 1).bit_length() - 1
    if power == 0:
        return 0, 0, 0
    rest = power - 1
    return 2 * power - 1 + ((gap + 1) >> rest & 1), rest, (gap + 1) & ((1 << rest) - 1)


def _gap_rest(number):
    return 0 if number == 0 else (number + 1) // 2 - 1


def _gap_of(number, rest):
    return 0 if number == 0 else ((2 | (number + 1) % 2) << _gap_rest(number) | rest) - 1


def _gaps(flags, table_of, tables):
    gaps, seen = [[] for _ in range(tables)], [0] * tables
    for flag, table in zip(flags, table_of, strict=True):
        if flag:
            gaps[table].append(seen[table])
        seen[table] = 0 if flag else seen[table] + 1
    return gaps


def _varint(value):
    out = b""
    while value >= 128:
        out += bytes([value % 128 + 128])
        value //= 128
    return out + bytes([value])


def _take_varint(payload):
    value = 0
    for shift in range(0, 28, 7):
        part = take(payload, 1)[0]
        value |= (part & 127) << shift
        if part < 128:
            require(part or not shift)
            return value
    raise MalformedError


def _encode_gaps(flags, table_of, tables):
    gaps = _gaps(flags, table_of, tables)
    classes = [_gap_class(gap)[0] for of_table in gaps for gap in of_table]
    context_of = [table for table, of_table in enumerate(gaps) for _ in of_table]
    model, map_, bits = fit_model(count_contexts(tables, context_of, classes), GAP_SYMBOLS)
    out = b"".join(_varint(len(of_table)) for of_table in gaps) + put_model(model, map_)
    out += put_symbols([map_[c] for c in context_of], classes, model, bits)
    rests = Bits()
    for of_table in gaps:
        for gap in of_table:
            rests.put(_gap_class(gap)[2], _gap_class(gap)[1])
    return out + rests.bytes()


def decode_moves(payload, base_payload, width, counts):
    payload, base = bytearray(payload), unpack(base_payload, width)
    first = take(payload, 1)[0]
    mode = first % STEPS_FOLLOW
    require(first < 2 * STEPS_FOLLOW and mode in {UNCHANGED, GAPS})
    if first & STEPS_FOLLOW:
        require(width == 2)
        base = _rescaled(base, counts, _take_steps(payload, len(counts)))
    codes = pack(base, width) if mode == UNCHANGED else _take_changes(payload, base, width, counts)
    require(not payload)
    return codes


def _take_steps(payload, members):
    size = (members + 7) // 8
    bits = int.from_bytes(take(payload, size), "little")
    require(bits >> members == 0)
    return [tuple(take(payload, 2)) if bits >> m & 1 else (0, 0) for m in range(members)]


def _take_changes(payload, base, width, counts):
    contexts = BUCKETS[width] * len(counts)
    tables, table_of = take_model(payload, 256, contexts)
    context_of = _contexts_of(base, width, counts)
    bits = BitsOf(payload)
    count = bits.take(4) + 1
    map_ = take_map(bits, contexts, count)
    bits.finish()
    flags = _take_gaps(payload, [map_[c] for c in context_of], count)
    changed = [table_of[c] for c, flag in zip(context_of, flags, strict=True) if flag]
    symbols = take_symbols(payload, changed, tables)
    moves = iter(
        [unpack(take(payload, width), width)[0] if s == ESCAPE else unzigzag(s + 1) for s in symbols]
    )
    codes = [
        near + next(moves) * sign_of(near, width) if flag else near
        for near, flag in zip(base, flags, strict=True)
    ]
    return pack(codes, width)


def _take_gaps(payload, table_of, tables):
    set_ = []
    for _ in range(tables):
        set_.append(_take_varint(payload))
        require(sum(set_) <= len(table_of))
    model, map_ = take_model(payload, GAP_SYMBOLS, tables)
    classes = take_symbols(payload, [map_[t] for t, n in enumerate(set_) for _ in range(n)], model)
    bits = BitsOf(payload)
    gaps = iter([_gap_of(number, bits.take(_gap_rest(number))) for number in classes])
    bits.finish()
    queues = [[next(gaps) for _ in range(n)] for n in set_]
    flags = []
    for table in table_of:
        queue = queues[table]
        flags.append(int(bool(queue) and queue[0] == 0))
        if queue and queue[0] == 0:
            del queue[0]
        elif queue:
            queue[0] -= 1
    require(not any(queues))
    return flags
