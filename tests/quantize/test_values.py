"""Element types to float32 and back, against numpy and torch."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mvcs.delta import ElementFormat, Encoding, decode
from mvcs.errors import UsageError
from mvcs.quantize import from_float32, to_float32

DTYPES = ("float16", "bfloat16", "float32", "float64")
HALF = ElementFormat(2, floating=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_16_bit_pattern_comes_back(dtype):
    patterns = np.arange(65536, dtype="<u2")
    values = to_float32(patterns.tobytes(), dtype)
    expected = torch.from_numpy(patterns.view(np.int16)).view(getattr(torch, dtype)).float().numpy()
    assert np.array_equal(values, expected, equal_nan=True)
    back = np.frombuffer(from_float32(values, dtype), "<u2")
    number = ~np.isnan(values)
    assert np.array_equal(back[number], patterns[number])
    assert np.isnan(to_float32(back[~number].tobytes(), dtype)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@given(hnp.arrays(np.float32, 50, elements=st.floats(width=32, allow_nan=False)))
def test_rounding_is_torchs(dtype, values):
    expected = torch.from_numpy(values).to(getattr(torch, dtype)).double().numpy()
    raw = from_float32(values, dtype)
    assert np.array_equal(to_float32(raw, dtype).astype(np.float64), expected)


NANS = [0x7F800001, 0xFFC12345, 0x7F802000, 0x7FFFFFFF, 0xFF800001]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_nan_keeps_its_sign_and_the_top_of_its_fraction_and_is_quiet(dtype):
    values = np.array([*NANS, 0x3F800000], "<u4").view(np.float32)
    narrow = bytes([DTYPES.index(dtype)])
    expected = decode(Encoding.NARROWED, narrow, lengths=[12], element=HALF, base=values.tobytes())
    assert from_float32(values, dtype) == expected
    assert from_float32(values, "float16")[:4].hex(" ") == "00 7e 09 fe"


def test_a_wide_nan_does_so_too():
    wide = np.array([0x7FF0000000000001, 0xFFF0000020000000], "<u8").tobytes()
    assert to_float32(wide, "float64").tobytes().hex(" ") == "00 00 c0 7f 01 00 c0 ff"


def test_wide_values_become_float32():
    raw = np.array([1e300, -1e300, 1e-300, 0.1, np.nan]).tobytes()
    expected = np.array([np.inf, -np.inf, 0, 0.1, np.nan], np.float32)
    assert np.array_equal(to_float32(raw, "float64"), expected, equal_nan=True)


@pytest.mark.parametrize("dtype", ["int8", "float8_e5m2", "complex64", ""])
def test_other_types_are_refused(dtype):
    with pytest.raises(UsageError, match=f"elements of {dtype} cannot be quantized"):
        to_float32(bytes(8), dtype)
    with pytest.raises(UsageError, match=f"elements of {dtype} cannot be quantized"):
        from_float32(np.zeros(2, np.float32), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_broken_elements_are_refused(dtype):
    with pytest.raises(UsageError):
        to_float32(bytes(9), dtype)
    assert to_float32(b"", dtype).size == 0
