"""Every encoding gives back what it was given, and refuses what it was not."""

import re
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mvcs.delta import ElementFormat, Encoding, decode, encode, encoding_numbered
from mvcs.errors import CorruptionError, UnsupportedFormatError, UsageError

PAGE = Path(__file__).parents[2] / "docs/format/encodings.md"
CODE = ElementFormat(1, floating=False)
FLOAT = ElementFormat(4, floating=True)
FORMATS = [ElementFormat(width, floating) for width in (1, 2, 4, 8, 16) for floating in (False, True)]
EXACT = [
    Encoding.RAW,
    Encoding.ZSTD,
    Encoding.RANS_RESIDUAL,
    Encoding.RANS_PLANES,
    Encoding.ZSTD_DELTA,
]

REFUSED = CorruptionError, UnsupportedFormatError  # the latter where a mode is reserved

# What does not look at elements is asked of one kind of them in the quick suite.
ELEMENTS = [Encoding.RANS_RESIDUAL, Encoding.RANS_PLANES]
CHUNKS = [
    pytest.param(encoding, element, id=f"{encoding.name}-{element}", marks=() if wanted else pytest.mark.slow)
    for encoding in EXACT
    for element in FORMATS
    for wanted in [encoding in ELEMENTS or element == FLOAT]
]

WORKED_CODES = [
    ([0] * 9, 4),
    ([3] * 9, 4),
    ([0, 1, 2, 3, 4, 3, 2, 1], 5),
    ([0, 1, 0, 2, 0, 1, 0, 0] * 6, 256),
    ([0] * 50 + [2] + [0] * 70 + [1, 1] + [0] * 31, 3),
]
WORKED_BASE = bytes([0, 1, 2, 3] * 8)
WORKED_NEAR = bytes([0, 0, 3, 3] + [0, 1, 3, 3] * 7)
WORKED_TEXT_BASE = b"a tree holds leaves, a leaf holds a tensor"
WORKED_TEXT = b"a tree holds leaves, a leaf holds no one"
WORKED_FLOATS = struct.pack("<4f", 1, -2, 1.5, 0.5)
WORKED_FLOATS_BASE = WORKED_FLOATS[:4] + b"\x01" + WORKED_FLOATS[5:]


def on_page(payload):
    return f"`{payload.hex(' ')}`" in PAGE.read_text()


@pytest.mark.parametrize(("encoding", "element"), CHUNKS)
@given(data=st.data(), count=st.integers(0, 400))
def test_exact_chunks_come_back(encoding, element, data, count):
    size = count * element.width
    content = data.draw(
        hnp.arrays(np.uint8, size, elements=st.integers(0, 255), fill=st.integers(0, 255))
    ).tobytes()
    base = data.draw(
        hnp.arrays(np.uint8, size, elements=st.integers(0, 255), fill=st.integers(0, 255))
    ).tobytes()
    payload = encode(encoding, content, element=element, base=base)
    assert decode(encoding, payload, lengths=[size], element=element, base=base) == content


SPECIAL = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 5e-324, -5e-324, 1.7e308]


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", "<c8", "<c16"])
def test_special_floats_come_back_bit_for_bit(dtype):
    with np.errstate(all="ignore"):
        content = np.array(SPECIAL * 3, dtype)
        base = np.roll(content, 4)
    payload_nan = content.view(np.uint8)
    payload_nan[-content.itemsize :] = 0xFF  # a NaN with a payload of its own
    element = ElementFormat.of(content.itemsize, "complex" if "c" in dtype else "float")
    for encoding in EXACT:
        payload = encode(encoding, content.tobytes(), element=element, base=base.tobytes())
        restored = decode(encoding, payload, lengths=[content.nbytes], element=element, base=base.tobytes())
        assert restored == content.tobytes()


@given(st.integers(1, 256), st.data())
def test_codes_come_back_alone_and_near_a_base(levels, data):
    codes, base = (
        bytes(data.draw(st.lists(st.integers(0, levels - 1), min_size=50, max_size=50))) for _ in range(2)
    )
    for encoding in (Encoding.CODES, Encoding.DELTA, Encoding.RANS_CODES, Encoding.RANS_DELTA):
        payload = encode(encoding, codes, element=CODE, base=base, levels=levels)
        assert decode(encoding, payload, lengths=[50], element=CODE, base=base) == codes


