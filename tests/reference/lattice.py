"""The lattices, one numpy expression a line."""

import numpy as np

NORMAL = np.float32(np.finfo(np.float32).smallest_normal)
EXCEPTION, ZERO = -32768, -32767


def step_of(byte):
    """The step of a step byte, as float32."""
    return np.float32((4 + byte % 4) * 2.0 ** (byte // 4 - 60))


@np.errstate(all="ignore")
def lattice(values, byte, base=None, hysteresis=0.0):
    """Nearest multiples, half to even, unless the base's code is within reach."""
    u = values / step_of(byte)
    codes = np.nan_to_num(np.rint(u.astype(np.float64)), nan=1e6)
    if base is not None:
        near = np.abs(u - base.astype(np.float32)) <= np.float32(0.5) + np.float32(hysteresis)
        codes = np.where(near, base, codes)
    ordinary = np.isfinite(values) & ((values == 0) | (np.abs(values) >= NORMAL))
    return np.where(ordinary & (np.abs(codes) <= 32767), codes, EXCEPTION).astype(np.int16)


def row_ends(count, run, start):
    """Where rows of `run` elements end within `count` elements of a tensor from its element `start` on."""
    return [*range(min(run - start % run, count), count, run), count]


def balance_row(errors, codes):
    """Move as many codes as errors add up to: the most wrong ones, of equal ones the first."""
    total = int(np.rint(errors.astype(np.float64) * 2**20).astype(np.int64).sum())
    wanted, sign = (abs(total) + 2**19) >> 20, (total > 0) - (total < 0)
    helped = errors * np.float32(sign)
    movable = np.flatnonzero((helped > 0.25) & (codes != sign * 32767))
    chosen = movable[np.argsort(-helped[movable], kind="stable")][:wanted]
    codes[chosen] += sign
    return chosen.size


@np.errstate(all="ignore")
def balance(values, codes, byte, run, start=0):
    """Codes with each row balanced, but for fewer than 8 elements and exceptions, and how many were moved."""
    codes, moved, begin = codes.copy(), 0, 0
    errors = values / step_of(byte) - codes.astype(np.float32)
    errors = np.clip(np.where(np.isnan(errors), np.float32(2), errors), -2, 2)
    for end in row_ends(codes.size, run, start):
        row = slice(begin, end)
        if end - begin >= 8 and not (codes[row] == EXCEPTION).any():
            moved += balance_row(errors[row], codes[row])
        begin = end
    return codes, moved


def pace_row(errors, moves, codes):
    """Move codes with most of a row's lag, of equal ones the first, until the next would make up too much."""
    own = errors * moves
    total = int(np.rint(own.astype(np.float64) * 2**20).astype(np.int64).sum())
    gains = np.rint(np.abs(moves).astype(np.float64) * 2**20).astype(np.int64)
    signs = np.where(errors < 0, -1, 1)
    movable = np.flatnonzero((own > 0) & (np.abs(errors) > 0.25) & (gains > 0) & (codes != signs * 32767))
    order = movable[np.argsort(-own[movable], kind="stable")]
    before = np.cumsum(gains[order]) - gains[order]
    chosen = order[2 * before + gains[order] < 2 * total]
    codes[chosen] += signs[chosen].astype(np.int16)
    return chosen.size


@np.errstate(all="ignore")
def keep_pace(values, past, codes, byte, run, start=0):
    """Codes of which no row lags behind its move from upper halves of the past, and how many were moved."""
    codes, moved, begin = codes.copy(), 0, 0
    errors = values / step_of(byte) - codes.astype(np.float32)
    errors = np.clip(np.where(np.isnan(errors), np.float32(2), errors), -2, 2)
    upper = (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    moves = upper - (past.astype(np.uint32) << 16).view(np.float32)
    for end in row_ends(codes.size, run, start):
        row = slice(begin, end)
        largest = np.abs(moves[row]).max(initial=0)
        if end - begin >= 8 and not (codes[row] == EXCEPTION).any() and 0 < largest < np.inf:
            moved += pace_row(errors[row], moves[row] / largest, codes[row])
        begin = end
    return codes, moved


def unlattice(codes, byte):
    """Code times step."""
    return (codes.astype(np.float64) * np.float64(step_of(byte))).astype(np.float32)


def spread(rows, cols, columns, start, count):
    """The sum of offsets of each element, and where an offset says that all is zero."""
    row, col = np.divmod(np.arange(start, start + count), columns)
    above = rows[row].astype(np.int64) if rows.size else np.zeros(count, np.int64)
    left = cols[col].astype(np.int64) if cols.size else np.zeros(count, np.int64)
    return above + left, (above == EXCEPTION) | (left == EXCEPTION)


def log_lattice(values, scale, rows, cols, columns, start):
    """Patterns less offsets in steps, half up; zeros and exceptions by symbols of their own."""
    patterns = values.view(np.uint32).astype(np.int64)
    offsets, zeros = spread(rows, cols, columns, start, values.size)
    codes = (patterns - offsets * 2 ** (scale - 2) + 2 ** (scale - 1)) // 2**scale
    kept = np.isfinite(values) & (values >= NORMAL) & (codes >= -32766) & (codes <= 32767) & ~zeros
    special = np.where(values == 0, np.where(zeros, 0, ZERO), EXCEPTION)
    return np.where(kept, codes, special).astype(np.int16)


def log_unlattice(codes, scale, rows, cols, columns, start):
    """Patterns of offsets and codes, kept between the smallest normal number and the largest finite one."""
    offsets, zeros = spread(rows, cols, columns, start, codes.size)
    patterns = (offsets + 4 * codes.astype(np.int64)) * 2 ** (scale - 2)
    values = np.clip(patterns, 0x00800000, 0x7F7FFFFF).astype(np.uint32)
    return np.where(zeros | (codes <= ZERO), np.uint32(0), values).view(np.float32)


def log_sums(values, scale, rows, columns, start, by_column, number):
    """Sums of patterns less their row's offset, and how many, of each row or column."""
    patterns = values.view(np.uint32).astype(np.int64)
    row, col = np.divmod(np.arange(start, start + values.size), columns)
    above = rows[row].astype(np.int64) if rows.size else np.zeros(values.size, np.int64)
    kept = np.isfinite(values) & (values >= NORMAL)
    sums, counts = np.zeros(number, np.int64), np.zeros(number, np.int64)
    np.add.at(sums, (col if by_column else row)[kept], (patterns - above * 2 ** (scale - 2))[kept])
    np.add.at(counts, (col if by_column else row)[kept], 1)
    return sums, counts


@np.errstate(all="ignore")
def root_lattice(values, roots, byte):
    """Multiples of step times root nearest to values pulled towards zero by 0.05 steps."""
    u = values / (step_of(byte) * np.sqrt(roots))
    u = u - np.copysign(np.float32(0.05), u)
    scales = (roots > 0) & np.isfinite(roots)
    codes = np.where(scales, np.nan_to_num(np.rint(u.astype(np.float64)), nan=1e6), 0)
    kept = np.isfinite(values) & (np.abs(codes) <= 32767)
    return np.where(kept, codes, EXCEPTION).astype(np.int16)


@np.errstate(all="ignore")
def root_signs(values, roots):
    """Signs, where there is a root."""
    signs = np.where((roots > 0) & np.isfinite(roots), np.sign(values), 0)
    return np.where(np.isfinite(values), signs, EXCEPTION).astype(np.int16)


@np.errstate(all="ignore")
def root_unlattice(codes, roots, byte):
    """Code times step times root, zero where that is no number."""
    values = unlattice(codes, byte) * np.sqrt(roots)
    usable = (roots > 0) & np.isfinite(roots) & np.isfinite(values)
    return np.where(usable, values, np.float32(0))
