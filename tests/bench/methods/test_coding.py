"""The coders that methods share: what goes in comes out, and bytes worked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvcs.bench.methods import coding


@given(st.integers(1, 16), st.lists(st.integers(0, 65535), max_size=50))
def test_whole_bits_give_their_codes_back(width: int, codes: list[int]) -> None:
    found = np.array(codes, np.uint16) & ((1 << width) - 1)
    packed = coding.to_bits(found, width)
    assert len(packed) == -(-width * len(codes) // 8)
    assert np.array_equal(coding.from_bits(packed, width, len(codes)), found)


def test_bits_begin_with_the_high_one() -> None:
    assert coding.to_bits(np.array([5, 1, 7]), 3) == bytes([0b10100111, 0b10000000])


def test_lzma_is_not_read_past_its_size() -> None:
    with pytest.raises(ValueError, match="instead of"):
        coding.decompressed(coding.compressed(bytes(1000)), 999)
