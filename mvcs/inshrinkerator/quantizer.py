"""The quantizer (Inshrinkerator, section 4): some weights are kept, some pruned, the rest codes of a table.

Weights are ranked (4.1) and parted by thresholds of their layer type (4.2), which sketches give (4.3,
`mvcs.quantize`). Each tensor's table is found by weighted k-means (4.4). Averages of gradients for the
ranking (4.5) are those of `mvcs.train.sensitivity`.
What differs from the paper stands in docs/design/007-published-search.md; `published_codes` is what the paper
prints, for arrays.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import mvcs_native
from mvcs.checkpoint import CapturedLeaf, is_embedding, layer_type, path_components
from mvcs.errors import UsageError
from mvcs.objects import DType, Path, chunk_elements, element_count
from mvcs.quantize import (
    MAX_BINS,
    Coded,
    Floats,
    KMeansConfig,
    LatticeContext,
    QuantizerConfig,
    Sketch,
    dequantize,
    from_float32,
    to_float32,
)

Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Points = NDArray[np.float64]
Positions = NDArray[np.uint32]
Scores = Callable[[int], Floats]

MAX_ROUNDS = 100
PRUNED, PROTECTED, FIRST = 0, 1, 2  # levels as published: the values of a table from FIRST on
ALPHA = 0.01  # relative error of the published sketch (4.3)
_EDGE = 0.01  # of a bucket: where float32 may be in the wrong one
_LARGEST_HALF = np.float32(255 * 2.0**120)  # of bfloat16
_SMALLEST_NORMAL = np.finfo(np.float32).smallest_normal
_OUTER = 3  # keys before a weight's own name: a file, a part of the run


@dataclass(frozen=True)
class Importance:
    """Gives the scores of weights, chunk by chunk (section 4.1).

    Attributes:
        moments: the first moment of a weight, by the weight's path.
        given: scores of a weight, larger ones more important, by its name in the model.
    """

    moments: Mapping[Path, CapturedLeaf] = field(default_factory=dict)
    given: Mapping[str, ArrayLike] = field(default_factory=dict)

    def scores(self, leaf: CapturedLeaf) -> Scores | None:
        """Return a function that gives the scores of a chunk by its number; None where none are known.

        The score of a moment m is |m * w|: the optimizer's own average of gradients for the gradient.
        """
        moment = self.moments.get(leaf.path)
        if moment is not None:
            return _products(leaf, moment)
        found = next((self.given[name] for name in _names(leaf.path) if name in self.given), None)
        return None if found is None else _handed_in(leaf, found)


def importance_of(
    config: QuantizerConfig,
    given: Mapping[str, ArrayLike],
    moments: Iterable[tuple[Path, CapturedLeaf]] = (),
) -> Importance:
    """Return the scores that settings ask for.

    Args:
        config: the settings; those of a lattice ask for none.
        given: scores that were handed in, by a weight's name in the model.
        moments: the first moment of each weight, by the weight's path; read where it is asked for.

    Raises:
        UsageError: they have to be handed in, and are not.
    """
    score = config.score if isinstance(config, KMeansConfig) else None
    if score == "sensitivity" and not given:
        raise UsageError(
            "pruning or protecting by sensitivity needs scores of the weights",
            hint="hand them in as importance=, or use momentum",
        )
    if score == "momentum":
        return Importance(moments=dict(moments))
    return Importance(given=given) if score else Importance()


def _products(leaf: CapturedLeaf, moment: CapturedLeaf) -> Scores:
    def scores(index: int) -> Floats:
        first = _part(moment, leaf, index)
        with np.errstate(all="ignore"):
            found: Floats = np.abs(first * _part(leaf, leaf, index))
        return found

    return scores


def _part(of: CapturedLeaf, leaf: CapturedLeaf, index: int) -> Floats:
    """Return the values of a tensor in a chunk of another one's grid."""
    run, width = chunk_elements(leaf.dtype), of.dtype.itemsize
    return to_float32(of.source.part(index * run * width, run * width), of.dtype.name)


