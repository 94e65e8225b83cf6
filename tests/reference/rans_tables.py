"""Frequency tables and their clustering, readable: what mvcs_native/src/{logs,tables,cluster}.hpp decide."""

from itertools import groupby, takewhile

WHOLE = 4096
MAX_TABLES = 16
DIGITS = 24  # of a price behind the point
SWITCH, SEED = 9 << DIGITS, 40 << DIGITS


class MalformedError(ValueError):
    """No encoder wrote these bytes."""


def require(holds):
    if not holds:
        raise MalformedError


class Bits:
    """Bits written, as text."""

    def __init__(self):
        self.text = ""

    def put(self, value, length):
        self.text += f"{value:0{length}b}" if length else ""

    def put_gamma(self, value):
        self.put(value, 2 * value.bit_length() - 1)

    def bytes(self):
        filled = self.text + "0" * (-len(self.text) % 8)
        return bytes(int(filled[i : i + 8], 2) for i in range(0, len(filled), 8))


class BitsOf:
    """Bits read off the front of a bytearray."""

    def __init__(self, payload):
        self.payload = payload
        self.text = "".join(f"{byte:08b}" for byte in payload)
        self.used = 0

    def take(self, length):
        bits = self.text[self.used : self.used + length].ljust(length, "0")
        self.used += length
        return int(bits or "0", 2)

    def take_gamma(self, longest):
        zeros = 0
        while zeros < longest and self.take(1) == 0:
            zeros += 1
        require(zeros < longest)
        return (1 << zeros) | self.take(zeros)

    def finish(self):
        """Take the bytes that were used, whose spare bits are zero."""
        size = (self.used + 7) // 8
        require(size <= len(self.payload))
        require("1" not in self.text[self.used : 8 * size])
        del self.payload[:size]


def _log2_by_squaring(number):
    whole = number.bit_length() - 1
    mantissa = number << (31 - whole)
    digits = whole
    for _ in range(DIGITS):
        mantissa = mantissa * mantissa >> 31
        carry = mantissa >> 32
        mantissa >>= carry
        digits = digits << 1 | carry
    return digits


_LOGS = [0] + [_log2_by_squaring(n) for n in range(1, 4097)]


def log2(number):
    """Fixed point; 0 of 0."""
    if number <= 4096:
        return _LOGS[number]
    shift = number.bit_length() - 12
    top = number >> shift
    rest = ((number - (top << shift)) << 16) >> shift
    return _LOGS[top] + ((_LOGS[top + 1] - _LOGS[top]) * rest >> 16) + (shift << DIGITS)


def zigzag(value):
    return 2 * value if value >= 0 else -2 * value - 1


def unzigzag(folded):
    return folded // 2 if folded % 2 == 0 else -(folded + 1) // 2


# --- tables


def put_table(bits, frequencies):
    expected, done = 10, 0
    while done < len(frequencies) and sum(frequencies[:done]) < WHOLE:
        frequency = frequencies[done]
        length = frequency.bit_length()
        bits.put_gamma(zigzag(length - expected) + 1)
        if frequency == 0:
            run = len(list(takewhile(lambda f: f == 0, frequencies[done:])))
            bits.put_gamma(run)
            done += run
            continue
        bits.put(frequency & ((1 << (length - 1)) - 1), length - 1)
        expected = length
        done += 1


def table_bits(frequencies):
    bits = Bits()
    put_table(bits, frequencies)
    return len(bits.text)


def take_table(bits, alphabet):
    frequencies, expected = [], 10
    while sum(frequencies) < WHOLE:
        length = expected + unzigzag(bits.take_gamma(5) - 1)
        require(0 <= length <= 13)
        if length == 0:
            frequencies += [0] * bits.take_gamma(9)
        else:
            frequencies.append((1 << (length - 1)) | bits.take(length - 1))
            expected = length
        require(len(frequencies) <= alphabet)
    require(sum(frequencies) == WHOLE)
    return frequencies + [0] * (alphabet - len(frequencies))


