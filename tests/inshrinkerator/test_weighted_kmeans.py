"""Random k-means++ is what was published, and no better than the optimum."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mvcs.inshrinkerator.quantizer import fit_codebook, kmeans_plus_plus
from mvcs.quantize import KMeansConfig, Sketch, measure_errors
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
    return fit_codebook(Sketch.of([values]), config, dtype="float32").table


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
