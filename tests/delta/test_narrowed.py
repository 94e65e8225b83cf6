"""16-bit floats that are 32-bit floats rounded: what every machine makes of them, and when they are not."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mvcs.delta import ElementFormat, Encoding, decode, encode
from mvcs.delta.buffers import as_array
from mvcs.delta.narrowed import NarrowedType, narrowed_type
from mvcs.errors import CorruptionError, UsageError

HALF = ElementFormat(2, floating=True)
TYPES = {NarrowedType.FLOAT16: torch.float16, NarrowedType.BFLOAT16: torch.bfloat16}


def rounded(values, narrow):
    """What torch makes of float32 values."""
    return torch.from_numpy(values.copy()).to(TYPES[narrow]).view(torch.int16).numpy().tobytes()


def decoded(payload, values):
    return decode(Encoding.NARROWED, payload, lengths=[2 * values.size], element=HALF, base=values.tobytes())


@pytest.mark.parametrize("narrow", NarrowedType)
@given(bits=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50))
def test_any_numbers_are_rounded_as_torch_does(narrow, bits):
    values = np.array(bits, np.uint32).view(np.float32)
    values = values[~np.isnan(values)]
    assert decoded(bytes([narrow]), values) == rounded(values, narrow)


@pytest.mark.parametrize("narrow", NarrowedType)
def test_ties_overflow_and_the_smallest_go_to_even(narrow):
    low = 13 if narrow is NarrowedType.FLOAT16 else 16
    tops = np.arange(0, 1 << 31, 1 << low, np.uint64)[:: 3 if narrow is NarrowedType.BFLOAT16 else 17]
    for tail in (0, 1, (1 << low - 1) - 1, 1 << low - 1, (1 << low - 1) + 1, (1 << low) - 1):
        bits = (tops | tail).astype(np.uint32)
        values = np.concatenate([bits, bits | np.uint32(1 << 31)]).view(np.float32)
        values = values[~np.isnan(values)]
        content = rounded(values, narrow)
        assert decoded(bytes([narrow]), values) == content
        assert narrowed_type(as_array(content), as_array(values.tobytes())) == narrow


def test_a_nan_keeps_its_sign_and_the_top_of_its_fraction():
    values = np.array([0x7F800001, 0xFFC12345, 0xFFFFFFFF, 0x7FA00000], np.uint32)
    half, brain = (np.frombuffer(decoded(bytes([narrow]), values), "<u2").tolist() for narrow in NarrowedType)
    assert half == [0x7E00, 0xFE09, 0xFFFF, 0x7F00]
    assert brain == [0x7FC0, 0xFFC1, 0xFFFF, 0x7FE0]


def test_what_is_not_rounded_from_the_base_is_found_out():
    values = np.random.default_rng(0).standard_normal(5000).astype(np.float32)
    content = bytearray(rounded(values, NarrowedType.FLOAT16))
    content[-2] ^= 1
    assert narrowed_type(as_array(content), as_array(values.tobytes())) is None
    assert narrowed_type(as_array(content), as_array(values[1:].tobytes())) is None
    with pytest.raises(UsageError):
        encode(Encoding.NARROWED, content, element=HALF, base=values.tobytes())


def test_the_payload_is_the_type():
    values = np.array([1.0, -2.5, 1 / 3], np.float32)
    for narrow in NarrowedType:
        content = rounded(values, narrow)
        assert encode(Encoding.NARROWED, content, element=HALF, base=values.tobytes()) == bytes([narrow])
    for payload in (b"", b"\2", b"\0\0"):
        with pytest.raises(CorruptionError):
            decoded(payload, values)
    with pytest.raises(UsageError):
        decode(Encoding.NARROWED, b"\0", lengths=[4], element=HALF, base=values.tobytes())
    with pytest.raises(CorruptionError):
        decode(Encoding.NARROWED, b"\0", lengths=[3], element=HALF, base=bytes(6))
