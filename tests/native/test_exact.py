"""The exact coders: at every level the same bytes as the readable twin, which refuses the same."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mvcs_native
from tests.native.once import once
from tests.reference import exact
from tests.reference.rans_tables import MalformedError

WIDTHS = st.sampled_from([1, 2, 4, 8])
LEVELS = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
encode_residual, encode_planes = once(exact.encode_residual), once(exact.encode_planes)
decode_residual, decode_planes = once(exact.decode_residual), once(exact.decode_planes)


def as_bytes(content):
    return np.frombuffer(content, np.uint8)


def native_residual(payload, base, width, floating):
    out = np.empty(len(base), np.uint8)
    mvcs_native.decode_residual(as_bytes(payload), as_bytes(base), width, floating, out)
    return out.tobytes()


def native_planes(payload, length, width, floating):
    out = np.empty(length, np.uint8)
    mvcs_native.decode_planes(as_bytes(payload), width, floating, out)
    return out.tobytes()


def outcome(decode, *arguments):
    """What was decoded, or None where the payload was refused."""
    try:
        return decode(*arguments)
    except ValueError:
        return None


@st.composite
def words_near_a_base(draw):
    """Width, floating, content, base: moves of every size, perhaps words with zero low bits."""
    width, floating = draw(WIDTHS), draw(st.booleans())
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.sampled_from([1, 2, 30, 65, 1024, 1300, 4200]))
    base = random.integers(0, 256, count * width, np.uint8).view(f"<u{width}")
    if draw(st.booleans()):
        base[:] = base[0]
    longest = random.integers(1, 8 * width + 1, count)
    moves = random.integers(0, 2**64, count, np.uint64) >> (64 - longest).astype(np.uint64)
    moves[random.random(count) < draw(st.sampled_from([0.0, 0.5, 0.999]))] = 0
    moves[random.random(count // 64 + 1).repeat(64)[:count] < draw(st.sampled_from([0.0, 0.5, 0.9]))] = 0
    content = base + np.where(random.random(count) < 0.5, -moves, moves).astype(base.dtype)
    spare = np.array(draw(st.sampled_from([0, 0, 1, 8 * width - 1])), base.dtype)
    return width, floating, (content >> spare << spare).tobytes(), base.tobytes()


@pytest.mark.usefixtures("level")
@LEVELS
@given(words_near_a_base())
def test_residuals_are_the_twins_bytes_and_come_back(chunk):
    width, floating, content, base = chunk
    payload = mvcs_native.encode_residual(as_bytes(content), as_bytes(base), width, floating).tobytes()
    assert payload == encode_residual(content, base, width, floating)
    assert native_residual(payload, base, width, floating) == content
    if len(base) < 500:
        assert decode_residual(payload, base, width, floating) == content


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("change", [0, 1e-3])
def test_residuals_are_decoded_in_place_of_their_base(change):
    random = np.random.default_rng(0)
    base = random.standard_normal(70_001).astype("<f4")
    content = base + random.standard_normal(base.size).astype("<f4") * np.float32(change)
    out = base.copy().view(np.uint8)
    payload = mvcs_native.encode_residual(content.view(np.uint8), out, 4, True)
    mvcs_native.decode_residual(payload, out, 4, True, out)
    assert out.tobytes() == content.tobytes()


@st.composite
def words_alone(draw):
    """Width, floating, content: each plane noise, constant, or skewed differently in different places."""
    width, floating = draw(WIDTHS), draw(st.booleans())
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.sampled_from([0, 1, 2, 30, 257, 2000, 5000]))
    planes = []
    for _ in range(width):
        kind = draw(st.integers(0, 3))
        center = np.repeat(random.integers(0, 200, count // 700 + 1), 700)[:count]
        skewed = (center + random.geometric(0.4, count)).astype(np.uint8)
        noise = random.integers(0, 256, count, np.uint8)
        planes.append((noise, np.full(count, 7, np.uint8), skewed, np.sort(skewed))[kind])
    return width, floating, np.stack(planes, axis=1).tobytes()


@pytest.mark.usefixtures("level")
@LEVELS
@given(words_alone())
def test_planes_are_the_twins_bytes_and_come_back(chunk):
    width, floating, content = chunk
    payload = mvcs_native.encode_planes(as_bytes(content), width, floating).tobytes()
    assert payload == encode_planes(content, width, floating)
    assert native_planes(payload, len(content), width, floating) == content
    if len(content) < 1000:
        assert decode_planes(payload, len(content), width, floating) == content


@pytest.mark.usefixtures("level")
def test_pieces_and_blocks_have_the_twins_tables():
    """More than one piece of 2^16 words, whose second has other moves; the last block is short."""
    random = np.random.default_rng(0)
    base = random.integers(60, 64, 2**16 + 4000, np.uint8)
    moves = random.integers(0, np.where(np.arange(base.size) < 2**16, 2, 9))
    content = (base + moves).astype(np.uint8).tobytes()
    payload = mvcs_native.encode_residual(as_bytes(content), base, 1, False).tobytes()
    assert payload == encode_residual(content, base.tobytes(), 1, False)
    assert native_residual(payload, base.tobytes(), 1, False) == content
    assert decode_residual(payload, base.tobytes(), 1, False) == content
    planes = mvcs_native.encode_planes(as_bytes(content[-9000:]), 1, False).tobytes()
    assert planes == encode_planes(content[-9000:], 1, False)
    assert native_planes(planes, 9000, 1, False) == decode_planes(planes, 9000, 1, False) == content[-9000:]


def test_every_level_writes_the_same_bytes_of_a_large_chunk():
    random = np.random.default_rng(0)
    base = random.standard_normal(300_000).astype("<f4")
    base[::1000] = np.nan
    content = base + random.standard_normal(base.size).astype("<f4") * np.float32(1e-3)
    content[5::777] = np.float32(1e-42)
    written = set()
    for name in mvcs_native.levels():
        before = mvcs_native.level()
        mvcs_native.use_level(name)
        arrays = content.view(np.uint8), base.view(np.uint8)
        payload = mvcs_native.encode_residual(*arrays, 4, True).tobytes()
        planes = mvcs_native.encode_planes(arrays[0], 4, True).tobytes()
        assert native_residual(payload, base.tobytes(), 4, True) == content.tobytes()
        assert native_planes(planes, content.nbytes, 4, True) == content.tobytes()
        written.add((payload, planes))
        mvcs_native.use_level(before)
    assert len(written) == 1


def damaged(payload):
    """Every truncation, one byte more, every flipped bit."""
    yield from (payload[:end] for end in range(len(payload)))
    yield payload + b"\0"
    for bit in range(len(payload) * 8):
        flipped = bytearray(payload)
        flipped[bit // 8] ^= 128 >> bit % 8
        yield bytes(flipped)


def twin_outcome(decode, *arguments):
    try:
        return decode(*arguments)
    except MalformedError:
        return None


@pytest.mark.parametrize(("width", "floating"), [(1, False), (2, True), (4, True), (4, False), (8, True)])
def test_damaged_residuals_are_refused_or_decode_as_the_twin_does(width, floating):
    base = bytes((i * i * 41 >> 3) % 256 for i in range(20 * width))
    content = bytearray(base)
    content[::width] = bytes((b + i % 5) % 256 for i, b in enumerate(base[::width]))
    content[-1] ^= 0x55
    payload = mvcs_native.encode_residual(as_bytes(bytes(content)), as_bytes(base), width, floating).tobytes()
    for broken in damaged(payload):
        expected = twin_outcome(exact.decode_residual, broken, base, width, floating)
        assert outcome(native_residual, broken, base, width, floating) == expected


@pytest.mark.parametrize("width", [1, 2, 4])
def test_damaged_planes_are_refused_or_decode_as_the_twin_does(width):
    content = bytes([1, 2, 1, 3, 1, 1] * 16)
    payload = mvcs_native.encode_planes(as_bytes(content), width, True).tobytes()
    for broken in damaged(payload):
        expected = twin_outcome(exact.decode_planes, broken, len(content), width, True)
        assert outcome(native_planes, broken, len(content), width, True) == expected


@settings(max_examples=100)
@given(st.binary(max_size=60), WIDTHS, st.booleans(), st.integers(0, 70))
def test_arbitrary_bytes_are_refused_or_decode_as_the_twin_does(payload, width, floating, count):
    base = bytes(range(256))[: count * width] if count * width <= 256 else bytes(count * width)
    expected = twin_outcome(exact.decode_residual, payload, base, width, floating)
    assert outcome(native_residual, payload, base, width, floating) == expected
    expected = twin_outcome(exact.decode_planes, payload, len(base), width, floating)
    assert outcome(native_planes, payload, len(base), width, floating) == expected


@pytest.mark.parametrize(
    "arguments",
    [(3, True, 12, 12), (4, True, 12, 8), (4, True, 10, 10), (16, False, 16, 16), (0, False, 16, 16)],
)
def test_broken_contracts_are_refused(arguments):
    width, floating, size, base_size = arguments
    content, base = np.zeros(size, np.uint8), np.ones(base_size, np.uint8)
    with pytest.raises(ValueError, match=r"word|length"):
        mvcs_native.encode_residual(content, base, width, floating)
    with pytest.raises(ValueError, match=r"word|length"):
        mvcs_native.decode_residual(content, base, width, floating, content.copy())
