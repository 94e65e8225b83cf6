"""Lattices of values: steps, codes near a base, and what is restored."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvcs.objects.chunk_grid import DTYPES, chunk_elements
from mvcs.quantize import (
    Scale,
    Sketch,
    balance_rows,
    from_float32,
    lattice_codes,
    lattice_step,
    lattice_values,
    nearest_step,
    steady_step,
    step_of,
    step_value,
    to_float32,
)
from mvcs.quantize.quantizer import LatticeCoding


def weights(count=20_000, seed=0, scale=0.02):
    return (np.random.default_rng(seed).standard_normal(count) * scale).astype(np.float32)


def sketch_of(values):
    sketch = Sketch()
    sketch.add(values)
    return sketch


def test_steps_are_four_an_octave():
    steps = [step_value(step) for step in range(256)]
    assert steps[240:248] == [4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 14.0]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (2.0**-58, 56.0)
    assert all(float(np.float32(step)) == step for step in steps)


@given(st.floats(1e-15, 50))
def test_the_nearest_step_is_nearest_by_ratio(target):
    best = min(range(256), key=lambda step: abs(math.log2(step_value(step) / target)))
    found = nearest_step(target)
    ratios = [abs(math.log2(step_value(step) / target)) for step in (best, found)]
    assert ratios[1] == pytest.approx(ratios[0], abs=1e-12)


def test_the_ends_of_steps():
    assert (nearest_step(0.0), nearest_step(1e-40), nearest_step(1e30)) == (0, 0, 255)


@given(st.integers(0, 255), st.floats(1e-12, 10))
def test_a_step_stays_while_it_is_near(parent, target):
    chosen = steady_step(target, parent)
    ratio = step_value(parent) / target
    assert chosen == (parent if 2**-0.3 <= ratio <= 2**0.3 else nearest_step(target))
    assert steady_step(target, None) == nearest_step(target)


def test_root_mean_squares_come_from_the_sketch_alone():
    values = weights()
    whole = Scale.of(sketch_of(values)).rms
    assert whole == pytest.approx(math.sqrt(np.mean(np.square(values.astype(float)))), rel=1 / 256)
    parts = sketch_of(values[::-1][:77].copy())
    parts.merge(sketch_of(values[::-1][77:].copy()))
    assert Scale.of(parts).rms == whole
    assert Scale.of(Sketch()).rms == Scale.of(sketch_of(np.zeros(5, np.float32))).rms == 0.0
    assert Scale.of(sketch_of(np.array([np.nan, np.inf, 3, 0], np.float32))).rms == pytest.approx(
        3 / math.sqrt(2)
    )


def test_errors_stay_below_half_a_step_and_the_hysteresis():
    values, step = weights(), lattice_step(0.02, 0.5)
    codes = lattice_codes(values, step)
    assert np.abs(lattice_values(codes, step) - values).max() <= step_value(step) * 0.5
    moved = values + weights(seed=1, scale=0.004)
    near = lattice_codes(moved, step, codes, 0.25)
    assert np.abs(lattice_values(near, step) - moved).max() <= step_value(step) * 0.75 * (1 + 1e-6)
    free = lattice_codes(moved, step)
    assert np.count_nonzero(near != codes) < np.count_nonzero(free != codes)


def test_values_of_any_shape_are_coded_in_their_order():
    values = weights(60).reshape(6, 10)
    flat = lattice_codes(values, 200)
    assert np.array_equal(lattice_codes(values.T, 200), flat.reshape(6, 10).T.reshape(-1))


def test_balanced_rows_are_off_by_half_a_step_in_all():
    values, step = weights().reshape(100, 200), lattice_step(0.02, 0.5)
    before = lattice_codes(values - np.float32(0.002), step)
    codes = lattice_codes(values, step, before, 0.25)
    lagging = (values.reshape(-1) - lattice_values(codes, step)).reshape(100, 200)
    balance_rows(values, codes, step, 200)
    left = (values.reshape(-1) - lattice_values(codes, step)).reshape(100, 200)
    assert np.abs(lagging.sum(1)).min() > step_value(step)
    assert np.abs(left.sum(1)).max() <= step_value(step) * 0.501
    assert np.abs(left).max() <= step_value(step) * 0.75 * (1 + 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_a_chunk_is_balanced_where_it_lies_in_its_tensor(dtype):
    """Rows of which one chunk holds the first 304 elements and the next the other 696."""
    run, kind = 1000, DTYPES[dtype]
    part = from_float32(weights(2000), dtype)
    coding = LatticeCoding(lattice_step(0.02, 0.5), kind, run=run)
    codes = coding.code(memoryview(part), 1, None).codes.view(np.int16)
    values, left = to_float32(part, dtype), run - chunk_elements(kind) % run
    errors = values - lattice_values(codes, coding.step)
    ends = [0, left, left + run, 2000]
    assert left == 696
    for start, end in pairwise(ends):
        assert abs(errors[start:end].sum()) <= step_value(coding.step) * 0.502
    free = replace(coding, run=0).code(memoryview(part), 1, None).codes.view(np.int16)
    assert np.array_equal(free, lattice_codes(values, coding.step))


@pytest.mark.parametrize("step", [100, 101, 103])
def test_the_step_of_values_on_a_lattice_is_found_near_another(step):
    codes = np.random.default_rng(0).integers(-40, 40, 1000).astype(np.int16)
    chunks = [lattice_values(codes, step), np.zeros(3, np.float32)]
    assert step_of(chunks, 1.7 * step_value(step)) == step
    assert step_of(chunks, 3 * step_value(step)) is None
    between = np.array([1.5 * step_value(step)], np.float32)
    assert step_of([*chunks, between], step_value(step)) != step