def _handed_in(leaf: CapturedLeaf, found: ArrayLike) -> Scores | None:
    values, run = np.asarray(found), chunk_elements(leaf.dtype)
    if values.size != element_count(leaf.shape) or not np.issubdtype(values.dtype, np.floating):
        return None
    flat = values.reshape(-1)

    def scores(index: int) -> Floats:
        found: Floats = np.abs(flat[index * run : (index + 1) * run].astype(np.float32))
        return found

    return scores


def _names(path: Path) -> Iterator[str]:
    """Yield what a weight may be called: its path less the keys before its name in the model, in turn."""
    yield from (".".join(path_components(path[skipped:])) for skipped in range(min(_OUTER, len(path))))


@dataclass(frozen=True)
class Thresholds:
    """What is pruned and what is kept exactly of the weights of one layer type, by magnitude and by score.

    The partition of section 4.2; a share of 0 has no threshold.
    """

    prune_below: float = 0.0
    protect_above: float = math.inf
    score_below: float = 0.0
    score_above: float = math.inf

    @classmethod
    def of(cls, config: KMeansConfig, magnitudes: Sketch, scores: Sketch | None) -> "Thresholds":
        """Return the quantiles of a layer type that settings ask for; without scores those of magnitudes."""
        by_score = scores and config.metric != "magnitude"
        halves = scores and config.protects_by != "magnitude"
        kept = config.protect / 2 if halves else config.protect
        return cls(
            0.0 if by_score else _lowest(magnitudes, config.prune),
            _highest(magnitudes, kept),
            _lowest(scores, config.prune) if scores and by_score else 0.0,
            _highest(scores, kept) if scores and halves else math.inf,
        )

    @property
    def scored(self) -> bool:
        """Whether scores are looked at."""
        return self.score_below > 0 or self.score_above < math.inf

    def partition(self, values: Floats, scores: Floats | None) -> tuple[Mask, Mask]:
        """Tell which values are pruned and which are protected; the latter counts where both are."""
        magnitudes = np.abs(values)
        pruned, protected = magnitudes < self.prune_below, magnitudes > self.protect_above
        if scores is not None:
            pruned |= scores < self.score_below
            protected |= scores > self.score_above
        return pruned & ~protected, protected


