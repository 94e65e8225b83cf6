"""A sketch tells quantiles within its relative error, merges, and keeps single values exactly."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mvcs.quantize import Scale, Sketch
from mvcs.quantize.sketch import points_of_few

floats = hnp.arrays(np.float32, st.integers(0, 200), elements=st.floats(width=32))


def sketch_of(values):
    sketch = Sketch()
    sketch.add(np.asarray(values, np.float32))
    return sketch


@pytest.mark.parametrize("fraction", [0.001, 0.05, 0.2, 0.5, 0.9])
def test_quantiles_are_within_a_bucket(fraction):
    values = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    sketch = sketch_of(values)
    share = int(fraction * values.size)
    low, high = np.sort(np.abs(values))[[share - 1, values.size - share]]
    assert sketch.magnitude_quantile(fraction, "low") == pytest.approx(low, rel=1 / 128)
    assert sketch.magnitude_quantile(fraction, "high") == pytest.approx(high, rel=1 / 128)


def test_quantiles_of_nothing_and_of_no_share():
    for sketch in (Sketch(), sketch_of([np.nan, np.inf, -np.inf])):
        assert sketch.magnitude_quantile(0.5, "low") == 0.0
        assert sketch.magnitude_quantile(0.5, "high") == math.inf
    sketch = sketch_of([1, 2, 3])
    assert sketch.magnitude_quantile(0.0, "low") == 0.0
    assert sketch.magnitude_quantile(0.0, "high") == math.inf


def test_equal_magnitudes_stay_on_one_side():
    sketch = sketch_of([0.3, -0.3] * 50)
    assert sketch.magnitude_quantile(0.2, "low") == np.float32(0.3)
    assert sketch.magnitude_quantile(0.2, "high") == np.float32(0.3)


@given(floats, floats)
def test_merging_is_counting_together(one, other):
    merged, together = sketch_of(one), sketch_of(np.concatenate([one, other]))
    merged.merge(sketch_of(other))
    for name in ("counts", "low", "high"):
        assert np.array_equal(getattr(merged, name), getattr(together, name))


@given(floats)
def test_points_ascend_and_count_the_normal_values(values):
    points, counts = sketch_of(values).points()
    assert np.all(np.diff(points) > 0)
    assert np.isfinite(points).all()
    normal = np.isfinite(values) & (np.abs(values) >= np.finfo(np.float32).smallest_normal)
    zeros = int(counts[points == 0].sum())
    assert int(counts.sum()) - zeros == int(normal.sum())
    assert zeros >= int((values == 0).sum())


def test_single_values_are_exact_and_zeros_are_one():
    points, counts = sketch_of([0.1, 0.1, -7.25, 0.0, -0.0, 1e-41, np.nan]).points()
    assert list(points) == [-7.25, 0.0, float(np.float32(0.1))]
    assert list(counts) == [1, 3, 2]  # the subnormal shares the bucket of zero


def test_extremes_split_a_bucket():
    values = np.array([1.0, 1.0, 1.001, -1.0, -1.001, -1.001], np.float32)
    points, counts = sketch_of(values).extremes()
    assert list(points) == sorted(set(values.astype(np.float64)))
    assert int(counts.sum()) == 6


few_values = st.builds(
    lambda patterns, more: np.concatenate(
        [patterns.view(np.float32), patterns[:5].view(np.float32), np.float32(more)]
    ),
    hnp.arrays(np.uint32, st.integers(0, 40)),
    st.lists(st.sampled_from([0.0, -0.0, 1e-40, math.inf, 0.5])),
)


@given(st.lists(few_values, max_size=6), st.integers(1, 3))
def test_few_values_have_the_points_of_their_sketch(parts, times):
    parts = parts * times  # some of one size
    for part, (values, counts, zeros) in zip(parts, points_of_few(parts), strict=True):
        points, expected = sketch_of(part).points()
        found = sorted([*zip(values, counts, strict=True), *([(0.0, zeros)] if zeros else [])])
        assert found == list(zip(points, expected, strict=True))
        assert values.dtype == points.dtype
    assert Scale.of_few(parts) == [Scale.of(sketch_of(part)) for part in parts]
