"""The coders of codes: the same bytes as the readable twin, and nothing hostile gets through."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mvcs_native
from tests.reference import groups


def as_codes(values):
    return np.array(values, np.uint8)


def native_decode_codes(payload, levels, count):
    out = np.empty(count, np.uint8)
    mvcs_native.decode_codes(np.frombuffer(payload, np.uint8), levels, out)
    return list(out)


def native_decode_delta(payload, base, levels):
    out = np.empty(len(base), np.uint8)
    mvcs_native.decode_delta(np.frombuffer(payload, np.uint8), as_codes(base), levels, out)
    return list(out)


def outcome(decode, *arguments):
    """What was decoded, or None where the payload was refused."""
    try:
        return decode(*arguments)
    except ValueError:
        return None


@st.composite
def runs_of_codes(draw, levels):
    """Codes as they come: long runs of one, stretches of anything."""
    code = st.integers(0, levels - 1)
    run = st.tuples(code, st.integers(1, 200)).map(lambda r: [r[0]] * r[1])
    return list(chain.from_iterable(draw(st.lists(st.one_of(run, st.lists(code, max_size=20)), max_size=12))))


@st.composite
def codes_and_levels(draw):
    levels = draw(st.one_of(st.integers(1, 256), st.sampled_from([1, 2, 3, 16, 17, 256])))
    return draw(runs_of_codes(levels)), levels


@given(codes_and_levels())
def test_codes_are_the_twins_bytes_and_come_back(given_codes):
    codes, levels = given_codes
    payload = mvcs_native.encode_codes(as_codes(codes), levels)
    assert payload == groups.encode_codes(codes, levels)
    assert native_decode_codes(payload, levels, len(codes)) == codes
    assert groups.decode_codes(payload, levels, len(codes)) == codes


@given(codes_and_levels(), st.randoms(use_true_random=False), st.sampled_from([0.0, 0.02, 0.3, 1.0]))
def test_deltas_are_the_twins_bytes_and_come_back(given_codes, random, share):
    base, levels = given_codes
    codes = [random.randrange(levels) if random.random() < share else code for code in base]
    payload = mvcs_native.encode_delta(as_codes(codes), as_codes(base), levels)
    assert payload == groups.encode_delta(codes, base, levels)
    assert native_decode_delta(payload, base, levels) == codes
    assert groups.decode_delta(payload, base, levels) == codes


def test_code_lengths_are_limited_by_package_merge():
    counts = [1, 1]
    while len(counts) < 20:
        counts.append(counts[-1] + counts[-2])  # Fibonacci counts ask for lengths up to 19
    codes = [symbol for symbol, count in enumerate(counts) for _ in range(count)]
    np.random.default_rng(0).shuffle(codes)
    lengths = groups.code_lengths(counts)
    assert max(lengths) == groups.LONGEST
    payload = mvcs_native.encode_codes(as_codes(codes), 20)
    assert payload == groups.encode_codes(codes, 20)
    assert native_decode_codes(payload, 20, len(codes)) == codes


@pytest.mark.parametrize("changed", [0, 1, 40_000, 4_000_000])
def test_a_whole_chunk_comes_back(changed):
    random = np.random.default_rng(changed)
    base = np.clip(random.normal(8, 3, 2**22), 0, 15).astype(np.uint8)
    codes = base.copy()
    codes[random.choice(codes.size, changed, replace=False)] ^= 1
    payload = mvcs_native.encode_delta(codes, base, 16)
    assert len(payload) <= 16 * 20 + changed * 2
    out = np.empty_like(codes)
    mvcs_native.decode_delta(np.frombuffer(payload, np.uint8), base, 16, out)
    assert np.array_equal(out, codes)


def test_nothing_changed_is_no_bytes_and_an_unchanged_group_is_one():
    base = as_codes([0, 1, 2, 3] * 100)
    codes = base.copy()
    assert mvcs_native.encode_delta(codes, base, 4) == b""
    codes[base == 2] = 3
    assert mvcs_native.encode_delta(codes, base, 4).hex() == "0000010300"


def test_longest_run_of_a_chunk():
    codes = np.zeros(2**22, np.uint8)
    codes[0] = 1
    for variant in (codes, codes[::-1].copy()):
        payload = mvcs_native.encode_codes(variant, 2)
        assert len(payload) < 16
        out = np.empty_like(variant)
        mvcs_native.decode_codes(np.frombuffer(payload, np.uint8), 2, out)
        assert np.array_equal(out, variant)


SAMPLES = {
    "zeros": ([0] * 9, 4),
    "constant": ([3] * 9, 4),
    "bits": ([0, 1, 2, 3, 4, 3, 2, 1], 5),
    "huffman": ([0, 1, 0, 2, 0, 1, 0, 0] * 6, 256),
    "runs": ([0] * 50 + [2] + [0] * 70 + [1, 1] + [0] * 31, 3),
}


def damaged(payload):
    """Every truncation, one byte more, every flipped bit."""
    yield from (payload[:end] for end in range(len(payload)))
    yield payload + b"\0"
    for bit in range(len(payload) * 8):
        flipped = bytearray(payload)
        flipped[bit // 8] ^= 128 >> bit % 8
        yield bytes(flipped)


@pytest.mark.parametrize("name", SAMPLES)
def test_damaged_codes_are_refused_or_decode_as_the_twin_does(name):
    codes, levels = SAMPLES[name]
    payload = mvcs_native.encode_codes(as_codes(codes), levels)
    for broken in damaged(payload):
        assert outcome(native_decode_codes, broken, levels, len(codes)) == outcome(
            groups.decode_codes, broken, levels, len(codes)
        )
    for broken in [*(payload[:end] for end in range(len(payload))), payload + b"\0"]:
        assert outcome(native_decode_codes, broken, levels, len(codes)) is None
    for count in (0, 1, len(codes) - 1, len(codes) + 1):
        assert outcome(native_decode_codes, payload, levels, count) == outcome(
            groups.decode_codes, payload, levels, count
        )


def test_damaged_deltas_are_refused_or_decode_as_the_twin_does():
    base = [i * i % 5 for i in range(120)]
    codes = [c if i % 7 else (c + 1) % 5 for i, c in enumerate(base)]
    payload = mvcs_native.encode_delta(as_codes(codes), as_codes(base), 5)
    for broken in damaged(payload):
        expected = outcome(groups.decode_delta, broken, base, 5)
        assert outcome(native_decode_delta, broken, base, 5) == expected


@settings(max_examples=400)
@given(st.binary(max_size=40), st.sampled_from([1, 2, 5, 16, 256]), st.integers(0, 300))
def test_arbitrary_bytes_are_refused_or_decode_as_the_twin_does(payload, levels, count):
    assert outcome(native_decode_codes, payload, levels, count) == outcome(
        groups.decode_codes, payload, levels, count
    )


@settings(max_examples=200)
@given(st.integers(2, 4), st.binary(max_size=30), st.integers(1, 300))
def test_arbitrary_bytes_behind_a_mode_are_refused_or_decode_as_the_twin_does(mode, body, count):
    payload = bytes([mode, len(body)]) + body
    assert outcome(native_decode_codes, payload, 7, count) == outcome(groups.decode_codes, payload, 7, count)
