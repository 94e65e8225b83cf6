"""Random k-means++ is what was published, and no better than the optimum."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvcs.errors import UsageError
from mvcs.quantize import KMeansConfig, LatticeConfig, Sketch, fit_codebook, measure_errors
from mvcs.quantize.published.code_tables import kmeans_plus_plus
from tests.reference.kmeans import kmeans, partition_cost


@given(
    st.lists(st.integers(-1000, 1000), max_size=25, unique=True),
    st.integers(1, 30),
    st.data(),
    st.integers(0, 9),
)
def test_clusters_are_never_better_than_the_best(numbers, k, data, seed):
    points = sorted(numbers)
    weights = data.draw(st.lists(st.integers(0, 50), min_size=len(points), max_size=len(points)))
    starts = kmeans_plus_plus(np.array(points, float), np.array(weights, float), k, seed)
    assert starts.size <= min(k, len(points))
    assert starts.size == 0 or (starts[0] == 0 and np.all(np.diff(starts.astype(int)) > 0))
    if points:
        best = partition_cost(points, weights, kmeans(points, weights, k))
        assert partition_cost(points, weights, [int(start) for start in starts]) >= best - 1e-9


def table(config, values):
    sketch = Sketch()
    sketch.add(values)
    return fit_codebook(sketch, config, dtype="float32").table


def error(values, levels):
    nearest = levels[np.abs(values[:, None] - levels).argmin(axis=1)]
    return measure_errors(values, nearest).squares


def test_random_tables_are_repeatable_and_near_the_best():
    values = np.random.default_rng(0).standard_normal(5000).astype(np.float32)
    exact = error(values, table(KMeansConfig(16), values))
    random = [error(values, table(KMeansConfig(16, init="++", seed=seed), values)) for seed in range(5)]
    assert len(set(random)) > 1
    assert random == [
        error(values, table(KMeansConfig(16, init="++", seed=seed), values)) for seed in range(5)
    ]
    assert all(exact * 0.999 <= found < exact * 1.6 for found in random)


def test_a_table_is_not_fitted_by_a_lattice():
    with pytest.raises(UsageError, match="lattice"):
        fit_codebook(Sketch(), LatticeConfig(), dtype="float32")
