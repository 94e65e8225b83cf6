"""The kernels give what their readable twins give, and refuse what breaks their contract."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import mvcs_native
from tests.reference.assign import assign
from tests.reference.kmeans import kmeans, partition_cost
from tests.reference.sketch import sketch

any_float = st.floats(width=32, allow_subnormal=True)


def empty_sketch():
    return np.zeros(65536, np.uint64), np.full(65536, 2**32 - 1, np.uint32), np.zeros(65536, np.uint32)


@given(hnp.arrays(np.float32, st.integers(0, 60), elements=any_float))
def test_sketch_is_its_twin(values):
    native, twin = empty_sketch(), empty_sketch()
    mvcs_native.sketch(values, *native)
    sketch(values, *twin)
    for left, right in zip(native, twin, strict=True):
        assert np.array_equal(left, right)


def test_sketch_adds_up_whatever_the_order():
    values = np.random.default_rng(1).standard_normal(5000).astype(np.float32)
    whole, parts = empty_sketch(), empty_sketch()
    mvcs_native.sketch(values, *whole)
    for part in np.array_split(values[::-1].copy(), 7):
        mvcs_native.sketch(part, *parts)
    assert all(np.array_equal(left, right) for left, right in zip(whole, parts, strict=True))


@given(
    st.lists(st.integers(-1000, 1000), min_size=0, max_size=25, unique=True),
    st.integers(1, 30),
    st.data(),
)
def test_kmeans_is_optimal(numbers, k, data):
    points = sorted(numbers)
    weights = data.draw(st.lists(st.integers(0, 50), min_size=len(points), max_size=len(points)))
    native = mvcs_native.kmeans(np.array(points, float), np.array(weights, float), k)
    assert len(native) == min(k, len(points))
    assert native.size == 0 or (native[0] == 0 and np.all(np.diff(native.astype(int)) > 0))
    if points:
        best = partition_cost(points, weights, kmeans(points, weights, k))
        assert partition_cost(points, weights, [int(s) for s in native]) == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 16])
def test_kmeans_on_bell_curves_is_its_twin(k):
    points = np.sort(np.random.default_rng(k).standard_normal(60))
    weights = np.linspace(1, 2, 60)
    assert list(mvcs_native.kmeans(points, weights, k)) == kmeans(list(points), list(weights), k)


def test_kmeans_takes_the_smallest_of_equal_starts():
    points, weights = np.array([0.0, 1.0, 2.0]), np.ones(3)
    assert list(mvcs_native.kmeans(points, weights, 2)) == kmeans([0, 1, 2], [1, 1, 1], 2) == [0, 1]


@settings(max_examples=60)
@given(
    st.lists(st.floats(width=32, allow_nan=False), max_size=255),
    hnp.arrays(np.float32, 70, elements=any_float),
)
def test_assign_is_its_twin(bounds, values):
    ascending = np.sort(np.array(bounds, np.float32))
    with np.errstate(over="ignore"):  # the one after the largest is infinity
        near = np.concatenate([values, ascending, np.nextafter(ascending, np.float32(np.inf))])
    out = np.empty(near.size, np.uint8)
    mvcs_native.assign(near, ascending, out)
    assert list(out) == assign(near, ascending)


def many(seed):
    """More values than pay for tables of the upper 16 bits: every magnitude, and what compares oddly."""
    random = np.random.default_rng(seed)
    patterns = random.integers(0, 2**32, 70_001, dtype=np.uint32).view(np.float32)
    odd = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-45, -1e-45, 3.4e38, -3.4e38], np.float32)
    return np.concatenate([patterns, (random.standard_normal(9000) * 0.02).astype(np.float32), odd])


def test_many_values_are_sketched_like_few():
    values = many(0)
    whole, parts = empty_sketch(), empty_sketch()
    mvcs_native.sketch(values, *whole)
    for part in np.array_split(values, 9):
        mvcs_native.sketch(part.copy(), *parts)
    assert all(np.array_equal(left, right) for left, right in zip(whole, parts, strict=True))
    assert int(whole[0].sum()) == values.size


@pytest.mark.parametrize(
    "bounds",
    [
        np.linspace(-0.05, 0.05, 100),
        np.linspace(1, 1.005, 255),
        -np.linspace(2, 2.1, 33),
        np.concatenate(
            [[-np.inf] * 3, np.linspace(-1e-44, 1e-44, 17), np.geomspace(1e-30, 3e38, 40), [np.inf] * 2]
        ),
        np.zeros(20),
        np.full(17, np.inf),
    ],
)
@pytest.mark.usefixtures("level")
def test_many_values_are_assigned_like_few(bounds):
    ascending = np.sort(bounds.astype(np.float32))
    with np.errstate(all="ignore"):
        near = np.concatenate([np.nextafter(ascending, np.float32(side)) for side in (-np.inf, np.inf)])
    values = np.concatenate([many(1), ascending, near])
    whole = np.empty(values.size, np.uint8)
    mvcs_native.assign(values, ascending, whole)
    parts = [np.empty(part.size, np.uint8) for part in np.array_split(values, 9)]
    for part, out in zip(np.array_split(values, 9), parts, strict=True):
        mvcs_native.assign(part.copy(), ascending, out)
    assert np.array_equal(whole, np.concatenate(parts))
    sample = np.concatenate(
        [np.arange(60_000, 60_500), np.arange(values.size - 3 * ascending.size, values.size)]
    )
    assert list(whole[sample]) == assign(values[sample], ascending)


BYTES = np.zeros(4, np.uint8)
FLOATS = np.zeros(4, np.float32)
DOUBLES = np.arange(4.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: mvcs_native.sketch(FLOATS, *(part[1:].copy() for part in empty_sketch())),
        lambda: mvcs_native.kmeans(DOUBLES, DOUBLES[1:].copy(), 2),
        lambda: mvcs_native.kmeans(DOUBLES, DOUBLES, 0),
        lambda: mvcs_native.kmeans(DOUBLES, DOUBLES, 256),
        lambda: mvcs_native.kmeans(DOUBLES[::-1].copy(), DOUBLES, 2),
        lambda: mvcs_native.kmeans(DOUBLES, -DOUBLES, 2),
        lambda: mvcs_native.kmeans(np.full(4, np.nan), DOUBLES, 2),
        lambda: mvcs_native.kmeans(np.zeros(65537), np.zeros(65537), 2),
        lambda: mvcs_native.assign(FLOATS, FLOATS, BYTES[1:].copy()),
        lambda: mvcs_native.assign(FLOATS, np.array([1, 0], np.float32), BYTES.copy()),
        lambda: mvcs_native.assign(FLOATS, np.array([np.nan], np.float32), BYTES.copy()),
        lambda: mvcs_native.assign(FLOATS, np.zeros(256, np.float32), BYTES.copy()),
        lambda: mvcs_native.encode_codes(BYTES, 0),
        lambda: mvcs_native.encode_codes(BYTES, 257),
        lambda: mvcs_native.encode_codes(BYTES + 2, 2),
        lambda: mvcs_native.encode_codes(np.zeros(2**22 + 1, np.uint8), 2),
        lambda: mvcs_native.encode_delta(BYTES, BYTES[1:].copy(), 2),
        lambda: mvcs_native.encode_delta(BYTES, BYTES + 2, 2),
        lambda: mvcs_native.decode_delta(BYTES, BYTES + 2, 2, BYTES.copy()),
        lambda: mvcs_native.decode_delta(BYTES, BYTES, 2, BYTES[1:].copy()),
    ],
)
def test_broken_contracts_are_value_errors(call):
    with pytest.raises(ValueError, match=r"\w+"):
        call()


@pytest.mark.parametrize(
    "out",
    [np.zeros(4, np.float32), np.zeros((2, 2), np.uint8), np.zeros(8, np.uint8)[::2], [0] * 4, bytes(4)],
)
def test_results_go_only_into_writable_contiguous_arrays(out):
    with pytest.raises(TypeError):
        mvcs_native.decode_codes(np.zeros(1, np.uint8), 2, out)
