"""Tables, codes and restored values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mvcs.errors import CorruptionError
from mvcs.inshrinkerator.quantizer import Codebook, Thresholds, fit_codebook, quantize
from mvcs.quantize import (
    QuantizerConfig,
    Sketch,
    dequantize,
    from_float32,
    measure_errors,
    to_float32,
)

WIDTHS = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


def weights(count=20_000, seed=0):
    return (np.random.default_rng(seed).standard_normal(count) * 0.02).astype(np.float32)


def through(raw, dtype, config):
    """Quantize a tensor alone and restore it: values, codebook, codes and exceptions, restored bytes."""
    values = to_float32(raw, dtype)
    sketch = Sketch.of([values])
    low = sketch.magnitude_quantile(config.prune, "low")
    thresholds = Thresholds(low, sketch.magnitude_quantile(config.protect, "high"))
    codebook = fit_codebook(sketch, config, dtype, thresholds)
    codes, positions = quantize(values, codebook, thresholds)
    width = WIDTHS[dtype]
    exceptions = positions.astype("<u4").tobytes() + np.frombuffer(raw, f"<u{width}")[positions].tobytes()
    table = codebook.table_bytes(dtype)
    return values, codebook, (codes, positions), dequantize(codes, table, width, exceptions)


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize(("bins", "error"), [(16, 0.11), (64, 0.035), (253, 0.012)])
def test_more_bins_are_less_error(dtype, bins, error):
    raw = from_float32(weights(), dtype)
    values, codebook, _, restored = through(raw, dtype, QuantizerConfig(bins))
    assert codebook.table.size <= bins
    assert measure_errors(values, to_float32(restored, dtype)).relative < error


@pytest.mark.parametrize("dtype", WIDTHS)
def test_pruned_is_zero_and_protected_is_exact(dtype):
    raw = from_float32(weights(), dtype)
    config = QuantizerConfig(16, prune=0.2, protect=0.005)
    values, codebook, quantized, restored = through(raw, dtype, config)
    back = to_float32(restored, dtype)
    order = np.argsort(np.abs(values))
    assert np.all(back[order[: int(0.19 * values.size)]] == 0)
    largest = order[-int(0.004 * values.size) :]
    assert np.array_equal(back[largest], values[largest])
    assert 0.15 < (back == 0).mean() < 0.45
    assert quantized[1].size == pytest.approx(0.005 * values.size, rel=0.2)
    assert codebook.table[codebook.zero] == 0


def test_sigma_moves_values_outwards():
    raw = from_float32(weights(), "float32")
    spread = [through(raw, "float32", QuantizerConfig(16, sigma=s))[1].table.std() for s in (1.0, 0.2)]
    assert spread[1] > spread[0]


def test_sigma_of_one_is_weighting_by_counts():
    raw = from_float32(weights(), "float32")
    by_sigma, by_count = (through(raw, "float32", QuantizerConfig(16, sigma=s))[1].table for s in (1.0, None))
    assert np.allclose(by_sigma, by_count)


@pytest.mark.parametrize("dtype", WIDTHS)
@given(values=st.lists(st.sampled_from([-1.5, -0.25, 0.0, 0.125, 3.0, 96.0]), max_size=40))
def test_few_distinct_values_restore_exactly(dtype, values):
    raw = from_float32(np.array(values, np.float32), dtype)
    _, codebook, quantized, restored = through(raw, dtype, QuantizerConfig(8))
    assert restored == raw
    assert codebook.table.size == len(set(values))
    assert quantized[1].size == 0


def test_two_values_of_one_bucket_restore_exactly():
    raw = np.array([1.0, 1.001, 1.001, 2.0], np.float32).tobytes()
    assert through(raw, "float32", QuantizerConfig(4))[3] == raw


@given(hnp.arrays(np.float32, st.integers(0, 100), elements=st.floats(width=32)))
def test_special_values_are_exceptions_bit_for_bit(values):
    raw = values.tobytes()
    _, _, quantized, restored = through(raw, "float32", QuantizerConfig(4))
    magnitudes = np.abs(values)
    special = ~np.isfinite(values) | ((magnitudes > 0) & (magnitudes < np.finfo(np.float32).smallest_normal))
    assert np.array_equal(quantized[1], np.flatnonzero(special))
    assert np.array_equal(np.frombuffer(restored, np.uint32)[special], np.frombuffer(raw, np.uint32)[special])


def test_values_beyond_float32_are_exceptions():
    raw = np.array([1e300, 1.0, -1e300]).tobytes()
    assert through(raw, "float64", QuantizerConfig(4))[3] == raw


@given(
    hnp.arrays(
        np.float32, st.integers(1, 60), elements=st.floats(-(2.0**99), 2.0**99, width=32), unique=True
    ),
    hnp.arrays(np.float32, 60, elements=st.floats(-(2.0**99), 2.0**99, width=32, allow_subnormal=False)),
)
def test_codes_are_of_the_nearest_value_and_the_lower_of_two(table, values):
    table = np.unique(table + np.float32(0))
    codes = quantize(values, Codebook(table))[0]
    distance = np.abs(values[:, None].astype(np.float64) - table.astype(np.float64))
    chosen = np.take_along_axis(distance, codes[:, None].astype(int), 1)[:, 0]
    assert np.all(chosen <= distance.min(axis=1) * (1 + 1e-12))


def test_ties_go_to_the_lower_value():
    table = Codebook(np.arange(-1, 4, dtype=np.float32))
    assert list(quantize(np.array([1.5, 2.5, -0.5], np.float32), table)[0]) == [2, 3, 0]


def test_the_ends_of_float32_are_table_values_like_others():
    last = np.finfo(np.float32).max
    values = np.array([-last, np.nextafter(-last, np.float32(0)), 0, last], np.float32)
    assert through(values.tobytes(), "float32", QuantizerConfig(8))[3] == values.tobytes()


def test_worked_bytes_of_the_page():
    raw = bytes.fromhex("c03f 80bf c07f 0000 c03f 80bf")
    _, codebook, quantized, restored = through(raw, "bfloat16", QuantizerConfig(16))
    assert codebook.table_bytes("bfloat16").hex(" ") == "80 bf 00 00 c0 3f"
    assert bytes(quantized[0]).hex(" ") == "02 00 03 01 02 00"
    assert list(quantized[1]) == [2]
    assert restored == raw


@pytest.mark.parametrize("dtype", WIDTHS)
def test_tables_are_values_of_the_restored_type(dtype):
    _, codebook, _, _ = through(from_float32(weights(), dtype), dtype, QuantizerConfig(100, prune=0.1))
    table = codebook.table
    assert np.array_equal(to_float32(codebook.table_bytes(dtype), dtype), table)
    assert np.all(np.diff(table) > 0)
    assert not np.signbit(table[codebook.zero])
    assert codebook.levels == table.size + 1


TABLE = np.array([1, 2], "<f4").tobytes()


@pytest.mark.parametrize(
    ("codes", "positions", "exact"),
    [
        ([0, 1, 3], [], b""),
        ([0, 1, 2], [], b""),
        ([0, 1, 1], [2], bytes(4)),
        ([0, 1, 2], [1], bytes(4)),
        ([0, 1, 2], [2, 3], bytes(8)),
        ([0, 1, 2], [2], bytes(3)),
        ([0, 1, 2], [2], bytes(8)),
        ([0, 2, 2], [2, 1], bytes(8)),
        ([255] * 3, [], b""),
    ],
)
def test_codes_and_exceptions_that_disagree_are_corruption(codes, positions, exact):
    with pytest.raises(CorruptionError):
        dequantize(bytes(codes), TABLE, 4, np.array(positions, "<u4").tobytes() + exact)


def test_a_broken_table_is_corruption():
    with pytest.raises(CorruptionError):
        dequantize(b"", TABLE[:-1], 4, b"")


def test_the_same_table_whatever_the_order_of_values():
    values = weights()
    tables = [
        through(v.tobytes(), "float32", QuantizerConfig(33, sigma=0.3))[1].table
        for v in (values, values[::-1])
    ]
    assert tables[0].tobytes() == tables[1].tobytes()
