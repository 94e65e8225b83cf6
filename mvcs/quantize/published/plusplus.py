"""Random weighted k-means++ and Lloyd's iteration on a line, as published; exact k-means is never worse."""

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
MAX_ROUNDS = 100


def kmeans_plus_plus(points: Points, weights: Points, k: int, seed: int) -> NDArray[np.uint32]:
    """Return the first index of each of at most min(k, n) clusters.

    Arthur and Vassilvitskii, "k-means++: the advantages of careful seeding" (2007), weighted as in
    Inshrinkerator, Algorithm 2; then Lloyd's iteration until nothing moves, 100 rounds at most.

    Args:
        points: float64 [n], ascending.
        weights: float64 [n], not negative.
        k: most clusters.
        seed: of the random centers.
    """
    if points.size == 0:
        return np.zeros(0, np.uint32)
    centers = _seeded(points, weights, min(k, points.size), np.random.default_rng(seed))
    starts = _starts(points, centers)
    for _ in range(MAX_ROUNDS):
        centers = _means(points, weights, starts)
        moved = _starts(points, centers)
        if np.array_equal(moved, starts):
            break
        starts = moved
    return starts


def _seeded(points: Points, weights: Points, k: int, random: np.random.Generator) -> Points:
    """Draw centers one by one, each with a chance in proportion to weight times squared distance."""
    distances, chosen = np.ones(points.size), []
    for _ in range(k):
        chances = np.cumsum(weights * distances)
        if not chances[-1] > 0:
            break
        drawn = int(np.searchsorted(chances, random.random() * chances[-1], side="right"))
        chosen.append(points[min(drawn, points.size - 1)])
        apart = np.square(points - chosen[-1])
        distances = np.minimum(distances, apart) if len(chosen) > 1 else apart
    return np.unique(chosen or points[:1])


def _starts(points: Points, centers: Points) -> NDArray[np.uint32]:
    """Cut the points where the nearest center changes; centers without points are dropped."""
    nearest = np.searchsorted((centers[:-1] + centers[1:]) / 2, points)
    return np.flatnonzero(np.append(True, nearest[1:] != nearest[:-1])).astype(np.uint32)


def _means(points: Points, weights: Points, starts: NDArray[np.uint32]) -> Points:
    totals = np.add.reduceat(weights, starts)
    sums = np.add.reduceat(points * weights, starts)
    return np.where(totals > 0, sums / np.where(totals > 0, totals, 1), points[starts])
