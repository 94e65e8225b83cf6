"""The coders of section 6: what goes in comes out, and bytes worked by hand."""

import struct

import numpy as np
import pytest
from bitarray import bitarray
from hypothesis import given
from hypothesis import strategies as st

from mvcs.inshrinkerator.delta_encoding import (
    CODERS,
    decode_delta,
    delta_size,
    encode_delta,
    huffman,
    huffman_size,
    runs,
    unhuffman,
    unruns,
)

SYMBOLS = st.lists(st.integers(0, 300), max_size=200).map(lambda found: np.array(found, np.int64))


@given(SYMBOLS)
def test_huffman_codes_give_their_symbols_back(symbols: np.ndarray) -> None:
    assert np.array_equal(unhuffman(huffman(symbols), symbols.size), symbols)


@given(SYMBOLS)
def test_run_lengths_give_their_symbols_back(symbols: np.ndarray) -> None:
    assert np.array_equal(unruns(runs(symbols), symbols.size), symbols)


def test_run_lengths_are_positive_and_values_are_not() -> None:
    assert runs(np.array([0, 0, 0, 2, 5, 5, 0])).tolist() == [0, 3, -2, -5, 2, 0]


@pytest.mark.parametrize("tokens", [[3], [0, 2, 2], [0, 9]])
def test_run_lengths_that_say_nothing_are_refused(tokens: list[int]) -> None:
    with pytest.raises(ValueError, match="run"):
        unruns(np.array(tokens), 8)


@given(SYMBOLS)
def test_huffman_sizes_need_no_bytes(symbols: np.ndarray) -> None:
    assert huffman_size(-symbols) == len(huffman(-symbols))


@given(st.data(), st.integers(1, 256), st.sampled_from(CODERS))
def test_codes_come_back(data: st.DataObject, levels: int, coder: str) -> None:
    size = data.draw(st.integers(0, 60))
    drawn = st.lists(st.integers(0, levels - 1), min_size=size, max_size=size)
    codes, before = (np.array(data.draw(drawn), np.uint8) for _ in range(2))
    sections = encode_delta(codes, before, levels, coder)
    assert delta_size(codes, before, levels, coder) == sum(map(len, sections))
    assert np.array_equal(decode_delta(sections, before, levels, coder), codes)


def bits(section: bytes) -> str:
    """The bits behind a table."""
    (table,) = struct.unpack_from("<I", section, 8)
    (count,) = struct.unpack_from("<I", section, 12 + table)
    found = bitarray(section[16 + table :])
    return found.to01()[:count]


BEFORE = np.array([1, 1, 0, 1, 0, 1, 0, 0], np.uint8)
CODES = np.array([1, 1, 1, 1, 2, 1, 0, 2], np.uint8)
# Differences (before - codes) mod 3: 0 0 2 0 1 0 0 1.


def test_huffman_bits_of_differences() -> None:
    (section,) = encode_delta(CODES, BEFORE, 3, "he")
    # 0 five times, 1 twice, 2 once: codes 0, 10, 11.
    assert bits(section) == "00110100010"


def test_run_lengths_of_differences() -> None:
    (section,) = encode_delta(CODES, BEFORE, 3, "rle")
    # 0 twice, 2, 0, 1, 0 twice, 1: tokens 0 2 -2 0 -1 0 2 -1. Three of 0, two of -1 and 2, one of -2.
    assert unhuffman(section, 8).tolist() == [0, 2, -2, 0, -1, 0, 2, -1]
    assert len(bits(section)) == 3 * 1 + 2 * 2 + 2 * 3 + 1 * 3


def test_run_lengths_of_differences_by_the_code_before() -> None:
    zeros, ones = encode_delta(CODES, BEFORE, 3, "pe")
    # Where 0 was: 2 1 0 1. Where 1 was: 0 four times.
    assert unhuffman(zeros, 4).tolist() == [-2, -1, 0, -1]
    assert bits(zeros) == "100110"
    assert unhuffman(ones, 4).tolist() == [0, 4]
    assert bits(ones) == "01"


def test_the_published_sum_would_give_other_codes() -> None:
    differences = (BEFORE.astype(int) - CODES) % 3
    assert not np.array_equal((BEFORE + differences) % 3, CODES)  # algorithm 6
    assert np.array_equal((BEFORE - differences) % 3, CODES)


@pytest.mark.parametrize("coder", CODERS)
def test_codes_of_another_length_are_refused(coder: str) -> None:
    sections = encode_delta(CODES, BEFORE, 3, coder)
    for before in (BEFORE[:-1], np.append(BEFORE, BEFORE)):
        with pytest.raises(ValueError, match=r"differences|symbols|sections"):
            decode_delta(sections, before, 3, coder)


def test_differences_beyond_the_levels_are_refused() -> None:
    with pytest.raises(ValueError, match="below 2"):
        decode_delta(encode_delta(CODES, BEFORE, 3, "he"), BEFORE, 2, "he")


def test_huffman_tables_are_not_read_past_their_size() -> None:
    section = huffman(np.arange(200))
    for place in range(len(section)):
        damaged = bytearray(section)
        damaged[place] ^= 0xFF
        try:
            assert unhuffman(bytes(damaged), 200).size <= 200
        except ValueError:
            continue