@pytest.mark.parametrize(("codes", "levels"), WORKED_CODES)
def test_worked_codes_stand_on_the_page(codes, levels):
    assert on_page(encode(Encoding.CODES, bytes(codes), element=CODE, levels=levels))


def test_worked_examples_stand_on_the_page():
    delta = encode(Encoding.DELTA, WORKED_NEAR, element=CODE, base=WORKED_BASE, levels=4)
    planes = encode(Encoding.RANS_PLANES, WORKED_FLOATS, element=FLOAT)
    residual = encode(Encoding.RANS_RESIDUAL, WORKED_FLOATS, element=FLOAT, base=WORKED_FLOATS_BASE)
    assert all(map(on_page, (WORKED_FLOATS, delta, planes, residual)))


def test_the_frame_near_a_base_on_the_page_is_the_text_beside_it():
    part = PAGE.read_text().partition("## ZSTD_DELTA")[2].partition("## NARROWED")[0]
    text, base, frame = re.findall(r"^`(a tree.*?)` near `(.*?)` may be\n\n`(.*?)`", part, re.MULTILINE)[0]
    payload = bytes.fromhex(frame)
    restored = decode(Encoding.ZSTD_DELTA, payload, lengths=[len(text)], element=CODE, base=base.encode())
    assert restored == text.encode()
    assert len(encode(Encoding.ZSTD_DELTA, restored, element=CODE, base=base.encode())) < len(text)


def test_nothing_changed_costs_a_byte():
    base = np.random.default_rng(0).integers(0, 16, 100_000, np.uint8)
    assert encode(Encoding.DELTA, base, element=CODE, base=base, levels=16) == b"\x0f"


def samples():
    """A payload of each encoding and plane mode: encoding, payload, length, element, base."""
    smooth = np.linspace(1, 1.001, 300, dtype=np.float32)
    near = (smooth + np.float32(1e-6)).tobytes()
    yield Encoding.RAW, b"abcd", 4, FLOAT, None
    yield Encoding.ZSTD, encode(Encoding.ZSTD, b"abcd" * 20, element=CODE), 80, CODE, None
    delta = encode(Encoding.ZSTD_DELTA, WORKED_TEXT, element=CODE, base=WORKED_TEXT_BASE)
    yield Encoding.ZSTD_DELTA, delta, len(WORKED_TEXT), CODE, WORKED_TEXT_BASE
    yield Encoding.NARROWED, b"\1", 600, ElementFormat(2, floating=True), smooth.tobytes()
    yield (
        Encoding.RANS_PLANES,
        encode(Encoding.RANS_PLANES, smooth.tobytes(), element=FLOAT),
        1200,
        FLOAT,
        None,
    )
    yield (
        Encoding.RANS_RESIDUAL,
        encode(Encoding.RANS_RESIDUAL, smooth.tobytes(), element=FLOAT, base=near),
        1200,
        FLOAT,
        near,
    )
    for codes, levels in WORKED_CODES:
        payload = encode(Encoding.CODES, bytes(codes), element=CODE, levels=levels)
        yield Encoding.CODES, payload, len(codes), CODE, None
    for encoding in (Encoding.DELTA, Encoding.RANS_DELTA):
        delta = encode(encoding, WORKED_NEAR, element=CODE, base=WORKED_BASE, levels=4)
        yield encoding, delta, len(WORKED_BASE), CODE, WORKED_BASE
    lattice = np.array([0, 1, -1, 300, -2, 0] * 9, "<i2").tobytes()
    wide = ElementFormat(2, floating=False)
    yield Encoding.RANS_CODES, encode(Encoding.RANS_CODES, lattice, element=wide), len(lattice), wide, None


@pytest.mark.parametrize("sample", list(samples()), ids=lambda s: s[0].name)
def test_a_truncated_or_longer_payload_is_corruption(sample):
    encoding, payload, length, element, base = sample
    for end in range(len(payload)):
        if (encoding, end) in {(Encoding.DELTA, 1), (Encoding.RANS_RESIDUAL, 0)}:
            continue  # a payload that says that nothing changed
        with pytest.raises(CorruptionError):
            decode(encoding, payload[:end], lengths=[length], element=element, base=base)
    with pytest.raises(CorruptionError):
        decode(encoding, bytes(payload) + b"\0", lengths=[length], element=element, base=base)


