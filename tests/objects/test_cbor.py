"""Canonical bytes: every value has one encoding, every other byte string is refused."""

import math
import struct
import sys
import threading

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mvcs.errors import CorruptionError, MvcsError, StateError
from mvcs.objects import cbor

FLOATS = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack(">d", bits.to_bytes(8, "big"))[0])
TEXTS = st.text(st.characters(exclude_categories=()), max_size=30)
LARGE = st.integers(-(2**200), 2**200)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), LARGE, FLOATS, TEXTS, st.binary(max_size=40))
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=6), max_leaves=25)


def same(left, right):
    """Equality that tells NaN payloads, zeros and types apart."""
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return isinstance(right, float) and struct.pack(">d", left) == struct.pack(">d", right)
    return type(left) is type(right) and left == right


@given(VALUES)
@example(-0.0)
@example([2**64 - 1, 2**64, -(2**64), -(2**64) - 1, "\ud800", float("nan")])
def test_values_come_back(value):
    assert same(value, cbor.loads(cbor.dumps(value)))


@given(st.one_of(st.binary(max_size=60), VALUES.map(cbor.dumps), st.tuples(VALUES, st.binary()).map(repr)))
def test_any_bytes_are_canonical_or_corruption(data):
    data = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    try:
        value = cbor.loads(data)
    except CorruptionError:
        return
    assert cbor.dumps(value) == data


@given(VALUES, st.data())
def test_flipped_bits_are_canonical_or_corruption(value, data):
    flipped = bytearray(cbor.dumps(value))
    bit = data.draw(st.integers(0, 8 * len(flipped) - 1))
    flipped[bit // 8] ^= 1 << bit % 8
    try:
        other = cbor.loads(bytes(flipped))
    except CorruptionError:
        return
    assert cbor.dumps(other) == flipped


@given(VALUES)
def test_truncated_and_longer_bytes_are_corruption(value):
    data = cbor.dumps(value)
    for end in range(len(data)):
        with pytest.raises(CorruptionError):
            cbor.loads(data[:end])
    with pytest.raises(CorruptionError):
        cbor.loads(data + b"\x00")


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (23, "17"),
        (24, "1818"),
        (-1, "20"),
        (2**64 - 1, "1bffffffffffffffff"),
        (2**64, "c249010000000000000000"),
        (-(2**64), "3bffffffffffffffff"),
        (-(2**64) - 1, "c349010000000000000000"),
        (1.0, "fb3ff0000000000000"),
        (math.inf, "fb7ff0000000000000"),
        ("", "60"),
        ("ü", "62c3bc"),
        (b"\x01", "4101"),
        ([1, [2, 3]], "8201820203"),
        (None, "f6"),
        ([False, True], "82f4f5"),
    ],
)
def test_examples_of_the_standard(value, encoded):
    assert cbor.dumps(value).hex() == encoded


@pytest.mark.parametrize(
    "encoded",
    [
        "1817",  # 23 in two bytes
        "190018",  # 24 in three
        "1a0000ffff",
        "1b00000000ffffffff",
        "c24100",  # a bignum that fits
        "c248ffffffffffffffff",
        "c24900ffffffffffffffff",  # a bignum with a leading zero
        "c2820102",
        "c100",  # another tag
        "c0",
        "a0",  # a map
        "f7",  # undefined
        "f93c00",  # a half float
        "fa3f800000",
        "5f4101ff",  # indefinite lengths
        "9f01ff",
        "7f6161ff",
        "1c",
        "61ff",  # not UTF-8
        "62c080",
        "5bffffffffffffffff",  # longer than anything
        "9bffffffffffffffff",
        "7a7fffffff61",
        "",
    ],
)
def test_everything_else_is_corruption(encoded):
    with pytest.raises(CorruptionError):
        cbor.loads(bytes.fromhex(encoded))


def nested(depth):
    value = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_depth_is_bounded_both_ways():
    deepest = nested(cbor.MAX_DEPTH)
    data = cbor.dumps(deepest)
    assert data == b"\x81" * (cbor.MAX_DEPTH - 1) + b"\x80"
    assert cbor.dumps(cbor.loads(data)) == data
    with pytest.raises(StateError):
        cbor.dumps([deepest])
    for hostile in (b"\x81" + data, b"\x81" * cbor.MAX_DEPTH + b"\x00", b"\x81" * 100_000, b"\x82" * 10**6):
        with pytest.raises(CorruptionError):
            cbor.loads(hostile)


def deep(frames, action):
    return action() if frames == 0 else deep(frames - 1, action)


def test_depth_costs_no_stack():
    data = cbor.dumps(nested(cbor.MAX_DEPTH))
    left = sys.getrecursionlimit() - 60
    outcome = []

    def attempt():
        outcome.append(deep(left - 20, lambda: cbor.dumps(cbor.loads(data))))

    thread = threading.Thread(target=attempt)  # a stack of its own, so that its depth is known
    thread.start()
    thread.join()
    assert outcome == [data]


@pytest.mark.parametrize("value", [{}, {1}, object(), 1j, bytearray(b"x"), [memoryview(b"")]])
def test_other_types_have_no_canonical_form(value):
    with pytest.raises(StateError):
        cbor.dumps(value)


def test_integers_have_a_limit():
    largest = 2 ** (8 * cbor.MAX_INTEGER_BYTES) - 1
    assert cbor.loads(cbor.dumps(largest)) == largest
    with pytest.raises(StateError):
        cbor.dumps(largest + 1)
    too_long = b"\xc2\x5a" + (cbor.MAX_INTEGER_BYTES + 1).to_bytes(4, "big") + b"\x01" * (2**16 + 1)
    with pytest.raises(MvcsError):
        cbor.loads(too_long)


PAIRS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2**33)).map(list))
ALIKE = st.sampled_from([st.binary(min_size=32, max_size=32), st.binary(min_size=16, max_size=16)])
RUNS = st.one_of(PAIRS, ALIKE.flatmap(st.lists)).flatmap(
    lambda run: st.lists(SCALARS, max_size=2).map(lambda others: [run * 3, [*run, *others], run])
)


@given(RUNS)
def test_runs_of_items_alike_come_back(value):
    assert same(value, cbor.loads(cbor.dumps(value)))


@given(RUNS, st.data())
def test_damaged_runs_are_canonical_or_corruption(value, data):
    damaged = bytearray(cbor.dumps(value))
    place = data.draw(st.integers(0, len(damaged) - 1))
    damaged[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    try:
        other = cbor.loads(bytes(damaged))
    except CorruptionError:
        return
    assert cbor.dumps(other) == damaged


def test_equal_pairs_are_not_one_list():
    pairs = cbor.loads(cbor.dumps([[1, 2]] * 20))
    pairs[0][0] = 3
    assert pairs[1:] == [[1, 2]] * 19


def test_pairs_at_the_deepest_level_are_refused_as_all_else_is():
    pairs = [[1, 2]] * 20
    for depth, is_whole in ((cbor.MAX_DEPTH - 2, True), (cbor.MAX_DEPTH - 1, False)):
        data = b"\x81" * (depth - 1) + cbor.dumps(pairs)
        if is_whole:
            assert cbor.dumps(cbor.loads(data)) == data
        else:
            with pytest.raises(CorruptionError, match="deeper"):
                cbor.loads(data)


def test_pairs_count_as_values():
    data = cbor.dumps([[1, 2]] * 20)
    cbor.loads(data, 60)
    with pytest.raises(CorruptionError, match="more than 59"):
        cbor.loads(data, 59)