@dataclass
class TableQuantizer:
    """Makes the codings of the weights of one commit.

    Attributes:
        config: the settings.
        importance: gives scores, where the settings ask for some.
        type_of: gives the layer type of a weight, whose thresholds it shares.
        thresholds: of each layer type, once `prepare` has seen all weights.
    """

    config: KMeansConfig
    importance: Importance
    type_of: Callable[[CapturedLeaf], str] = lambda leaf: layer_type(leaf.path, leaf.shape)
    thresholds: dict[str, Thresholds] = field(default_factory=dict)

    def prepare(self, leaves: Iterable[CapturedLeaf]) -> None:
        """Look at all weights for the thresholds of their layer types."""
        if not self.config.shares_by_type:
            return
        kinds: dict[str, list[CapturedLeaf]] = defaultdict(list)
        for leaf in leaves:
            kinds[self.type_of(leaf)].append(leaf)
        self.thresholds = {kind: self._partition(found) for kind, found in kinds.items()}

    def coding(self, leaf: CapturedLeaf) -> "TableCoding":
        """Return the coding of one weight."""
        return self._fitted(leaf, layer_config(self.config, leaf.path, leaf.shape), self._thresholds(leaf))

    def finer(self, leaf: CapturedLeaf, coding: "TableCoding") -> "TableCoding | None":
        """Return a coding that prunes nothing, or one with twice as many values; None where none has more."""
        thresholds = replace(self._thresholds(leaf), prune_below=0.0, score_below=0.0)
        bins = coding.bins if coding.codebook.zero is not None else min(2 * coding.bins, MAX_BINS)
        if coding.codebook.zero is None and coding.bins == MAX_BINS:
            return None
        return self._fitted(
            leaf, replace(layer_config(self.config, leaf.path, leaf.shape), bins=bins), thresholds
        )

    def _fitted(self, leaf: CapturedLeaf, config: KMeansConfig, thresholds: Thresholds) -> "TableCoding":
        scores = self.importance.scores(leaf) if thresholds.scored else None
        seen = Sketch.of(_values(leaf)) if scores is None else _left_over(leaf, thresholds, scores)
        codebook = fit_codebook(seen, config, leaf.dtype.name, thresholds)
        return TableCoding(codebook, leaf.dtype, thresholds, scores, config.bins)

    def _thresholds(self, leaf: CapturedLeaf) -> Thresholds:
        return self.thresholds.get(self.type_of(leaf), Thresholds())

    def _partition(self, leaves: list[CapturedLeaf]) -> Thresholds:
        """Return thresholds at the quantiles of magnitudes and scores over a layer type."""
        config = layer_config(self.config, leaves[0].path, leaves[0].shape)
        magnitudes = Sketch.of(values for leaf in leaves for values in _values(leaf))
        scores = self._scores(leaves) if config.score else None
        return Thresholds.of(config, magnitudes, scores)

    def _scores(self, leaves: list[CapturedLeaf]) -> Sketch | None:
        """Return the sketch of the scores of a layer type; None where some tensor has none."""
        sketch = Sketch()
        for leaf in leaves:
            scores = self.importance.scores(leaf)
            if scores is None:
                return None
            for index in range(-(-element_count(leaf.shape) // chunk_elements(leaf.dtype))):
                sketch.add(scores(index))
        return sketch


def layer_config(config: KMeansConfig, path: Path, shape: Sequence[int]) -> KMeansConfig:
    """Return the settings for a weight: embeddings may have bins of their own, and are not pruned then."""
    if config.embedding_bins is None or not is_embedding(path, shape):
        return config
    return replace(config, bins=config.embedding_bins, prune=0.0)


def _left_over(leaf: CapturedLeaf, thresholds: Thresholds, scores: Scores) -> Sketch:
    """Return the sketch of the values that are neither pruned nor kept exactly."""
    sketch = Sketch()
    for index, values in enumerate(_values(leaf)):
        pruned, protected = thresholds.partition(values, scores(index))
        sketch.add(values[~(pruned | protected)])
    return sketch


def _values(leaf: CapturedLeaf) -> Iterator[Floats]:
    """Yield the chunks of a tensor as float32."""
    return (to_float32(part, leaf.dtype.name) for part in leaf.views())


def _lowest(sketch: Sketch, share: float) -> float:
    return sketch.magnitude_quantile(share, "low") if share else 0.0


def _highest(sketch: Sketch, share: float) -> float:
    return sketch.magnitude_quantile(share, "high") if share else math.inf


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
    def levels(self) -> int:
        """Number of different codes, that of exceptions included, which is the largest."""
        return int(self.table.size) + 1

    def table_bytes(self, dtype: str) -> bytes:
        """Return the table as it stands in a tensor object: little-endian elements of the restored type."""
        return from_float32(self.table, dtype)


def fit_codebook(
    sketch: Sketch, config: KMeansConfig, dtype: str, thresholds: Thresholds = Thresholds()
) -> Codebook:
    """Fit a table to one tensor: exact one-dimensional k-means on its sketch, in value space.

    Follows section 4.4 and algorithm 2, with the exact optimum for weighted k-means++.
    What is pruned is left to a level of 0.0, what is protected to exceptions.
    A tensor of no more distinct values than bins, at most two in a sketch bucket, gets a table of just these.

    Args:
        sketch: of the tensor's values as float32; where scores are looked at, of those that are left over.
        config: bins, sigma, and where k-means starts.
        dtype: the element type the tensor is restored to.
        thresholds: usually of the tensor's whole layer type.
    """
    points, counts = _kept(*sketch.extremes(), thresholds)
    if points.size > config.bins:
        points, counts = _kept(*sketch.points(), thresholds)
    centers = _clustered(points, counts, config)
    prunes = max(thresholds.prune_below, thresholds.score_below) > 0
    table = _restorable(np.append(centers, 0.0) if prunes else centers, dtype)
    return Codebook(table, int(np.searchsorted(table, 0.0)) if prunes else None)


def _kept(
    points: Points, counts: NDArray[np.uint64], thresholds: Thresholds
) -> tuple[Points, NDArray[np.uint64]]:
    magnitudes = np.abs(points)
    kept = (magnitudes >= thresholds.prune_below) & (magnitudes <= thresholds.protect_above)
    return points[kept], counts[kept]


def _clustered(points: Points, counts: NDArray[np.integer[Any]], config: KMeansConfig) -> Points:
    """Return the centers of weighted k-means (algorithm 2)."""
    weights = _weights(points, counts, config.sigma)
    if config.init == "++":
        starts = kmeans_plus_plus(points, weights, config.bins, config.seed)
    else:
        starts = mvcs_native.kmeans(points, weights, config.bins)
    return _centers(points, weights, starts)


def _weights(points: Points, counts: NDArray[np.integer[Any]], sigma: float | None) -> Points:
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


def quantize(
    values: Floats, codebook: Codebook, thresholds: Thresholds = Thresholds(), scores: Floats | None = None
) -> tuple[Bytes, Positions]:
    """Give every value the code of the nearest table value, the lower one of two equally near.

    What is pruned gets the zero level, where there is one. Exceptions are what is protected, infinities, NaNs
    and subnormals, and everything where the table is empty.

    Args:
        values: float32 [n], at most 2^32 of them.
        codebook: the tensor's table.
        thresholds: of what is pruned and protected.
        scores: float32 [n], not negative; of a NaN the magnitude alone counts.

    Returns:
        uint8 [n], the codes, and uint32, the ascending positions of exceptions.
    """
    flat = np.ascontiguousarray(values).reshape(-1)
    codes = mvcs_native.empty(flat.size, np.uint8)
    mvcs_native.assign(flat, _bounds(codebook.table), codes)
    pruned, protected = thresholds.partition(flat, scores)
    if codebook.zero is not None:
        codes[pruned] = codebook.zero
    magnitudes = np.abs(flat)
    kept = ~protected & (magnitudes < np.inf) & ((magnitudes >= _SMALLEST_NORMAL) | (magnitudes == 0))
    marked = ~kept if codebook.table.size else np.ones(flat.size, np.bool_)
    exceptions = np.flatnonzero(marked).astype(np.uint32)
    codes[exceptions] = codebook.table.size
    return codes, exceptions


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
        thresholds: of what becomes zero and what is kept.
        scores: gives the scores of a chunk by its number; None where magnitudes alone count.
        bins: how many values were asked for; a table has fewer where some come out equal.
    """

    codebook: Codebook
    dtype: DType
    thresholds: Thresholds = Thresholds()
    scores: Scores | None = None
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
        scores = None if self.scores is None else self.scores(index)
        codes, marked = quantize(values, self.codebook, self.thresholds, scores)
        elements = np.frombuffer(part, f"<u{self.dtype.itemsize}")
        raw = marked.astype("<u4").tobytes() + elements[marked].tobytes() if marked.size else b""
        return Coded(codes, raw)

    def restore(self, coded: Coded, index: int, count: int) -> bytes:  # noqa: ARG002 - all chunks are alike
        """Return the elements of a coded chunk."""
        return dequantize(coded.codes, self.parameters, self.dtype.itemsize, coded.exceptions)


@dataclass(frozen=True)
class PublishedCodes:
    """The weights of one layer type in the levels of the paper.

    Another number of bins moves neither what is pruned nor what is protected.

    Attributes:
        codes: uint8 [n]: 0 is pruned, 1 protected; from 2 on the values of the table.
        table: float32, ascending, at most 253.
        protected: the protected weights in their order, bfloat16, little-endian.
    """

    codes: Bytes
    table: Floats
    protected: bytes

    @property
    def levels(self) -> int:
        """How many levels there are."""
        return FIRST + self.table.size

    def restored(self) -> Floats:
        """Return the weights.

        Raises:
            ValueError: a code has no value, or there are more or fewer protected weights than codes of them.
        """
        marked = self.codes == PROTECTED
        if self.codes.size and self.codes.max() >= self.levels:
            raise ValueError(f"there is no level {self.codes.max()} of {self.levels}")
        if len(self.protected) != 2 * np.count_nonzero(marked):
            raise ValueError("protected weights and their codes disagree")
        values = np.append(np.zeros(FIRST, np.float32), self.table)[self.codes]
        values[marked] = to_float32(np.frombuffer(self.protected, np.uint8), "bfloat16")
        return values


def published_codes(values: Floats, scores: Floats | None, config: KMeansConfig) -> PublishedCodes:
    """Quantize the weights of one layer type as the paper prints it (sections 4.1 to 4.4).

    The table is that of all of them: sketches can be merged. Thresholds come from the sketch of
    `mvcs.quantize`, whose error is smaller than the paper's.

    Args:
        values: float32 [n], finite.
        scores: float32 [n], not negative: how sensitive the loss is; None where that is not known.
        config: with sigma and `init="++"`.
    """
    seen = Thresholds.of(config, Sketch.of([values]), None if scores is None else Sketch.of([scores]))
    pruned, protected = seen.partition(values, scores)
    centers = _clustered(*log_buckets(values[~(pruned | protected)]), config)
    table = np.unique(centers.astype(np.float32))
    codes = mvcs_native.empty(values.size, np.uint8)
    mvcs_native.assign(values, _bounds(table), codes)
    codes += np.uint8(FIRST)
    codes[pruned], codes[protected] = PRUNED, PROTECTED
    kept = values[protected].clip(-_LARGEST_HALF, _LARGEST_HALF)
    return PublishedCodes(codes, table, from_float32(kept, "bfloat16"))


def log_buckets(values: Floats, alpha: float = ALPHA) -> tuple[Points, NDArray[np.int64]]:
    """Return the centers of the paper's buckets, ascending, and how many values are in each (algorithm 1).

    With g = (1 + alpha) / (1 - alpha), bucket i of a sign holds magnitudes above g^(i-1) up to g^i, and its
    center 2g^i / (g + 1) is off by at most alpha of them. Zeros have a bucket of their own.

    Args:
        values: float32 [n], finite.
        alpha: the relative error.
    """
    growth = (1 + alpha) / (1 - alpha)
    negative, nonzero = values < 0, values[values != 0]
    magnitudes, negative = np.abs(nonzero), negative[values != 0]
    if not nonzero.size:
        return np.zeros(min(1, values.size)), np.full(min(1, values.size), values.size)
    exponents = np.log(magnitudes) / np.float32(math.log(growth))
    index = np.ceil(exponents).astype(np.int64)
    close = np.abs(exponents - np.rint(exponents)) < _EDGE
    index[close] = np.ceil(np.log(magnitudes[close].astype(np.float64)) / math.log(growth))
    low = int(index.min())
    places = index - low + 1
    half = int(places.max()) + 1
    counts = np.bincount(half + np.where(negative, -places, places), minlength=2 * half)
    counts[half] = values.size - nonzero.size
    centers = 2 * growth ** (low - 1 + np.arange(1.0, half)) / (growth + 1)
    points = np.concatenate([[0.0], -centers[::-1], [0.0], centers])
    return points[counts > 0], counts[counts > 0]


def kmeans_plus_plus(points: Points, weights: Points, k: int, seed: int) -> NDArray[np.uint32]:
    """Return the first index of each of at most min(k, n) clusters.

    Arthur and Vassilvitskii, "k-means++: the advantages of careful seeding" (2007), weighted as in
    algorithm 3; then Lloyd's iteration until nothing moves, 100 rounds at most.

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
