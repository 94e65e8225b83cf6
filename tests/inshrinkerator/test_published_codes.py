"""The published quantizer against a slow twin, and what another setting may not move."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvcs.inshrinkerator import PublishedCodes, config_of, layer_config, published_codes
from mvcs.inshrinkerator.quantizer import log_buckets
from mvcs.quantize import KMeansConfig, MomentsConfig

FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)


def config(bins=8, prune=0.0, protect=0.0, metric="magnitude") -> KMeansConfig:
    setting = {"bins": bins, "prune": prune, "protect": protect, "metric": metric}
    made = config_of(setting, "sensitivity", MomentsConfig())
    return KMeansConfig(
        made.bins, made.prune, made.protect, made.sigma, "++", 0, made.metric, made.protect_metric
    )


def drawn(seed=0, size=20_000):
    random = np.random.default_rng(seed)
    values = random.normal(0, 0.05, size).astype(np.float32)
    return values, np.abs(values * random.normal(0, 1e-3, size)).astype(np.float32)


@given(st.lists(FLOATS, max_size=60))
def test_buckets_are_those_of_a_logarithm(values):
    growth = 1.01 / 0.99
    counts = Counter()
    for value in values:
        index = math.ceil(math.log(abs(value)) / math.log(growth)) if value else 0
        counts[math.copysign(2 * growth**index / (growth + 1), value) if value else 0.0] += 1
    points, found = log_buckets(np.array(values, np.float32))
    assert np.allclose(points, sorted(counts), rtol=1e-9, atol=0)
    assert found.tolist() == [counts[point] for point in sorted(counts)]


def test_a_bucket_is_off_by_one_percent_at_most():
    values, _ = drawn()
    points, _ = log_buckets(np.abs(values))
    nearest = points[np.abs(np.abs(values)[:, None] - points).argmin(axis=1)]
    assert np.all(np.abs(nearest - np.abs(values)) <= 0.01001 * np.abs(values))


def slow_codes(values, scores, setting):
    """Partition and levels by exact quantiles, one value after another."""
    kept = int(setting.protect / 2 * len(values))
    by_magnitude = sorted((abs(value) for value in values), reverse=True)
    by_score = sorted(scores, reverse=True)
    ranks = by_magnitude if setting.metric == "magnitude" else by_score
    least = sorted(ranks)[int(setting.prune * len(values))] if setting.prune else 0.0
    parts = []
    for value, score in zip(values, scores, strict=True):
        rank = abs(value) if setting.metric == "magnitude" else score
        if kept and (abs(value) > by_magnitude[kept] or score > by_score[kept]):
            parts.append(1)
        else:
            parts.append(0 if rank < least else 2)
    return np.array(parts)


@pytest.mark.parametrize("metric", ["magnitude", "sensitivity"])
def test_shares_are_those_of_exact_quantiles(metric):
    values, scores = drawn(1, 4000)
    setting = config(8, 0.3, 0.02, metric)
    codes = np.minimum(published_codes(values, scores, setting).codes, 2)
    slow = slow_codes(values.tolist(), scores.tolist(), setting)
    # Quantiles of a sketch are off by less than 1 %, so a few values are on the other side.
    assert np.count_nonzero(codes != slow) < 0.005 * values.size


def test_values_get_the_nearest_of_the_table():
    values, scores = drawn(2, 3000)
    found = published_codes(values, scores, config(8, 0.2, 0.01))
    quantized = found.codes >= 2
    nearest = np.abs(values[quantized, None].astype(float) - found.table).argmin(axis=1)
    assert np.array_equal(found.codes[quantized] - 2, nearest)
    restored = found.restored()
    assert np.array_equal(restored[quantized], found.table[nearest])
    assert np.all(restored[found.codes == 0] == 0)
    assert np.allclose(restored[found.codes == 1], values[found.codes == 1], rtol=2**-8)


def slow_means(points, weights, table):
    """One round of Lloyd's iteration."""
    members = [[] for _ in table]
    for point, weight in zip(points, weights, strict=True):
        distances = [abs(point - value) for value in table]
        members[distances.index(min(distances))].append((point, weight))
    return [sum(p * w for p, w in own) / sum(w for _, w in own) for own in members]


def test_tables_are_where_lloyds_iteration_stops():
    values, _ = drawn(3, 3000)
    values[:100] = 0
    table = published_codes(values, None, config(6)).table
    points, counts = log_buckets(values)
    # Algorithm 2: 0.2 of the normalized count, 0.8 of the normalized magnitude.
    weights = 0.2 * counts / counts.sum() + 0.8 * np.abs(points) / np.abs(points).sum()
    assert table.size == 6
    assert np.allclose(slow_means(points, weights, table.tolist()), table, rtol=1e-5)


@pytest.mark.parametrize("metric", ["magnitude", "sensitivity"])
def test_other_bins_move_neither_what_is_pruned_nor_what_is_protected(metric):
    values, scores = drawn(4)
    few, many = (published_codes(values, scores, config(bins, 0.2, 0.01, metric)).codes for bins in (4, 32))
    assert np.array_equal(few == 0, many == 0)
    assert np.array_equal(few == 1, many == 1)


def test_without_scores_magnitudes_count():
    values, _ = drawn(5)
    found = published_codes(values, None, config(8, 0.2, 0.01, "sensitivity"))
    assert np.abs(values[found.codes == 0]).max() < np.abs(values[found.codes >= 2]).min()
    assert np.count_nonzero(found.codes == 1) == pytest.approx(0.01 * values.size, rel=0.2)


def test_protected_values_beyond_bfloat16_stay_finite():
    values = np.full(1000, 1.0, np.float32)
    values[0] = np.finfo(np.float32).max
    assert np.isfinite(published_codes(values, None, config(4, 0.0, 0.01)).restored()).all()


def test_embeddings_have_bins_of_their_own_and_are_not_pruned():
    setting = {"bins": 4, "prune": 0.5, "protect": 0.01, "metric": "magnitude", "embedding_bins": 16}
    made = config_of(setting, "sensitivity", MomentsConfig())
    assert layer_config(made, ("fc.weight",), (8, 8)) == made
    embedding = layer_config(made, ("tok_embeddings.weight",), (8, 8))
    assert (embedding.bins, embedding.prune, embedding.protect) == (16, 0.0, 0.01)


@pytest.mark.parametrize(("codes", "protected"), [([0, 1, 4], b"\0\0"), ([0, 1, 2], b""), ([0, 2], b"\0\0")])
def test_codes_that_have_no_value_are_refused(codes, protected):
    with pytest.raises(ValueError, match=r"level|disagree"):
        PublishedCodes(np.array(codes, np.uint8), np.ones(2, np.float32), protected).restored()
