"""Groups are quantized, packed and restored as their twin does it, at every instruction level."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import mvcs_native
from tests.reference import uniform

WIDTHS = [1, 2, 3, 4, 5, 6, 7, 8, 16]
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
VALUES = hnp.arrays(np.float32, st.tuples(st.integers(0, 4), st.integers(0, 40)), elements=FLOATS)
SCALES = np.array([0x3F80], np.uint16)

every_level = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def quantize(values, bits, seed=None):
    groups, width = values.shape
    scales, packed = np.empty(groups, np.uint16), np.empty(groups * -(-width * bits // 8), np.uint8)
    restored = np.empty(values.size, np.float32)
    flat = values.reshape(-1)
    mvcs_native.quantize_groups(flat, width, bits, seed is not None, seed or 0, scales, packed, restored)
    return scales, packed, restored


def assert_twins(values, bits, seed=None):
    scales, packed, restored = quantize(values, bits, seed)
    twins, codes = uniform.quantize(values, bits, seed)
    assert scales.tolist() == twins.tolist()
    assert packed.tobytes() == uniform.pack(codes, bits).tobytes()
    assert restored.tobytes() == uniform.restore(twins, codes, bits).tobytes()
    again = np.full(values.size, np.nan, np.float32)
    mvcs_native.restore_groups(scales, packed, values.shape[1], bits, again)
    assert again.tobytes() == restored.tobytes()
    if bits <= 8:
        apart, together = np.empty(values.size, np.int8), np.empty_like(packed)
        mvcs_native.unpack_groups(packed, *values.shape, bits, apart)
        assert apart.tolist() == codes.reshape(-1).tolist()
        mvcs_native.pack_groups(apart, *values.shape, bits, together)
        assert together.tobytes() == packed.tobytes()


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("bits", WIDTHS)
@every_level
@given(values=VALUES, seed=st.none() | st.integers(0, 2**32 - 1))
def test_groups_are_those_of_the_twin(bits, values, seed):
    assert_twins(values, bits, seed if bits > 1 else None)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("shape", [(3, 1000), (1, 256), (2, 257), (700, 9)])
def test_many_values_are_those_of_the_twin(bits, shape):
    values = np.random.default_rng(bits).standard_normal(shape, np.float32)
    assert_twins(values, bits)
    if bits > 1:
        assert_twins(values, bits, 5)


@every_level
@given(values=VALUES, share=st.floats(0, 1))
def test_the_largest_are_those_of_the_twin(values, share):
    width = values.shape[1]
    marks = np.zeros(values.size, np.bool_)
    if width:
        sent = max(1, round(share * width))
        mvcs_native.mark_largest(values.reshape(-1), width, sent, marks)
        assert marks.tolist() == uniform.largest(values, sent).reshape(-1).tolist()


def arrays(groups, values, packed, bits=3, width=8):
    def quantize():
        out = np.zeros(values, np.float32)
        scales = np.zeros(groups, np.uint16)
        mvcs_native.quantize_groups(
            out, width, bits, False, 0, scales, np.zeros(packed, np.uint8), out.copy()
        )

    return quantize


@pytest.mark.parametrize(
    "call",
    [
        arrays(1, 9, 3),
        arrays(1, 8, 4),
        arrays(2, 8, 3),
        arrays(1, 8, 3, bits=0),
        arrays(1, 8, 8, bits=9),
        arrays(1, 0, 0, width=0, bits=17),
        arrays(1, 8, 3, width=1 << 63),
        lambda: quantize(np.zeros((1, 8), np.float32), 1, 0),
        lambda: quantize(np.full((1, 8), np.nan, np.float32), 2),
        lambda: quantize(np.full((1, 8), np.inf, np.float32), 2),
        lambda: mvcs_native.restore_groups(SCALES, np.array([8], np.uint8), 1, 3, np.zeros(1, np.float32)),
        lambda: mvcs_native.pack_groups(np.array([4], np.int8), 1, 1, 3, np.zeros(1, np.uint8)),
        lambda: mvcs_native.pack_groups(np.array([-5], np.int8), 1, 1, 3, np.zeros(1, np.uint8)),
        lambda: mvcs_native.pack_groups(np.zeros(1, np.int8), 1, 1, 16, np.zeros(2, np.uint8)),
        lambda: mvcs_native.mark_largest(np.zeros(4, np.float32), 0, 1, np.zeros(4, np.bool_)),
        lambda: mvcs_native.mark_largest(np.zeros(4, np.float32), 3, 1, np.zeros(4, np.bool_)),
        lambda: mvcs_native.mark_largest(np.zeros(4, np.float32), 4, 5, np.zeros(4, np.bool_)),
        lambda: mvcs_native.mark_largest(np.zeros(4, np.float32), 4, 1, np.zeros(3, np.bool_)),
    ],
)
def test_broken_contracts_are_value_errors(call):
    with pytest.raises(ValueError, match=r"\w+"):
        call()


@pytest.mark.parametrize("scale", [0x8000, 0x7F80, 0x0D7F, 0x0001, 0xFFFF])
def test_a_scale_that_no_quantizer_writes_is_a_value_error(scale):
    with pytest.raises(ValueError, match="scale"):
        mvcs_native.restore_groups(
            np.array([scale], np.uint16), np.zeros(1, np.uint8), 1, 8, np.zeros(1, np.float32)
        )
