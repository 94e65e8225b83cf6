"""The chosen encoding is the smallest, comes back, and is never larger than the chunk."""

import numpy as np
import pytest

from mvcs.delta import ElementFormat, Encoding, choose_codes, choose_exact, choose_opaque, decode

CODE = ElementFormat(1, floating=False)
FLOAT = ElementFormat(4, floating=True)


def weights(count, seed=0):
    return (np.random.default_rng(seed).standard_normal(count) * 0.02).astype(np.float32)


@pytest.mark.parametrize("count", [3000, 500_000])
def test_weights_alone_are_planes_and_near_a_base_a_residual(count):
    content = weights(count)
    base = content + weights(count, 1) * np.float32(1e-4)
    other = weights(count, 2)
    for near, expected, gain in (
        (None, Encoding.RANS_PLANES, 1.18),
        (base, Encoding.RANS_RESIDUAL, 1.5),
        (other, Encoding.RANS_PLANES, 1.18),
    ):
        encoding, payload = choose_exact(content.tobytes(), FLOAT, None if near is None else near.tobytes())
        assert encoding == expected
        assert content.nbytes / len(payload) > gain
        back = decode(encoding, payload, lengths=[content.nbytes], element=FLOAT, base=near)
        assert back == content.tobytes()


@pytest.mark.parametrize("size", [0, 4, 40, 400_000])
def test_noise_stays_raw(size):
    noise = np.random.default_rng(0).bytes(size)
    assert choose_exact(noise, FLOAT, None) == (Encoding.RAW, noise)
    assert choose_exact(noise, FLOAT, noise[::-1]) == (Encoding.RAW, noise)
    assert choose_opaque(noise) == (Encoding.RAW, noise)


def test_long_repeats_are_left_to_zstd():
    content = np.tile(weights(5000), 60)
    encoding, payload = choose_exact(content.tobytes(), FLOAT, None)
    assert encoding is Encoding.PLANES
    assert len(payload) < content.nbytes // 20
    assert decode(encoding, payload, lengths=[content.nbytes], element=FLOAT) == content.tobytes()


def test_a_base_of_another_length_is_no_base():
    content = weights(1000).tobytes()
    assert choose_exact(content, FLOAT, content[:-4]) == choose_exact(content, FLOAT, None)


def test_an_unchanged_chunk_is_small():
    content = weights(100_000).tobytes()
    encoding, payload = choose_exact(content, FLOAT, content)
    assert (encoding, payload) == (Encoding.RANS_RESIDUAL, b"")


def test_codes_go_near_a_base_when_that_is_smaller():
    base = np.random.default_rng(0).integers(0, 16, 10_000, np.uint8)
    codes = base.copy()
    codes[:50] ^= 1
    other = np.random.default_rng(1).integers(0, 12, 10_000, np.uint8)
    assert choose_codes(codes, 16, base)[0] is Encoding.DELTA
    assert choose_codes(codes, 16, other)[0] is Encoding.CODES
    assert choose_codes(codes, 16, None)[0] is Encoding.CODES
    assert choose_codes(codes, 16, base[:-1])[0] is Encoding.CODES


@pytest.mark.parametrize(("levels", "base_levels"), [(5, 16), (16, 5), (256, 1)])
def test_level_counts_may_differ(levels, base_levels):
    random = np.random.default_rng(0)
    base = random.integers(0, base_levels, 5000).astype(np.uint8)
    codes = (base.astype(int) * levels // base_levels).astype(np.uint8)
    encoding, payload = choose_codes(codes, levels, base)
    assert decode(encoding, payload, lengths=[5000], element=CODE, base=base) == codes.tobytes()
    if base_levels > 1:
        assert encoding is Encoding.DELTA


def test_few_codes_are_never_larger_than_raw():
    assert choose_codes(b"\x01\x02", 4, None) == (Encoding.RAW, b"\x01\x02")
    assert choose_codes(b"", 4, b"") == (Encoding.RAW, b"")


def test_text_is_compressed():
    text = b"a tree holds leaves, a leaf holds a tensor. " * 40
    encoding, payload = choose_opaque(text)
    assert encoding is Encoding.ZSTD
    assert len(payload) < len(text) // 5
    assert decode(encoding, payload, lengths=[len(text)], element=CODE) == text
