"""What a writer does not choose among is not written, and whatever is written comes back."""

import numpy as np
import pytest

from mvcs.delta import CodeChunks, ElementFormat, Encoding, choose_codes, choose_exact, decode
from mvcs.delta.exact import decode_residual, encode_residual
from mvcs.delta.settings import ALL_ENCODINGS, EncoderSettings

CODE, PAIR, FLOAT = (
    ElementFormat(1, floating=False),
    ElementFormat(2, floating=False),
    ElementFormat(4, floating=True),
)


def weights(count, seed=0):
    return (np.random.default_rng(seed).standard_normal(count) * 0.02).astype(np.float32)


def rounded(values):
    """Values of bfloat16 in float32: 16 low bits are zero."""
    return (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def written(content, base, **left_out):
    """Return the encoding and payload of floats near others, once it is clear that they come back."""
    settings = EncoderSettings(**left_out)
    near = None if base is None else base.tobytes()
    encoding, payload = choose_exact(content.tobytes(), FLOAT, near, settings)
    back = decode(encoding, payload, lengths=[content.nbytes], element=FLOAT, base=near)
    assert back == content.tobytes()
    return encoding, bytes(payload)


def test_without_zero_bits_all_bits_of_a_word_are_coded():
    base = rounded(weights(4000))
    content = rounded(base * np.float32(1.01)).tobytes()
    base = base.tobytes()
    short, long = (
        bytes(encode_residual(content, base, FLOAT, EncoderSettings(zero_bits=bits)))
        for bits in (True, False)
    )
    assert (short[0], long[0]) == (16, 0)
    assert len(short) < len(long)
    assert decode_residual(long, base, FLOAT) == content
    assert written(np.frombuffer(content, "<f4"), np.frombuffer(base, "<f4"), zero_bits=False)


@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize("levels", [5, 256])
def test_codes_by_huffman_alone_are_as_published(near, levels):
    rng = np.random.default_rng(0)
    base = np.minimum(rng.geometric(0.3, 60_000), levels - 1).astype(np.uint8)
    codes = np.where(rng.random(base.size) < 0.1, rng.permutation(base), base)
    chunks = CodeChunks(codes.tobytes(), 1, [codes.size], levels, base.tobytes() if near else None)
    for settings, expected in (
        (ALL_ENCODINGS, Encoding.RANS_DELTA if near else Encoding.RANS_CODES),
        (EncoderSettings("huffman"), Encoding.DELTA if near else Encoding.CODES),
    ):
        encoding, payload = choose_codes(chunks, settings)
        assert encoding is expected
        back = decode(encoding, payload, lengths=[codes.size], element=CODE, base=chunks.base)
        assert back == codes.tobytes()


def test_codes_that_no_huffman_coder_makes_smaller_are_raw():
    noise = np.random.default_rng(0).bytes(5000)
    assert choose_codes(CodeChunks(noise, 1, [5000]), EncoderSettings("huffman")) == (Encoding.RAW, noise)


def test_codes_of_two_bytes_keep_their_coder():
    codes = np.random.default_rng(0).geometric(0.5, 5000).astype("<i2").tobytes()
    chunks = CodeChunks(codes, 2, [len(codes)])
    assert choose_codes(chunks, EncoderSettings("huffman")) == choose_codes(chunks)


@pytest.mark.parametrize("count", [40, 5000])
def test_moves_that_are_no_smaller_than_the_codes_are_never_chosen(count):
    """Mode 3 of moves, and 7, which has steps before it: RAW holds the same codes in fewer bytes."""
    codes, base = (np.random.default_rng(seed).integers(-32000, 32000, count, "<i2") for seed in (0, 1))
    chunks = CodeChunks(codes.tobytes(), 2, [2 * count], base=base.tobytes(), steps=[(240, 241)])
    assert bytes(chunks.encode(Encoding.RANS_DELTA))[0] == 7
    assert choose_codes(chunks) == (Encoding.RAW, codes.tobytes())
