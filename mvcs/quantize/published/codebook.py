"""Code tables: the values a tensor may take, fitted to its sketch."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import mvcs_native
from mvcs.errors import UsageError
from mvcs.quantize.config import KMeansConfig, QuantizerConfig
from mvcs.quantize.float_values import Floats, from_float32, to_float32
from mvcs.quantize.published.plusplus import kmeans_plus_plus
from mvcs.quantize.sketch import Sketch

Points = NDArray[np.float64]


@dataclass(frozen=True)
class Codebook:
    """The value of each code.

    Attributes:
        table: float32 [levels], ascending, distinct, each a value of the restored element type.
        zero: the code of the value 0.0 that pruned values get, or None where nothing is pruned.
    """

    table: Floats
    zero: int | None = None

    @property
    def exception(self) -> int:
        """The code that marks an exception: one more than the largest code of a value."""
        return int(self.table.size)

    @property
    def levels(self) -> int:
        """Number of different codes, the mark of exceptions included."""
        return int(self.table.size) + 1

    def table_bytes(self, dtype: str) -> bytes:
        """Return the table as it stands in a tensor object: little-endian elements of the restored type."""
        return from_float32(self.table, dtype)


def fit_codebook(
    sketch: Sketch,
    config: QuantizerConfig,
    *,
    dtype: str,
    prune_below: float = 0.0,
    protect_above: float = math.inf,
    prunes: bool = False,
) -> Codebook:
    """Fit a table to one tensor: exact one-dimensional k-means on its sketch, in value space.

    Follows Inshrinkerator, section 4.4 and Algorithm 2, with the exact optimum for weighted k-means++.
    Magnitudes below `prune_below` are left to a level of 0.0, those above `protect_above` to exceptions.
    A tensor of no more distinct values than bins, at most two in a sketch bucket, gets a table of just these.

    Args:
        sketch: of the tensor's values as float32.
        config: a `KMeansConfig`: bins, sigma, and where k-means starts.
        dtype: the element type the tensor is restored to.
        prune_below: magnitude threshold, usually of the tensor's whole layer type.
        protect_above: magnitude threshold, likewise.
        prunes: values that the sketch has not seen get a level of 0.0 too.

    Raises:
        UsageError: the configuration is of another quantizer.
    """
    if not isinstance(config, KMeansConfig):
        raise UsageError(f"code tables are fitted by kmeans, not by {config.method}")
    points, counts = _kept(*sketch.extremes(), prune_below, protect_above)
    if points.size > config.bins:
        points, counts = _kept(*sketch.points(), prune_below, protect_above)
    weights = _weights(points, counts, config.sigma)
    centers = _centers(points, weights, _clusters(points, weights, config))
    prunes = prunes or prune_below > 0
    table = _restorable(np.append(centers, 0.0) if prunes else centers, dtype)
    return Codebook(table, int(np.searchsorted(table, 0.0)) if prunes else None)


def _clusters(points: Points, weights: Points, config: KMeansConfig) -> NDArray[np.uint32]:
    if config.init == "++":
        return kmeans_plus_plus(points, weights, config.bins, config.seed)
    return mvcs_native.kmeans(points, weights, config.bins)


def _kept(
    points: Points, counts: NDArray[np.uint64], prune_below: float, protect_above: float
) -> tuple[Points, NDArray[np.uint64]]:
    magnitudes = np.abs(points)
    kept = (magnitudes >= prune_below) & (magnitudes <= protect_above)
    return points[kept], counts[kept]


def _weights(points: Points, counts: NDArray[np.uint64], sigma: float | None) -> Points:
    """Weigh points by count, or with sigma by counts and magnitudes, each normalized to a sum of 1."""
    frequency = counts.astype(np.float64)
    if sigma is None:
        return frequency
    magnitude = np.abs(points)
    total = math.fsum(magnitude) or 1.0
    return sigma * (frequency / (math.fsum(frequency) or 1.0)) + (1 - sigma) * (magnitude / total)


def _centers(points: Points, weights: Points, starts: NDArray[np.uint32]) -> Points:
    """Return the weighted mean of each cluster; exact sums, so that no summation order shows in a table."""
    ends = np.append(starts[1:], points.size)
    clusters = (
        [slice(int(start), int(end)) for start, end in zip(starts, ends, strict=True)] if points.size else []
    )
    return np.array([_mean(points[cluster], weights[cluster]) for cluster in clusters], np.float64)


def _mean(points: Points, weights: Points) -> float:
    if points.size == 1:
        return float(points[0])
    total = math.fsum(weights)
    return math.fsum(points * weights) / total if total > 0 else float(points[0])


def _restorable(centers: Points, dtype: str) -> Floats:
    """Round to values of the restored type; equal ones, and the two zeros, become one."""
    rounded = to_float32(from_float32(centers.astype(np.float32), dtype), dtype)
    return np.unique(rounded + np.float32(0.0))
