"""The coder of codes can be chosen, and whatever it writes comes back."""

import numpy as np
import pytest

from mvcs.delta import CodeChunks, ElementFormat, Encoding, choose_codes, decode
from mvcs.errors import CorruptionError, UnsupportedFormatError

CODE = ElementFormat(1, floating=False)


@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize("levels", [5, 256])
def test_codes_by_huffman_alone_are_as_published(near, levels):
    rng = np.random.default_rng(0)
    base = np.minimum(rng.geometric(0.3, 60_000), levels - 1).astype(np.uint8)
    codes = np.where(rng.random(base.size) < 0.1, rng.permutation(base), base)
    chunks = CodeChunks(codes.tobytes(), 1, [codes.size], levels, base.tobytes() if near else None)
    for coder, expected in (
        ("auto", Encoding.RANS_DELTA if near else Encoding.RANS_CODES),
        ("huffman", Encoding.DELTA if near else Encoding.CODES),
    ):
        encoding, payload = choose_codes(chunks, coder)
        assert encoding is expected
        back = decode(encoding, payload, lengths=[codes.size], element=CODE, base=chunks.base)
        assert back == codes.tobytes()


def test_codes_that_no_huffman_coder_makes_smaller_are_raw():
    noise = np.random.default_rng(0).bytes(5000)
    assert choose_codes(CodeChunks(noise, 1, [5000]), "huffman") == (Encoding.RAW, noise)


def test_codes_of_two_bytes_keep_their_coder():
    codes = np.random.default_rng(0).geometric(0.5, 5000).astype("<i2").tobytes()
    chunks = CodeChunks(codes, 2, [len(codes)])
    assert choose_codes(chunks, "huffman") == choose_codes(chunks)


@pytest.mark.parametrize("count", [40, 5000])
def test_moves_that_are_no_smaller_than_the_codes_are_never_chosen(count):
    codes, base = (np.random.default_rng(seed).integers(-32000, 32000, count, "<i2") for seed in (0, 1))
    chunks = CodeChunks(codes.tobytes(), 2, [2 * count], base=base.tobytes(), steps=[(240, 241)])
    moves = chunks.encode(Encoding.RANS_DELTA)
    assert len(moves) > codes.nbytes
    wide = ElementFormat(2, floating=False)
    back = decode(Encoding.RANS_DELTA, moves, lengths=[codes.nbytes], element=wide, base=base.tobytes())
    assert back == codes.tobytes()
    assert choose_codes(chunks) == (Encoding.RAW, codes.tobytes())


@pytest.mark.parametrize("mode", [1, 3, 5, 7])
def test_reserved_modes_of_moves_are_a_newer_format(mode):
    codes = np.arange(4, dtype="<i2").tobytes()
    payload = bytes([mode]) + (b"\0" if mode > 4 else b"") + codes
    with pytest.raises(UnsupportedFormatError, match=f"unknown mode {mode}"):
        decode(
            Encoding.RANS_DELTA, payload, lengths=[8], element=ElementFormat(2, floating=False), base=bytes(8)
        )


@pytest.mark.parametrize("encoding", [Encoding.CODES, Encoding.DELTA])
def test_codes_by_huffman_are_bytes(encoding):
    with pytest.raises(CorruptionError, match="wider than the encoding's"):
        decode(encoding, b"\0\0", lengths=[4], element=ElementFormat(2, floating=False), base=bytes(4))


@pytest.mark.parametrize("mode", [8, 11, 255])
def test_modes_that_cannot_be_are_corruption(mode):
    with pytest.raises(CorruptionError):
        decode(Encoding.RANS_DELTA, bytes([mode]), lengths=[4], element=CODE, base=bytes(4))
