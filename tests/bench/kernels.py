"""Speed of the native kernels at each instruction level, as a share of memcpy of the same float32 values.

    python -m tests.bench.kernels [--values 24000000] [--pairs 7] [--only NAME]

Out of cache, in chunks of 2^22 values; memcpy and kernel run in turn. Shares are of the processor's time,
medians with their quartiles.
A new kernel is a line in `KERNELS`.
"""

import argparse
import os
from collections.abc import Callable

import numpy as np

import mvcs_native
from mvcs.bench.codecs.clock import Pairs, Work, compare
from mvcs.quantize.float_values import upper_halves
from mvcs.quantize.leading_directions import remove_leading_directions
from tests.bench import results
from tests.bench.kernel_data import CHUNK, LEVELS, Data

NO_STEPS = np.zeros(0, np.uint8)
HALF = (60 - 3) << 2  # the step byte of 4 * 2^-3: one half
OCTAVE = 23
COLUMNS = 2048
ROW = 576
GROUP = 512


def sketch(data: Data) -> Work:
    """Count values by the top half of their pattern."""
    counts, low = np.zeros(1 << 16, np.uint64), np.full(1 << 16, 0xFFFFFFFF, np.uint32)
    high = np.zeros(1 << 16, np.uint32)
    return lambda: [mvcs_native.sketch(part, counts, low, high) for part in data.chunks(data.values)]


def assign(data: Data) -> Work:
    """Give every value the nearest of 16."""
    bounds = np.linspace(-3, 3, LEVELS - 1, dtype=np.float32)
    out = np.empty(CHUNK, np.uint8)
    return lambda: [mvcs_native.assign(part, bounds, out[: part.size]) for part in data.chunks(data.values)]


def encode_codes(data: Data) -> Work:
    """Encode codes alone by run lengths and Huffman."""
    return lambda: [mvcs_native.encode_codes(part, LEVELS) for part in data.chunks(data.codes)]


def decode_codes(data: Data) -> Work:
    """Decode codes alone."""
    rows = list(zip(data.alone, data.chunks(np.empty_like(data.codes)), strict=True))
    return lambda: [mvcs_native.decode_codes(payload, LEVELS, out) for payload, out in rows]


def encode_delta(data: Data) -> Work:
    """Encode codes near the base by run lengths and Huffman, one group a base code."""
    rows = list(zip(data.chunks(data.codes), data.chunks(data.base), strict=True))
    return lambda: [mvcs_native.encode_delta(part, old, LEVELS) for part, old in rows]


def decode_delta(data: Data) -> Work:
    """Decode codes near the base."""
    out = data.chunks(np.empty_like(data.codes))
    rows = list(zip(data.near, data.chunks(data.base), out, strict=True))
    return lambda: [mvcs_native.decode_delta(payload, old, LEVELS, new) for payload, old, new in rows]


def lattice(data: Data) -> Work:
    """Give every value a multiple of half its root mean square, or keep the base's code within 0.75 steps."""
    rows = list(zip(data.chunks(data.values), data.chunks(data.lattice_base), strict=True))
    out = np.empty(CHUNK, np.int16)
    return lambda: [mvcs_native.lattice(part, HALF, old, 0.25, out[: part.size]) for part, old in rows]


def balance(data: Data) -> Work:
    """Balance rows of 576 of such codes, of which about one in a hundred moves."""
    return _edited(mvcs_native.balance, data, data.values)


def keep_pace(data: Data) -> Work:
    """Let rows of 576 of such codes keep pace, for which about one in twenty moves."""
    return _edited(mvcs_native.keep_pace, data, data.values, upper_halves(data.before, "float32"))


def _edited(kernel: Callable[..., int], data: Data, *arrays: np.ndarray) -> Work:
    rows = list(zip(*map(data.chunks, (data.lattice_base, *arrays)), strict=True))
    out = np.empty(CHUNK, np.int16)

    def work() -> None:
        for codes, *parts in rows:
            np.copyto(out[: codes.size], codes)
            kernel(*parts, HALF, ROW, 0, out[: codes.size])

    return work


