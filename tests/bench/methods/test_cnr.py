"""Check-N-Run's ends and codes, worked by hand and against one row at a time."""

import struct

import numpy as np
from numpy.typing import NDArray

from mvcs.bench.methods.cnr import CNR
from mvcs.bench.methods.coding import to_bits
from mvcs.bench.methods.method import unpack

SETTING = {"bins": 8, "steps": 10, "range": 0.3}


def test_an_end_moves_in_over_what_is_rare() -> None:
    row = np.r_[np.tile(np.arange(8), 100), 10]
    payload, state = CNR().encode({"w": row[None].astype(np.float32)}, None, SETTING)
    # Steps of 1: the high end goes from 10 to 7, and 10 alone is off.
    bits, lows, scales, raw, codes = unpack(payload)[3:]
    assert (bits, raw) == (bytes([3]), b"")
    assert (lows, scales) == (struct.pack("<e", 0), struct.pack("<e", 1))
    assert codes == to_bits(np.r_[np.tile(np.arange(8), 100), 7], 3)
    assert np.array_equal(state.tensors["w"][0], np.minimum(row, 7))


def test_the_best_pair_of_ends_is_kept_not_the_last() -> None:
    rows = np.tile(np.arange(8, dtype=np.float32), (2, 1)) * [[1], [-1]]
    payload, state = CNR().encode({"w": rows.astype(np.float32)}, None, SETTING)
    assert unpack(payload)[4:6] == [struct.pack("<2e", 0, -7), struct.pack("<2e", 1, 1)]
    assert np.array_equal(state.tensors["w"], rows)


def test_rows_that_float16_does_not_hold_are_raw() -> None:
    rows = np.array([[1e5, 1], [0, 7], [2, 2]], np.float32)
    payload, state = CNR().encode({"w": rows}, None, SETTING)
    assert unpack(payload)[6] == rows[0].tobytes()
    assert np.array_equal(state.tensors["w"], rows)


def test_all_rows_at_once_find_what_each_finds_alone() -> None:
    weights = np.random.default_rng(0).standard_t(4, (40, 150)).astype(np.float32)
    setting = {"bins": 16, "steps": 25, "range": 0.5}
    _, state = CNR().encode({"w": weights}, None, setting)
    found = np.square(state.tensors["w"] - weights).sum(axis=1)
    alone = [greedy(row.astype(np.float64), 15, 25, 13) for row in weights]
    assert np.allclose(found, alone, rtol=0.01)  # which counts the float16 of ends


def greedy(row: NDArray[np.float64], top: int, steps: int, moves: int) -> float:
    """Return the smallest squared error of the pairs of ends that one row goes through."""

    def error(low: float, high: float) -> float:
        scale = (high - low) / top
        return float(np.square(low + scale * np.rint((row - low) / scale).clip(0, top) - row).sum())

    low, high = row.min(), row.max()
    step = (high - low) / steps
    errors = [error(low, high)]
    for _ in range(moves):
        high_moved, low_moved = error(low, high - step), error(low + step, high)
        low, high = (low, high - step) if high_moved < low_moved else (low + step, high)
        errors.append(min(high_moved, low_moved))
    return min(errors)