@pytest.mark.parametrize("sample", list(samples()), ids=lambda s: s[0].name)
def test_a_flipped_bit_is_refused_or_other_bytes_of_the_same_length(sample):
    encoding, payload, length, element, base = sample
    for bit in range(8 * len(payload)):
        flipped = bytearray(payload)
        flipped[bit // 8] ^= 1 << bit % 8
        with suppress(*REFUSED):
            assert len(decode(encoding, flipped, lengths=[length], element=element, base=base)) == length


@pytest.mark.parametrize("encoding", Encoding, ids=lambda e: e.name)
@given(payload=st.binary(max_size=60), length=st.integers(0, 40).map(lambda n: 4 * n))
def test_arbitrary_bytes_are_refused_or_bytes_of_the_expected_length(encoding, payload, length):
    base = bytes(2 * length if encoding is Encoding.NARROWED else length)
    with suppress(*REFUSED):
        assert len(decode(encoding, payload, lengths=[length], element=FLOAT, base=base)) == length


def test_a_frame_that_grows_beyond_its_stated_size_is_corruption():
    bomb = bytearray(zstandard.ZstdCompressor(level=1).compress(bytes(2**24)))
    assert bomb[4] == 0x80 | 0x20 or bomb[4] & 0xC0 == 0x80  # the stated size is in four bytes
    at = 5 if bomb[4] & 0x20 else 6
    bomb[at : at + 4] = (1000).to_bytes(4, "little")
    with pytest.raises(CorruptionError):
        decode(Encoding.ZSTD, bomb, lengths=[1000], element=CODE)


def test_a_length_that_is_no_whole_words_is_corruption():
    with pytest.raises(CorruptionError):
        decode(Encoding.RANS_PLANES, b"\1\0\1\0\1\0\1\0", lengths=[6], element=FLOAT)


def test_unknown_numbers_are_a_newer_format():
    assert [encoding_numbered(encoding.value) for encoding in Encoding] == list(Encoding)
    for number in (2, 3, 12, 255, -1):
        with pytest.raises(UnsupportedFormatError):
            encoding_numbered(number)


def test_element_formats_have_numbers():
    assert [ElementFormat.from_number(element.to_number()) for element in FORMATS] == FORMATS
    assert sorted(element.to_number() for element in FORMATS) == [0, 1, 2, 3, 4, 8, 9, 10, 11, 12]
    for number in (5, 7, 13, 16, -1):
        with pytest.raises(UnsupportedFormatError):
            ElementFormat.from_number(number)


@pytest.mark.parametrize(
    "arguments",
    [
        {"encoding": Encoding.RANS_RESIDUAL, "content": bytes(8), "element": FLOAT},
        {"encoding": Encoding.RANS_RESIDUAL, "content": bytes(8), "element": FLOAT, "base": bytes(4)},
        {"encoding": Encoding.RANS_PLANES, "content": bytes(7), "element": FLOAT},
        {"encoding": Encoding.CODES, "content": bytes(8), "element": CODE},
        {"encoding": Encoding.CODES, "content": bytes(8), "element": CODE, "levels": 257},
        {"encoding": Encoding.CODES, "content": b"\x05", "element": CODE, "levels": 5},
        {"encoding": Encoding.DELTA, "content": b"\x04", "element": CODE, "base": b"\x05", "levels": 5},
    ],
)
def test_what_cannot_be_encoded_is_a_usage_error(arguments):
    with pytest.raises(UsageError):
        encode(**arguments)


def test_an_element_has_a_width_that_exists():
    with pytest.raises(UsageError):
        ElementFormat(3, floating=False)


@pytest.mark.parametrize(
    ("encoding", "element"),
    [(Encoding.RANS_DELTA, ElementFormat(2, floating=False)), (Encoding.RANS_RESIDUAL, FLOAT)],
)
def test_a_content_may_take_the_place_of_its_base(encoding, element):
    first, second = (np.arange(400, dtype="<u4") * factor for factor in (1, 3))
    alone = encode(Encoding.RANS_PLANES, first, element=FLOAT)
    base = decode(Encoding.RANS_PLANES, alone, lengths=[1600], element=FLOAT)
    payload = encode(encoding, second, element=element, base=base)
    content = decode(encoding, payload, lengths=[1600], element=element, base=base, overwrite=True)
    assert bytes(content) == bytes(base) == second.tobytes()