def leading(data: Data) -> Work:
    """Find 32 leading directions of a matrix of 2048 columns, and take them away."""
    matrix = data.values[: data.values.size // COLUMNS * COLUMNS].reshape(-1, COLUMNS).copy()
    return lambda: remove_leading_directions(matrix)


def unlattice(data: Data) -> Work:
    """Restore values from codes of a lattice."""
    out = data.chunks(np.empty_like(data.values))
    rows = list(zip(data.chunks(data.lattice_base), out, strict=True))
    return lambda: [mvcs_native.unlattice(codes, HALF, values) for codes, values in rows]


def log_lattice(data: Data) -> Work:
    """Give second moments codes of whole octaves near the offsets of 2048 columns."""
    rows, cols = _offsets(data)
    out = np.empty(CHUNK, np.int16)

    def work() -> None:
        for start, part in zip(range(0, data.values.size, CHUNK), data.chunks(data.squares), strict=True):
            mvcs_native.log_lattice(part, OCTAVE, rows, cols, COLUMNS, start, out[: part.size])

    return work


def log_unlattice(data: Data) -> Work:
    """Restore second moments from such codes."""
    rows, cols = _offsets(data)
    codes, out = np.ones(CHUNK, np.int16), data.chunks(np.empty_like(data.values))

    def work() -> None:
        for start, part in zip(range(0, data.values.size, CHUNK), out, strict=True):
            mvcs_native.log_unlattice(codes[: part.size], OCTAVE, rows, cols, COLUMNS, start, part)

    return work


def root_lattice(data: Data) -> Work:
    """Give first moments multiples of half the root of the second."""
    rows = list(zip(data.chunks(data.values), data.chunks(data.squares), strict=True))
    out = np.empty(CHUNK, np.int16)
    return lambda: [mvcs_native.root_lattice(part, root, HALF, out[: part.size]) for part, root in rows]


def root_unlattice(data: Data) -> Work:
    """Restore first moments from such codes."""
    out = data.chunks(np.empty_like(data.values))
    rows = list(zip(data.chunks(data.lattice_base), data.chunks(data.squares), out, strict=True))
    return lambda: [mvcs_native.root_unlattice(codes, root, HALF, new) for codes, root, new in rows]


def error_sums(data: Data) -> Work:
    """Compare values with other values."""
    rows = list(zip(data.chunks(data.values), data.chunks(data.squares), strict=True))
    return lambda: [mvcs_native.error_sums(part, other) for part, other in rows]


def _offsets(data: Data) -> tuple[np.ndarray, np.ndarray]:
    middle = 4 * (127 << 23 >> OCTAVE)
    return np.full(data.values.size // COLUMNS + 1, middle, np.int16), np.zeros(COLUMNS, np.int16)


def encode_planes(data: Data) -> Work:
    """Encode floats alone by planes."""
    return lambda: [mvcs_native.encode_planes(part, 4, True) for part in data.chunks_of_bytes(data.values)]


def decode_planes(data: Data) -> Work:
    """Decode floats alone."""
    parts = data.chunks_of_bytes(data.values)
    payloads = [np.frombuffer(mvcs_native.encode_planes(part, 4, True), np.uint8) for part in parts]
    rows = list(zip(payloads, data.chunks_of_bytes(np.empty_like(data.values)), strict=True))
    return lambda: [mvcs_native.decode_planes(payload, 4, True, out) for payload, out in rows]


def encode_residual(data: Data) -> Work:
    """Encode floats near floats that lie about one percent beside them."""
    rows = list(zip(data.chunks_of_bytes(data.values), data.chunks_of_bytes(data.beside), strict=True))
    return lambda: [mvcs_native.encode_residual(part, old, 4, True) for part, old in rows]


def decode_residual(data: Data) -> Work:
    """Decode floats near such floats."""
    pairs = zip(data.chunks_of_bytes(data.values), data.chunks_of_bytes(data.beside), strict=True)
    payloads = [np.frombuffer(mvcs_native.encode_residual(*pair, 4, True), np.uint8) for pair in pairs]
    out = data.chunks_of_bytes(np.empty_like(data.values))
    rows = list(zip(payloads, data.chunks_of_bytes(data.beside), out, strict=True))
    return lambda: [mvcs_native.decode_residual(payload, old, 4, True, new) for payload, old, new in rows]


def encode_rans_codes(data: Data) -> Work:
    """Encode lattice codes alone by rANS."""
    parts = data.chunks_of_bytes(data.lattice_base)
    return lambda: [mvcs_native.encode_rans_codes(part, 2, counts(part)) for part in parts]


def decode_rans_codes(data: Data) -> Work:
    """Decode lattice codes alone."""
    parts = data.chunks_of_bytes(data.lattice_base)
    payloads = [
        np.frombuffer(mvcs_native.encode_rans_codes(part, 2, counts(part)), np.uint8) for part in parts
    ]
    rows = list(zip(payloads, data.chunks_of_bytes(np.empty_like(data.lattice_base)), strict=True))
    return lambda: [mvcs_native.decode_rans_codes(payload, 2, counts(out), out) for payload, out in rows]


def encode_rans_moves(data: Data) -> Work:
    """Encode lattice codes near base codes of which 8.5 % moved."""
    rows = list(zip(data.chunks_of_bytes(data.moved), data.chunks_of_bytes(data.lattice_base), strict=True))
    return lambda: [mvcs_native.encode_rans_moves(new, old, 2, counts(new), NO_STEPS) for new, old in rows]


def encode_rans_signs(data: Data) -> Work:
    """Encode signs alone by rANS."""
    parts = data.chunks(data.signs)
    return lambda: [mvcs_native.encode_rans_codes(part, 1, counts(part, 1)) for part in parts]


def encode_rans_moved_signs(data: Data) -> Work:
    """Encode signs near signs of which an eighth changed."""
    rows = list(zip(data.chunks(data.signs), data.chunks(data.old_signs), strict=True))
    return lambda: [mvcs_native.encode_rans_moves(new, old, 1, counts(new, 1), NO_STEPS) for new, old in rows]


def decode_rans_moves(data: Data) -> Work:
    """Decode lattice codes near base codes."""
    new, old = data.chunks_of_bytes(data.moved), data.chunks_of_bytes(data.lattice_base)
    found = (
        mvcs_native.encode_rans_moves(part, base, 2, counts(part), NO_STEPS)
        for part, base in zip(new, old, strict=True)
    )
    payloads = [np.frombuffer(payload, np.uint8) for payload in found]
    rows = list(zip(payloads, old, data.chunks_of_bytes(np.empty_like(data.moved)), strict=True))
    return lambda: [
        mvcs_native.decode_rans_moves(payload, base, 2, counts(out), out) for payload, base, out in rows
    ]


def rescale(data: Data) -> Work:
    """Re-express lattice codes in a step of three quarters."""
    out = np.empty(CHUNK, np.int16)
    parts = data.chunks(data.lattice_base)
    return lambda: [mvcs_native.rescale(part, HALF, HALF - 2, out[: part.size]) for part in parts]


def counts(codes: np.ndarray, width: int = 2) -> np.ndarray:
    """Return the members of an entry that holds one chunk of codes of so many bytes."""
    return np.array([codes.size // width], np.uint64)


def gather(data: Data) -> Work:
    """Copy past the caches, on one thread."""
    parts = data.chunks_of_bytes(data.values)
    kept = mvcs_native.Gather([np.zeros_like(part) for part in parts])
    return lambda: kept.fill([int(part.ctypes.data) for part in parts], 1)


def quantize_groups(bits: int, *, stochastic: bool = False) -> Callable[[Data], Work]:
    """Quantize and pack groups of 512, and restore them in the same pass."""

    def make(data: Data) -> Work:
        rows = [
            (part, np.empty(part.size // GROUP, np.uint16), np.empty(part.size * bits // 8, np.uint8), out)
            for part, out in zip(*_groups(data), strict=True)
        ]
        return lambda: [
            mvcs_native.quantize_groups(part, GROUP, bits, stochastic, 1, *outs) for part, *outs in rows
        ]

    return make


def restore_groups(bits: int) -> Callable[[Data], Work]:
    """Restore such groups."""

    def make(data: Data) -> Work:
        rows = [
            (np.full(out.size // GROUP, 0x3F80, np.uint16), np.zeros(out.size * bits // 8, np.uint8), out)
            for out in _groups(data)[1]
        ]
        return lambda: [mvcs_native.restore_groups(*coded, GROUP, bits, out) for *coded, out in rows]

    return make


def mark_largest(data: Data) -> Work:
    """Mark the largest fifth of groups of 512."""
    rows = [(part, np.empty(part.size, np.bool_)) for part in _groups(data)[0]]
    return lambda: [mvcs_native.mark_largest(part, GROUP, GROUP // 5, out) for part, out in rows]


def _groups(data: Data) -> tuple[list[np.ndarray], list[np.ndarray]]:
    whole = data.values[: data.values.size // GROUP * GROUP]
    return data.chunks(whole), data.chunks(np.empty_like(whole))


KERNELS: dict[str, Callable[[Data], Work]] = {
    "gather": gather,
    "sketch": sketch,
    "assign, 16 values": assign,
    "lattice, hysteresis": lattice,
    "lattice: balance rows of 576": balance,
    "lattice: rows of 576 keep pace": keep_pace,
    "leading directions": leading,
    "lattice: restore": unlattice,
    "log lattice": log_lattice,
    "log lattice: restore": log_unlattice,
    "root lattice": root_lattice,
    "root lattice: restore": root_unlattice,
    "error sums": error_sums,
    "exact planes: encode": encode_planes,
    "exact planes: decode": decode_planes,
    "exact residual: encode": encode_residual,
    "exact residual: decode": decode_residual,
    "rANS codes: encode": encode_rans_codes,
    "rANS codes: decode": decode_rans_codes,
    "rANS moves: encode, 8.5 % moved": encode_rans_moves,
    "rANS moves: decode, 8.5 % moved": decode_rans_moves,
    "rANS codes: encode signs": encode_rans_signs,
    "rANS moves: encode signs": encode_rans_moved_signs,
    "rescale": rescale,
    "groups: 1 bit": quantize_groups(1),
    "groups: 2 bits": quantize_groups(2),
    "groups: 3 bits": quantize_groups(3),
    "groups: 4 bits": quantize_groups(4),
    "groups: 4 bits at random": quantize_groups(4, stochastic=True),
    "groups: 8 bits": quantize_groups(8),
    "groups: 16 bits": quantize_groups(16),
    "groups: restore 3 bits": restore_groups(3),
    "groups: restore 4 bits": restore_groups(4),
    "groups: restore 16 bits": restore_groups(16),
    "groups: mark the largest fifth": mark_largest,
    "codes: encode": encode_codes,
    "codes: decode": decode_codes,
    "delta: encode, 8.5 % moved": encode_delta,
    "delta: decode, 8.5 % moved": decode_delta,
}


def shares(data: Data, make: Callable[[Data], Work], pairs: int) -> dict[str, Pairs]:
    """Return memcpy's seconds over the kernel's at each level of instructions."""
    target, work, found = np.zeros_like(data.values), make(data), {}
    for level in mvcs_native.levels():
        mvcs_native.use_level(level)
        found[level] = compare(lambda: np.copyto(target, data.values), work, pairs)
    return found


def main() -> None:
    """Time what was asked for and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=24_000_000)
    parser.add_argument("--pairs", type=int, default=7, help="of which medians are taken")
    parser.add_argument("--only", default="", help="kernels whose name holds this text")
    results.add_option(parser)
    options = parser.parse_args()
    data, load, size = Data.of(options.values), results.load(), options.values * 4 / 1e6
    print(f"load {load:.1f}, {os.cpu_count()} cores; shares of memcpy of {size:.0f} MB")
    print(f"{'kernel':32}" + "".join(f"{level:>24}" for level in mvcs_native.levels()))
    rows = {}
    for name, make in KERNELS.items():
        if options.only in name:
            found = shares(data, make, options.pairs)
            rows[name] = {level: each.to_json() for level, each in found.items()}
            cells = (f"{each.ratio:.3f} ({each.low:.3f} to {each.high:.3f})" for each in found.values())
            print(f"{name:32}" + "".join(f"{cell:>24}" for cell in cells), flush=True)
    results.write(options.json, {"load": load, "megabytes": size, "pairs": options.pairs, "shares": rows})


if __name__ == "__main__":
    main()
