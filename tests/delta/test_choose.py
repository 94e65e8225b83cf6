"""The chosen encoding is the smallest, comes back, and is never larger than the chunk."""

import numpy as np
import pytest

from mvcs.delta import (
    CodeChunks,
    ElementFormat,
    Encoding,
    choose_codes,
    choose_exact,
    choose_opaque,
    decode,
    encode,
)
from mvcs.delta.rans import rescale_codes

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
    assert encoding is Encoding.ZSTD
    assert len(payload) < content.nbytes // 20
    assert decode(encoding, payload, lengths=[content.nbytes], element=FLOAT) == content.tobytes()


def test_a_base_of_another_length_is_no_base():
    content = weights(1000).tobytes()
    assert choose_exact(content, FLOAT, content[:-4]) == choose_exact(content, FLOAT, None)


def test_an_unchanged_chunk_is_small():
    content = weights(100_000).tobytes()
    encoding, payload = choose_exact(content, FLOAT, content)
    assert (encoding, payload) == (Encoding.RANS_RESIDUAL, b"")


def chosen(codes, levels, base=None, width=1, steps=None):
    """The choice for codes in one chunk, after reading it back."""
    chunks = CodeChunks(codes, width, [len(codes)], levels, base, steps)
    encoding, payload = choose_codes(chunks)
    element = ElementFormat(width, floating=False)
    assert decode(encoding, payload, lengths=[len(codes)], element=element, base=base) == bytes(codes)
    return encoding, len(payload)


def test_codes_go_near_a_base_when_that_is_smaller():
    base = np.random.default_rng(0).integers(0, 16, 10_000, np.uint8)
    codes = base.copy()
    codes[:50] ^= 1
    other = np.random.default_rng(1).integers(0, 12, 10_000, np.uint8).tobytes()
    near = (Encoding.DELTA, Encoding.RANS_DELTA)
    assert chosen(codes.tobytes(), 16, base.tobytes())[0] in near
    assert chosen(codes.tobytes(), 16, other)[0] not in near
    assert chosen(codes.tobytes(), 16)[0] not in near


@pytest.mark.parametrize(("levels", "base_levels"), [(5, 16), (16, 5), (256, 1)])
def test_level_counts_may_differ(levels, base_levels):
    random = np.random.default_rng(0)
    base = random.integers(0, base_levels, 5000).astype(np.uint8)
    codes = (base.astype(int) * levels // base_levels).astype(np.uint8)
    encoding, _ = chosen(codes.tobytes(), levels, base.tobytes())
    if base_levels > 1:
        assert encoding in {Encoding.DELTA, Encoding.RANS_DELTA}


@pytest.mark.parametrize("count", [10, 300, 20_000, 400_000])
@pytest.mark.parametrize("moved", [0.0, 0.002, 0.1, 1.0, "in rows"])
def test_codes_are_never_larger_than_published(count, moved):
    random = np.random.default_rng(count)
    base = np.clip(random.standard_normal(count) * 2 + 8, 0, 15).astype(np.uint8)
    moves = np.arange(count) // 64 % 20 == 0 if moved == "in rows" else random.random(count) < moved
    codes = (base + moves * random.integers(1, 3, count) % 16).astype(np.uint8).tobytes()
    published = [
        len(encode(encoding, codes, element=CODE, base=base.tobytes(), levels=18))
        for encoding in (Encoding.CODES, Encoding.DELTA)
    ]
    assert chosen(codes, 18, base.tobytes())[1] <= min(published)


@pytest.mark.parametrize("steps", [(240, 240), (240, 241), (244, 240)])
def test_lattice_codes_are_near_codes_of_another_step(steps):
    """The members keep their steps also in the sample by which the encoding is chosen."""
    random = np.random.default_rng(0)
    lengths, contents, bases, pairs = [], [], [], []
    for pair in (steps, (240, 240), steps):
        count = int(random.integers(20_000, 60_000))
        old = (random.standard_normal(count) * 3).astype("<i2")
        new = rescale_codes(old, *pair)
        new[random.random(count) < 0.05] += 1
        lengths.append(2 * count)
        contents.append(new.tobytes())
        bases.append(old.tobytes())
        pairs.append(pair)
    chunks = CodeChunks(b"".join(contents), 2, lengths, 256, b"".join(bases), pairs)
    encoding, payload = choose_codes(chunks)
    assert encoding is Encoding.RANS_DELTA
    assert len(payload) < sum(lengths) // 2 / 8 * 0.45
    element = ElementFormat(2, floating=False)
    restored = decode(encoding, payload, lengths=lengths, element=element, base=b"".join(bases))
    assert restored == b"".join(contents)
    assert choose_codes(CodeChunks(contents[0], 2, lengths[:1]))[0] is Encoding.RANS_CODES


def test_few_codes_are_never_larger_than_raw():
    assert chosen(b"\x01\x02", 4)[1] <= 2
    assert chosen(b"", 4, b"")[1] == 0


def test_text_is_compressed():
    text = b"a tree holds leaves, a leaf holds a tensor. " * 40
    encoding, payload = choose_opaque(text)
    assert encoding is Encoding.ZSTD
    assert len(payload) < len(text) // 5
    assert decode(encoding, payload, lengths=[len(text)], element=CODE) == text