def _round_shares(counts):
    total = sum(counts)
    shares = [max((count * 2 * WHOLE + total) // (2 * total), 1) if count else 0 for count in counts]
    left = WHOLE - sum(shares)
    step = -1 if left < 0 else 1
    for _ in range(abs(left)):
        able = [s for s, c in enumerate(counts) if c and (step > 0 or shares[s] > 1)]
        best = max(able, key=lambda s: counts[s] * (log2(shares[s] + step) - log2(shares[s])))
        shares[best] += step
    return shares


def coded_price(counts, frequencies):
    return sum(c * ((12 << DIGITS) - log2(f)) for c, f in zip(counts, frequencies, strict=True))


def routed(counts, escape, limit):
    kept = [0 if s != escape and c <= limit else c for s, c in enumerate(counts)]
    kept[escape] += sum(counts) - sum(kept)
    return kept


def fit_frequencies(counts, escape=None, escape_bits=0):
    def price(kept, frequencies):
        rest = kept[escape] * escape_bits + table_bits(frequencies)
        return coded_price(kept, frequencies) + (rest << DIGITS)

    best = _round_shares(counts)
    if escape is None:
        return best
    least = price(counts, best)
    limit = 1
    while limit <= max(sum(counts) // 512, 4):
        kept = routed(counts, escape, limit)
        frequencies = _round_shares(kept)
        if price(kept, frequencies) < least:
            least, best = price(kept, frequencies), frequencies
        limit *= 2
    return best


# --- maps


def put_map(bits, table_of, tables):
    width = (tables - 1).bit_length()
    for table, run in groupby(table_of) if width else ():
        bits.put_gamma(len(list(run)))
        bits.put(table, width)


def take_map(bits, size, tables):
    width = (tables - 1).bit_length()
    table_of = [] if width else [0] * size
    while len(table_of) < size:
        run = bits.take_gamma(24)
        require(run <= size - len(table_of))
        table_of += [bits.take(width)] * run
        require(table_of[-1] < tables)
    return table_of


# --- clustering


def entropy(counts):
    total = sum(counts)
    return total * log2(total) - sum(count * log2(count) for count in counts)


def _table_price(counts):
    if len(counts) == 2:
        return 16 << DIGITS
    total = sum(counts)
    if not total:
        return 0
    shares, given = [], 0
    for count in counts:
        share = min(max(count * WHOLE // total, 1), WHOLE - given) if count else 0
        shares.append(share)
        given += share
    return table_bits(shares) << DIGITS


def _prices(counts):
    whole = log2(sum(counts) * 16 + len(counts))
    return [whole - log2(count * 16 + 1) for count in counts]


def _price(context, prices):
    return sum(count * prices[symbol] for symbol, count in context.items())


def _sum(contexts, alphabet):
    """Return a table of the counts of contexts."""
    table = [0] * alphabet
    for context in contexts:
        for symbol, count in context.items():
            table[symbol] += count
    return table


def _add_seeds(contexts, limit, tables):
    while True:
        priced = [_prices(table) for table in tables]
        over = [min(_price(c, prices) for prices in priced) - entropy(c.values()) for c in contexts]
        worst = max(range(len(over)), key=over.__getitem__, default=None)
        if worst is None or over[worst] <= SEED or len(tables) == limit:
            return
        tables.append(_sum([contexts[worst]], len(tables[0])))


def _seed_tables(contexts, alphabet, group):
    tables = [_sum(contexts, alphabet)]
    if group > 1:
        summed = [_sum(contexts[i : i + group], alphabet) for i in range(0, len(contexts), group)]
        groups = [{s: count for s, count in enumerate(table) if count} for table in summed]
        _add_seeds(groups, MAX_TABLES // 2, tables)
    _add_seeds(contexts, MAX_TABLES, tables)
    return tables


def _cheapest_map(contexts, tables):
    priced = [_prices(table) for table in tables]
    best = [0] * len(tables)
    steps = []
    for context in contexts:
        cheapest = best.index(min(best))
        switched = best[cheapest] + SWITCH
        steps.append([t if best[t] <= switched else cheapest for t in range(len(tables))])
        best = [min(b, switched) + _price(context, prices) for b, prices in zip(best, priced, strict=True)]
    table = best.index(min(best))
    table_of = []
    for step in reversed(steps):
        table_of.append(table)
        table = step[table]
    return table_of[::-1]


def _joined(one, other):
    return [a + b for a, b in zip(one, other, strict=True)]


def _merge(tables):
    def alone(table):
        return entropy(table) + _table_price(table)

    while len(tables) > 1:
        gain, pair = -SWITCH, None
        for a in range(len(tables)):
            for b in range(a + 1, len(tables)):
                joined = alone(_joined(tables[a], tables[b]))
                gained = alone(tables[a]) + alone(tables[b]) - joined
                if gained >= gain:
                    gain, pair = gained, (a, b)
        if pair is None:
            return
        a, b = pair
        tables[a] = _joined(tables[a], tables[b])
        del tables[b]


def cluster(contexts, alphabet, group=1):
    """Return the counts of at most 16 tables and the table of each context, a dict of counts by symbol."""
    tables = _seed_tables(contexts, alphabet, group)
    for turn in range(4):
        if len(tables) < 2:
            break
        table_of = _cheapest_map(contexts, tables)
        sums = [
            _sum([c for c, t in zip(contexts, table_of, strict=True) if t == i], alphabet)
            for i in range(MAX_TABLES)
        ]
        tables = [table for table in sums if sum(table)]
        if turn >= 2:
            _merge(tables)
    table_of = _cheapest_map(contexts, tables)
    sums = [
        _sum([c for c, t in zip(contexts, table_of, strict=True) if t == i], alphabet)
        for i in range(len(tables))
    ]
    kept = [table for table in sums if sum(table)]
    numbers = [sum(1 for table in sums[:i] if sum(table)) for i in range(len(sums))]
    return kept, [min(numbers[t], len(kept) - 1) for t in table_of]


def fit_model(contexts, alphabet, escape=None, escape_bits=0, group=1):
    """Return (tables, map, bits of the coded symbols)."""
    counted, table_of = cluster(contexts, alphabet, group)
    tables, price = [], 0
    for counts in counted:
        frequencies = fit_frequencies(counts, escape, escape_bits)
        kept = [count if frequency else 0 for count, frequency in zip(counts, frequencies, strict=True)]
        if escape is not None:
            kept[escape] += sum(counts) - sum(kept)
        price += coded_price(kept, frequencies)
        tables.append(frequencies)
    return tables, table_of, price >> DIGITS


def put_model(tables, table_of):
    bits = Bits()
    bits.put(len(tables) - 1, 4)
    for frequencies in tables:
        put_table(bits, frequencies)
    put_map(bits, table_of, len(tables))
    return bits.bytes()


def take_model(payload, alphabet, contexts):
    bits = BitsOf(payload)
    count = bits.take(4) + 1
    tables = [take_table(bits, alphabet) for _ in range(count)]
    table_of = take_map(bits, contexts, count)
    bits.finish()
    return tables, table_of
