"""Codes are those of the formula; what encoding says of them is what decoding gives."""

import math
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mvcs.channels import Quantizer
from mvcs.errors import CorruptionError, UsageError
from tests.format import page

WIDTHS = [1, 2, 3, 4, 5, 6, 7, 8, 16]
SHAPES = st.tuples(st.integers(0, 5), st.integers(0, 40))
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
VALUES = arrays.arrays(np.float32, SHAPES, elements=FLOATS)


@st.composite
def quantizers(draw):
    bits = draw(st.sampled_from(WIDTHS))
    return Quantizer(
        bits,
        stochastic=bits > 1 and draw(st.booleans()),
        entropy=bits < 16 and draw(st.booleans()),
        share=draw(st.sampled_from([1.0, 0.2, 0.5, 0.01])),
    )


def normal(groups, width, seed=0):
    return np.random.default_rng(seed).standard_normal((groups, width), np.float32)


def scales_of(payload, groups):
    return np.frombuffer(payload, "<u2", groups).astype(np.uint32) << 16


@given(quantizers(), VALUES, st.integers(0, 2**40))
def test_what_encoding_returns_is_what_decoding_gives(quantizer, values, seed):
    payload, restored = quantizer.encode(values, seed=seed)
    decoded = quantizer.decode(payload, *values.shape)
    assert decoded.dtype == np.float32
    assert decoded.tobytes() == restored.tobytes()
    size = quantizer.size(*values.shape)
    assert len(payload) <= size if quantizer.entropy else len(payload) == size


@pytest.mark.parametrize("bits", WIDTHS[1:])
@given(values=VALUES)
def test_codes_are_those_of_the_formula(bits, values):
    payload, restored = Quantizer(bits).encode(values)
    half = 2 ** (bits - 1)
    scales = scales_of(payload, len(values)).view(np.float32)
    for row, scale, group in zip(values.tolist(), scales.tolist(), restored.tolist(), strict=True):
        for value, found in zip(row, group, strict=True):
            exact = math.ldexp(scale, 1 - bits)
            code = max(-half, min(half - 1, round(np.float32(value) / np.float32(exact)))) if scale else 0
            assert found == code * exact


@given(VALUES)
def test_a_scale_is_the_largest_magnitude_rounded_up(values):
    scales = scales_of(Quantizer(4).encode(values)[0], len(values)).view(np.float32)
    largest = np.abs(values).max(axis=1, initial=0)
    small, huge = scales == 0, scales.view(np.uint32) == 0x7F7F0000
    assert (largest[small] < 2.0**-100).all()
    assert (scales[~small & ~huge] >= largest[~small & ~huge]).all()
    below = (scales.view(np.uint32) - 0x10000).view(np.float32)
    assert (below[~small] < largest[~small]).all()


def test_one_bit_is_sign_and_mean():
    values = np.array([[1.0, -2.0, 3.0, -6.0]], np.float32)
    assert Quantizer(1).encode(values)[1].tolist() == [[3.0, -3.0, 3.0, -3.0]]


def test_two_bits_restore_the_largest_as_half_of_it():
    values = np.array([[1.0, -1.0, 0.3, -0.3]], np.float32)
    assert Quantizer(2).encode(values)[1].tolist() == [[0.5, -1.0, 0.5, -0.5]]


def test_stochastic_rounding_has_the_value_as_its_expectation():
    values = np.full((1, 1000), 0.3, np.float32)
    values[0, 0] = 1
    means = [Quantizer(3, stochastic=True).encode(values, seed=seed)[1][0, 1:].mean() for seed in range(20)]
    assert abs(np.mean(means) - 0.3) < 0.003
    assert len(set(means)) > 10


def test_a_share_keeps_the_largest():
    values = np.array([[1.0, -4.0, 2.0, 4.0, 0.5]], np.float32)
    assert Quantizer(8, share=0.4).encode(values)[1].tolist() == [[0.0, -4.0, 0.0, 3.96875, 0.0]]


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("share", [1.0, 0.2])
def test_entropy_coding_restores_the_same_values_from_fewer_bytes(bits, share):
    values = normal(20, 512) ** 3
    packed = Quantizer(bits, share=share).encode(values)
    coded = Quantizer(bits, share=share, entropy=True).encode(values)
    assert np.array_equal(packed[1], coded[1])
    assert len(coded[0]) < len(packed[0])


