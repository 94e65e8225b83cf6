"""Exact chunks by rANS: what comes back, what is refused, how large it is, and the bytes of the page."""

import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvcs.delta.element import ElementFormat
from mvcs.delta.exact import (
    decode_planes_rans,
    decode_residual,
    encode_planes_rans,
    encode_residual,
    estimate_planes,
    estimate_residual,
)
from mvcs.errors import CorruptionError, UsageError

PAGE = Path(__file__).parents[2] / "docs/format/encodings.md"
BYTE, FLOAT, INTEGER = ElementFormat(1, False), ElementFormat(4, True), ElementFormat(4, False)
BFLOAT = ElementFormat(2, True)
FORMATS = [ElementFormat(width, floating) for width in (1, 2, 4, 8, 16) for floating in (False, True)]

FOUR = struct.pack("<4f", 1, -2, 1.5, 0.5)
FOUR_BASE = FOUR[:4] + b"\x01" + FOUR[5:]
COUNT = np.arange(64, dtype="<i4")
PAIRS = np.array([1, -2] * 16, "<f4").tobytes()


def weights(count, seed=0):
    return (np.random.default_rng(seed).standard_normal(count) * 0.02).astype("<f4")


def bfloat16(values):
    bits = values.view("<u4")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")


@st.composite
def chunks(draw):
    """An element format, a chunk, and a base that is near, far, equal, or shares its low bits."""
    element = draw(st.sampled_from(FORMATS))
    count = draw(st.sampled_from([0, 1, 2, 63, 64, 65, 1023, 1024, 1025, 5000]))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    base = random.integers(0, 256, count * element.width, np.uint8)
    words = base.view(f"<u{element.lane}")
    spread = draw(st.integers(1, 8 * element.lane - 1))
    moves = random.integers(0, 2**spread, words.size, np.uint64).astype(words.dtype)
    match draw(st.integers(0, 4)):
        case 0:
            content = words + moves
        case 1:
            content = words - moves
        case 2:
            content = moves
        case 3:
            content = moves << np.array(8 * element.lane - spread, words.dtype)
        case _:
            content = np.where(moves % 7 == 0, words + np.array(1, words.dtype), words)
    return element, content.tobytes(), base.tobytes()


@given(chunks())
def test_chunks_come_back(chunk):
    element, content, base = chunk
    assert decode_residual(encode_residual(content, base, element), base, element) == content
    assert decode_planes_rans(encode_planes_rans(content, element), len(content), element) == content


SPECIAL = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 5e-324, -5e-324, 1.7e308, 1e-40]


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", "<c8", "<c16"])
def test_special_floats_come_back_bit_for_bit(dtype):
    with np.errstate(all="ignore"):
        content = np.array(SPECIAL * 300, dtype)
        bases = [np.roll(content, 4), np.zeros_like(content), -content]
    content.view(np.uint8)[-content.itemsize :] = 0xFF  # a NaN with a payload of its own
    element = ElementFormat.of(content.itemsize, "complex" if "c" in dtype else "float")
    for base in bases:
        payload = encode_residual(content.tobytes(), base.tobytes(), element)
        assert decode_residual(payload, base.tobytes(), element) == content.tobytes()
    payload = encode_planes_rans(content.tobytes(), element)
    assert decode_planes_rans(payload, content.nbytes, element) == content.tobytes()


@pytest.mark.parametrize("element", FORMATS, ids=str)
def test_unchanged_is_no_bytes_and_all_equal_is_few(element):
    content = bytes(range(element.width)) * 100_000
    assert encode_residual(content, content, element) == b""
    assert decode_residual(b"", content, element) == content
    assert len(encode_planes_rans(content, element)) == 2 * element.lane or element.width == 16
    assert encode_residual(b"", b"", element) == encode_planes_rans(b"", element) == b""


def test_whole_chunks_of_every_width_come_back():
    random = np.random.default_rng(0)
    for element, count in (
        (FLOAT, 2**22),
        (FLOAT, 2**23),
        (BFLOAT, 2**22 - 1),
        (ElementFormat(8, True), 2**20),
    ):
        base = random.standard_normal(count).astype({2: "<f2", 4: "<f4", 8: "<f8"}[element.width])
        content = base * (1 + base.dtype.type(2**-7) * random.standard_normal(count).astype(base.dtype))
        payload = encode_residual(content, base.view(np.uint8), element)
        assert decode_residual(payload, base.view(np.uint8), element) == content.tobytes()
        payload = encode_planes_rans(content.view(np.uint8), element)
        assert decode_planes_rans(payload, content.nbytes, element) == content.tobytes()


def test_misaligned_buffers_are_read_where_they_lie():
    content, base = weights(5000).tobytes(), weights(5000, 1).tobytes()
    for offset in (1, 2, 3):
        shifted, near = (memoryview(b"x" * offset + chunk)[offset:] for chunk in (content, base))
        assert encode_residual(shifted, near, FLOAT) == encode_residual(content, base, FLOAT)
        assert encode_planes_rans(shifted, FLOAT) == encode_planes_rans(content, FLOAT)
        payload = memoryview(b"x" * offset + encode_residual(content, base, FLOAT))[offset:]
        assert decode_residual(payload, near, FLOAT) == content


