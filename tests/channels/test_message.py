"""Headers come back as they were, or are refused."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvcs.channels import HEADER_BYTES, Flag, Header, Kind, checksum_of_ids
from mvcs.errors import CorruptionError, MvcsError, UnsupportedFormatError, UsageError
from tests.format import page

HEADERS = st.builds(
    Header.of,
    st.binary(max_size=40),
    st.sampled_from(Kind),
    edge=st.integers(0, 2**16 - 1),
    step=st.integers(0, 2**32 - 1),
    samples=st.integers(0, 2**64 - 1),
    bits=st.sampled_from([0, 1, 4, 8, 16]),
    flags=st.sampled_from([Flag.NONE, Flag.SOME_FULL, Flag.SOME_LOST]),
)
EXAMPLE = Header.of(
    bytes.fromhex("803fb1"), Kind.GRADIENT, edge=1, step=7, samples=checksum_of_ids([3, 5]), bits=2
)


@given(HEADERS)
def test_headers_come_back(header):
    assert len(header.pack()) == HEADER_BYTES == 40
    assert Header.unpack(header.pack()) == header


@given(HEADERS, st.integers(0, 40 * 8 - 1))
def test_a_flipped_bit_of_a_header_is_corruption(header, bit):
    data = bytearray(header.pack())
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptionError, match="header"):
        Header.unpack(data)


@given(st.binary(max_size=50))
def test_hostile_headers_are_refused(data):
    with pytest.raises(MvcsError):
        Header.unpack(data)


def test_a_payload_is_that_of_its_header():
    EXAMPLE.check(bytes.fromhex("803fb1"))
    for other in ("803fb0", "803f", "803fb100"):
        with pytest.raises(CorruptionError, match="edge 1 at step 7"):
            EXAMPLE.check(bytes.fromhex(other))


@pytest.mark.parametrize("field", [{"kind": 5}, {"bits": 9}, {"flags": 4}])
def test_what_is_unknown_is_of_another_version(field):
    with pytest.raises(UnsupportedFormatError):
        Header.unpack(dataclasses.replace(EXAMPLE, **field).pack())


def test_a_field_that_does_not_fit_is_refused():
    with pytest.raises(UsageError):
        dataclasses.replace(EXAMPLE, edge=1 << 16).pack()


def test_ids_count_in_their_order():
    assert checksum_of_ids([1, 2]) == checksum_of_ids(np.array([1, 2], np.int32)) != checksum_of_ids([2, 1])


def test_the_header_is_the_bytes_on_the_page():
    assert EXAMPLE.pack() == page.blocks("channels.md")["header"]