def test_many_groups_and_wide_ones_are_entropy_coded_too():
    quantizer = Quantizer(2, entropy=True)
    for values in (normal(5000, 3) ** 5, normal(3, 1 << 21) ** 5, normal(1, (1 << 22) + 1)):
        payload, restored = quantizer.encode(values)
        assert np.array_equal(quantizer.decode(payload, *values.shape), restored)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_named(number):
    values = np.zeros((3, 4), np.float32)
    values[1, 2] = number
    with pytest.raises(UsageError, match=f"value 2 of group 1 is {number}"):
        Quantizer(4).encode(values)


@pytest.mark.parametrize("values", [np.zeros(3, np.float32), np.zeros((2, 2))])
def test_values_are_rows_of_float32(values):
    with pytest.raises(UsageError, match="float32"):
        Quantizer(4).encode(values)


def test_values_may_lie_apart_in_memory():
    values = normal(6, 8)
    assert Quantizer(3).encode(values.T)[0] == Quantizer(3).encode(values.T.copy())[0]


@pytest.mark.parametrize(
    "settings",
    [
        {"bits": 0},
        {"bits": 9},
        {"bits": 4.0},
        {"bits": True},
        {"bits": 1, "stochastic": True},
        {"bits": 16, "entropy": True},
    ]
    + [{"bits": 2, "share": share} for share in (0, 1.5, math.nan)],
)
def test_settings_that_mean_nothing_are_refused(settings):
    with pytest.raises(UsageError):
        Quantizer(**settings)


@given(quantizers(), st.binary(max_size=60), st.integers(0, 4), st.integers(0, 20))
@example(Quantizer(2, entropy=True), b"", 1, (1 << 22) + 1)
def test_hostile_bytes_are_corruption_or_values(quantizer, payload, groups, width):
    try:
        values = quantizer.decode(payload, groups, width)
    except CorruptionError:
        return
    assert values.shape == (groups, width)
    assert np.isfinite(values).all()


@given(quantizers(), st.data())
def test_damaged_payloads_are_corruption_or_values(quantizer, data):
    payload = bytearray(quantizer.encode(normal(3, 50))[0])
    place = data.draw(st.integers(0, len(payload) - 1))
    payload[place] ^= data.draw(st.integers(1, 255))
    with suppress(CorruptionError):
        assert np.isfinite(quantizer.decode(payload, 3, 50)).all()


@pytest.mark.parametrize("scale", ["8080", "807f", "800c", "ff7f"])
def test_a_scale_that_no_quantizer_writes_is_corruption(scale):
    with pytest.raises(CorruptionError, match="scale"):
        Quantizer(8).decode(bytes.fromhex(scale + "01"), 1, 1)


def test_spare_bits_are_corruption():
    with pytest.raises(CorruptionError, match="behind"):
        Quantizer(3).decode(bytes.fromhex("803f08"), 1, 1)


def test_marks_of_another_number_are_corruption():
    with pytest.raises(CorruptionError, match="marks"):
        Quantizer(8, share=0.5).decode(bytes.fromhex("803f010101"), 1, 4)


def example_on_the_page(name):
    payload = page.blocks("channels.md")[name]
    values = page.text("channels.md").partition(f"```hex {name}\n")[0].rpartition("Values `")[2]
    given_, restored = values.partition("`")[0], values.partition("restored `")[2].partition("`")[0]
    return payload, *(np.array([text.split()], np.float32) for text in (given_, restored))


@pytest.mark.parametrize(
    ("name", "quantizer"),
    [
        ("two-bits", Quantizer(2)),
        ("three-bits", Quantizer(3)),
        ("sign", Quantizer(1)),
        ("sixteen-bits", Quantizer(16)),
        ("share", Quantizer(4, share=0.5)),
        ("coded", Quantizer(4, entropy=True)),
    ],
)
def test_payloads_are_the_bytes_on_the_page(name, quantizer):
    payload, values, restored = example_on_the_page(name)
    values, restored = (rows.repeat(64 if name == "coded" else 1, axis=1) for rows in (values, restored))
    encoded = quantizer.encode(values)
    assert encoded[0] == payload
    assert encoded[1].tolist() == quantizer.decode(payload, *values.shape).tolist() == restored.tolist()
