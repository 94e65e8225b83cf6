"""Code tables: the nearest of a few values, found by weighted one-dimensional k-means."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

import mvcs_native
from mvcs.errors import CorruptionError, UsageError
from mvcs.objects import DType
from mvcs.quantize.config import KMeansConfig, QuantizerConfig
from mvcs.quantize.float_values import Bytes, Floats, from_float32, to_float32
from mvcs.quantize.outliers import Buffer, split
from mvcs.quantize.quantizer import Coded, LatticeContext
from mvcs.quantize.sketch import Sketch

Points = NDArray[np.float64]
Positions = NDArray[np.uint32]

_SMALLEST_NORMAL = np.finfo(np.float32).smallest_normal
MAX_ROUNDS = 100


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
    if config.init == "++":
        starts = kmeans_plus_plus(points, weights, config.bins, config.seed)
    else:
        starts = mvcs_native.kmeans(points, weights, config.bins)
    centers = _centers(points, weights, starts)
    prunes = prunes or prune_below > 0
    table = _restorable(np.append(centers, 0.0) if prunes else centers, dtype)
    return Codebook(table, int(np.searchsorted(table, 0.0)) if prunes else None)


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


@dataclass(frozen=True)
class Quantized:
    """The codes of a run of values.

    Attributes:
        codes: uint8 [n]; the codebook's `exception` marks a value that is kept exactly.
        exceptions: uint32, ascending positions of those values.
    """

    codes: Bytes
    exceptions: Positions


@dataclass(frozen=True)
class ScoredValues:
    """How important the values of a run are, beside their magnitudes.

    Attributes:
        scores: float32 [n], not negative; a NaN is neither pruned nor kept.
        prune_below: what has a smaller score gets the zero level.
        protect_above: what has a larger one is an exception.
    """

    scores: Floats
    prune_below: float = 0.0
    protect_above: float = math.inf


def quantize(
    values: Floats,
    codebook: Codebook,
    prune_below: float,
    protect_above: float,
    scored: ScoredValues | None = None,
) -> Quantized:
    """Give every value the code of the nearest table value, the lower one of two equally near.

    Magnitudes below `prune_below` get the zero level. Exceptions are the magnitudes above `protect_above`,
    infinities, NaNs and subnormals, and everything where the table is empty.

    Args:
        values: float32 [n], at most 2^32 of them.
        codebook: the tensor's table.
        prune_below: magnitude threshold; has no effect without a zero level.
        protect_above: magnitude threshold.
        scored: further thresholds, on something else than magnitudes.
    """
    flat = np.ascontiguousarray(values).reshape(-1)
    codes = mvcs_native.empty(flat.size, np.uint8)
    mvcs_native.assign(flat, _bounds(codebook.table), codes)
    magnitudes = np.abs(flat)
    if codebook.zero is not None:
        codes[magnitudes < prune_below] = codebook.zero
        if scored is not None:
            codes[scored.scores < scored.prune_below] = codebook.zero
    kept = (magnitudes <= protect_above) & (magnitudes < np.inf)
    kept &= (magnitudes >= _SMALLEST_NORMAL) | (magnitudes == 0)
    if scored is not None:
        kept &= ~(scored.scores > scored.protect_above)
    exceptions = np.flatnonzero(~kept if codebook.table.size else np.ones(flat.size, np.bool_)).astype(
        np.uint32
    )
    codes[exceptions] = codebook.exception
    return Quantized(codes, exceptions)


def dequantize(codes: Buffer, table: Buffer, width: int, positions: Positions, exact: Buffer) -> bytes:
    """Restore the bytes of a run of values.

    Args:
        codes: one byte a value.
        table: the value of each code as little-endian elements of the restored type.
        width: bytes of an element: 1, 2, 4 or 8.
        positions: ascending positions of the exceptions.
        exact: the elements at those positions.

    Raises:
        CorruptionError: a code has no value, or exceptions and their codes disagree.
    """
    entries = np.frombuffer(table, np.uint8)
    if entries.size % width:
        raise CorruptionError("a code table is not whole elements")
    values = entries.view(f"<u{width}")
    levels = values.size
    code = np.frombuffer(codes, np.uint8)
    marked = np.flatnonzero(code == levels)
    kept = np.frombuffer(exact, np.uint8)
    if code.size and int(code.max()) > levels:
        raise CorruptionError(f"a code of {int(code.max())} has no value in a table of {levels}")
    if not np.array_equal(marked, positions) or kept.size != marked.size * width:
        raise CorruptionError("the exceptions of a chunk do not agree with its codes")
    restored = np.append(values, values.dtype.type(0)).take(code)
    restored[marked] = kept.view(f"<u{width}")
    return restored.tobytes()


def _bounds(table: Floats) -> Floats:
    """Return the largest float32 that is nearer to the lower of two neighbours, or equally near."""
    middles = (table[:-1].astype(np.float64) + table[1:].astype(np.float64)) / 2
    bounds = middles.astype(np.float32)
    above = bounds.astype(np.float64) > middles
    bounds[above] = np.nextafter(bounds[above], np.float32(-np.inf))
    return bounds


@dataclass(frozen=True)
class TableCoding:
    """A value becomes the code of the nearest in a table; large ones are kept exactly, small ones pruned.

    Attributes:
        codebook: the table.
        dtype: element type of the tensor.
        prune_below: magnitude below which a value becomes zero.
        protect_above: magnitude above which a value is kept.
        scored: gives further scores of a chunk, and their thresholds, by its number.
        bins: how many values were asked for; a table has fewer where some come out equal.
    """

    codebook: Codebook
    dtype: DType
    prune_below: float = 0.0
    protect_above: float = math.inf
    scored: Callable[[int], ScoredValues] | None = None
    bins: int = 0
    width: int = field(default=1, init=False)

    @property
    def parameters(self) -> bytes:
        """The table."""
        return self.codebook.table_bytes(self.dtype.name)

    @property
    def levels(self) -> int:
        """Codes of values, and the mark of an exception."""
        return self.codebook.levels

    def code(self, part: memoryview, index: int, context: LatticeContext | None) -> Coded:  # noqa: ARG002 - no lattice
        """Quantize one chunk."""
        values = to_float32(part, self.dtype.name)
        scored = None if self.scored is None else self.scored(index)
        found = quantize(values, self.codebook, self.prune_below, self.protect_above, scored)
        elements = np.frombuffer(part, f"<u{self.dtype.itemsize}")
        marked = found.exceptions
        raw = marked.astype("<u4").tobytes() + elements[marked].tobytes() if marked.size else b""
        return Coded(found.codes, raw)

    def restore(self, coded: Coded, index: int, count: int) -> Buffer:  # noqa: ARG002 - all chunks are alike
        """Return the elements of a coded chunk."""
        width = self.dtype.itemsize
        return dequantize(coded.codes, self.parameters, width, *split(coded.exceptions, width))


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
