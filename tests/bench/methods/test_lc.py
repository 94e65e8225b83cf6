"""LC-Checkpoint's buckets, worked by hand."""

import struct

import numpy as np

from mvcs.bench.methods.lc import LC
from mvcs.bench.methods.method import unpack

FIRST = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.float32)
MOVED = np.array([[2, 3, -2, 1], [0.5, 0.25, 0, 0.5]], np.float32)
TWO_BITS = {"bits": 2}


def test_the_first_is_raw() -> None:
    payload, state = LC().encode({"w": FIRST}, None, TWO_BITS)
    assert unpack(payload)[3] == FIRST.tobytes()
    assert np.array_equal(state.tensors["w"], FIRST)


def test_the_three_largest_buckets_are_huffman_coded_and_the_rest_is_zero() -> None:
    method = LC()
    _, first = method.encode({"w": FIRST}, None, TWO_BITS)
    payload, state = method.encode({"w": FIRST + MOVED}, first, TWO_BITS)
    # Exponent 1: 2 and 3 in bucket 1, -2 in 2; exponent 0: 1 in 3. All below is 0: 1 1 2 3 0 0 0 0.
    raw, worth, codes = unpack(payload)[3:]
    assert raw == b""
    assert worth == struct.pack("<3f", 2.5, -2, 1)
    # 0 in one bit, 1 in two, 2 and 3 in three: 0, 10, 110, 111. Symbols and distinct ones, a table, bits.
    bits = bytes([0b10101101, 0b11000000])
    assert codes.startswith(struct.pack("<II", 8, 4))
    assert codes.endswith(struct.pack("<I", 14) + bits)
    restored = FIRST + np.array([[2.5, 2.5, -2, 1], [0, 0, 0, 0]], np.float32)
    assert np.array_equal(state.tensors["w"], restored)


def test_differences_are_from_what_was_restored() -> None:
    method, states = LC(), [FIRST, FIRST + MOVED, FIRST + MOVED]
    state = None
    for tensor in states:
        payload, state = method.encode({"w": tensor}, state, TWO_BITS)
    # What is left is -0.5, 0.5 of bucket 1, then 0.5, 0.25, 0.5 of those that were 0.
    assert unpack(payload)[4] == struct.pack("<3f", 0.5, -0.5, 0.25)
    assert np.array_equal(state.tensors["w"], FIRST + MOVED)
