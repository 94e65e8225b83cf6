"""Element types to float32 and back, against numpy and torch."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mvcs.errors import UsageError
from mvcs.quantize import from_float32, to_float32

DTYPES = ("float16", "bfloat16", "float32", "float64")


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
