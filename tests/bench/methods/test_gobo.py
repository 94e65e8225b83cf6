"""GOBO's outliers and centroids, worked by hand and against every distance."""

import struct

import numpy as np
from numpy.typing import NDArray

from mvcs.bench.methods.coding import to_bits
from mvcs.bench.methods.gobo import GOBO, centroids_of
from mvcs.bench.methods.method import unpack

SETTING = {"bins": 8, "embedding_bins": 16}


def test_outliers_are_kept_with_their_positions() -> None:
    # Mean 0, deviation 0.245: ln N is -4 at 0.733.
    values = np.r_[np.tile([0.1, -0.1], 500), 5, -5].astype(np.float32)
    values[1] = 0.73
    payload, state = GOBO().encode({"w": values.reshape(2, -1)}, None, SETTING)
    bits, counts, positions, outliers, _, _ = unpack(payload)[3:]
    assert (bits, counts) == (bytes([3]), struct.pack("<I", 2))
    assert (positions, outliers) == (struct.pack("<2I", 1000, 1001), struct.pack("<2f", 5, -5))
    assert np.allclose(state.tensors["w"].ravel(), values)


def test_codes_are_of_the_nearest_centroids() -> None:
    values = np.array([[3, 0, 7, 1], [6, 2, 5, 4]], np.float32)
    payload, _ = GOBO().encode({"w": values}, None, SETTING)
    assert unpack(payload)[7:] == [struct.pack("<8f", *range(8)), to_bits(values.astype(np.uint8), 3)]


def test_centroids_begin_as_means_of_equal_parts_and_move_while_the_distance_falls() -> None:
    # From 0 and 7.5 (distance 7.5) to 0 and 10 (distance 2), which is where they stay.
    values = np.array([9, 0, 0, 10, 0, 0, 11, 0], np.float32)
    assert centroids_of(values, 2).tolist() == [0, 10]


def test_sums_over_sorted_values_give_the_rounds_of_all_distances() -> None:
    values = np.random.default_rng(0).normal(0, 0.05, 3200).astype(np.float32)
    assert np.allclose(centroids_of(values, 16), rounds(values.astype(np.float64), 16), rtol=1e-5)


def test_embeddings_have_their_own_number_of_centroids() -> None:
    weights = np.random.default_rng(0).normal(0, 1, (20, 10)).astype(np.float32)
    payload, _ = GOBO().encode({"tok_embeddings.weight": weights, "w": weights}, None, SETTING)
    assert unpack(payload)[3] == bytes([4, 3])


def test_fewer_values_than_centroids_come_back_as_they_are() -> None:
    weights = np.array([[1, 2], [2, 3]], np.float32)
    assert np.array_equal(GOBO().encode({"w": weights}, None, SETTING)[1].tensors["w"], weights)


def rounds(values: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """Return centroids found with the distance of each value to each of them."""
    centroids = np.array([part.mean() for part in np.array_split(np.sort(values), bins)])
    best, least = centroids, np.inf
    while True:
        distances = np.abs(values[:, None] - centroids)
        nearest, distance = distances.argmin(axis=1), distances.min(axis=1).sum()
        if distance >= least:
            return best
        best, least = centroids, distance
        centroids = np.array([values[nearest == place].mean() for place in range(bins)])