def test_wide_words_with_zero_low_bits_cost_hardly_more_than_narrow_ones():
    narrow = bfloat16(weights(100_000))
    planes = len(encode_planes_rans((narrow.astype("<u4") << 16).tobytes(), FLOAT))
    assert planes < 1.02 * len(encode_planes_rans(narrow.tobytes(), BFLOAT)) + 100_000 // 8


def test_blocks_of_different_scale_have_tables_of_their_own():
    scales = np.repeat(np.float32(2) ** np.random.default_rng(0).integers(-40, 40, 500).astype("f4"), 1000)
    content = weights(500_000) * scales
    mixed = np.random.default_rng(1).permutation(content)
    blocks, alike = (len(encode_planes_rans(each.tobytes(), FLOAT)) for each in (content, mixed))
    assert blocks < 0.93 * alike


def test_untouched_rows_cost_half_a_bit_a_value():
    base = weights(1000 * 192).reshape(1000, 192)
    content = base.copy()
    content[::10] += weights(100 * 192, 1).reshape(100, 192) * np.float32(1e-2)
    payload = encode_residual(content.tobytes(), base.tobytes(), FLOAT)
    assert decode_residual(payload, base.tobytes(), FLOAT) == content.tobytes()
    touched = encode_residual(content[::10].tobytes(), base[::10].tobytes(), FLOAT)
    assert len(payload) < len(touched) + base.size * 0.5 / 8


def test_estimates_are_near_the_size():
    content = weights(500_000)
    base = content + weights(500_000, 1) * np.float32(1e-4)
    near = len(encode_residual(content.tobytes(), base.tobytes(), FLOAT))
    alone = len(encode_planes_rans(content.tobytes(), FLOAT))
    assert abs(estimate_residual(content.tobytes(), base.tobytes(), FLOAT) / near - 1) < 0.02
    assert abs(estimate_planes(content.tobytes(), FLOAT) / alone - 1) < 0.02
    assert estimate_planes(content[:1000].tobytes(), FLOAT) == len(
        encode_planes_rans(content[:1000].tobytes(), FLOAT)
    )


def test_worked_bytes_stand_on_the_page():
    payloads = [
        encode_residual(FOUR, FOUR_BASE, FLOAT),
        encode_residual((COUNT + 1).tobytes(), COUNT.tobytes(), INTEGER),
        encode_planes_rans(PAIRS, FLOAT),
        encode_planes_rans(FOUR, FLOAT),
    ]
    page = PAGE.read_text()
    assert all(f"`{payload.hex(' ')}`" in page for payload in payloads)


def samples():
    """Small payloads with every field in use: how to decode one, and it."""
    near = weights(90, 1)
    content = near + weights(90, 2) * np.float32(1e-3)
    content[7] = 1e30
    for element, chunk, base in (
        (FLOAT, content.tobytes(), near.tobytes()),
        (BFLOAT, bfloat16(content).tobytes(), bfloat16(near).tobytes()),
        (ElementFormat(8, True), content.astype("<f8").tobytes(), (near.astype("<f8") * 1.1).tobytes()),
        (BYTE, bytes(90), bytes(range(90))),
    ):
        yield lambda p, b=base, e=element: decode_residual(p, b, e), encode_residual(chunk, base, element)
    for element, chunk in ((FLOAT, PAIRS), (BYTE, PAIRS), (BFLOAT, bytes(60) + PAIRS)):
        payload = encode_planes_rans(chunk, element)
        yield lambda p, c=chunk, e=element: decode_planes_rans(p, len(c), e), payload


@pytest.mark.parametrize("sample", list(samples()))
def test_a_truncated_or_longer_payload_is_corruption(sample):
    decode, payload = sample
    for end in range(len(payload)):
        if end == 0 and payload[0] > 2:
            continue  # no bytes are a payload near a base: nothing changed
        with suppress(CorruptionError):
            decode(payload[:end])
            assert end == 0
    with pytest.raises(CorruptionError):
        decode(bytes(payload) + b"\0")


@pytest.mark.parametrize("sample", list(samples()))
def test_a_flipped_bit_is_corruption_or_other_bytes_of_the_same_length(sample):
    decode, payload = sample
    length = len(decode(payload))
    for bit in range(8 * len(payload)):
        flipped = bytearray(payload)
        flipped[bit // 8] ^= 1 << bit % 8
        with suppress(CorruptionError):
            assert len(decode(flipped)) == length


@given(st.binary(max_size=80), st.sampled_from(FORMATS), st.integers(0, 40))
def test_arbitrary_bytes_are_corruption_or_bytes_of_the_expected_length(payload, element, count):
    base = bytes(count * element.width)
    with suppress(CorruptionError):
        assert len(decode_residual(payload, base, element)) == len(base)
    with suppress(CorruptionError):
        assert len(decode_planes_rans(payload, len(base), element)) == len(base)


def test_what_cannot_be_encoded_is_a_usage_error():
    for encode in (
        lambda: encode_residual(bytes(8), bytes(4), FLOAT),
        lambda: encode_residual(bytes(7), bytes(7), FLOAT),
        lambda: encode_planes_rans(bytes(7), FLOAT),
        lambda: encode_planes_rans(bytes(2**23 + 1), BYTE),
    ):
        with pytest.raises(UsageError):
            encode()
