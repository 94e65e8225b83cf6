"""An integer sketch of a distribution: relative error bounded, mergeable, the same on every machine."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

import mvcs_native
from mvcs.objects import DType
from mvcs.quantize.float_values import Floats, to_float32

Points: TypeAlias = tuple[NDArray[np.float64], NDArray[np.uint64]]
FewPoints: TypeAlias = tuple[NDArray[np.float64], NDArray[np.int64], int]
"""Points in the order of their patterns, how many values each stands for, and the zeros beside them."""

_BUCKETS = 1 << 16
_MAGNITUDES = 1 << 15
_INFINITY = 0x7F80  # the top 16 bits of +inf; larger magnitudes are NaNs
_SUBNORMAL = 0x007F  # the largest top 16 bits of a zero or subnormal magnitude
_TOGETHER = 64  # parts of few values, so that they stay in the cache
_PATTERN = np.uint32(0x7FFFFFFF)
RUNS, RUN = 8, 1 << 9  # of every chunk; a state has hundreds of chunks


class Sketch:
    """Counts of float32 values by the top 16 bits of their pattern: sign, exponent and 7 bits of fraction.

    DDSketch's logarithmic histogram (Inshrinkerator, section 4.3) without a logarithm: a bucket spans at most
    1/128 of its values. Only integers are kept, so the order of values, chunks and merges is irrelevant.

    Attributes:
        counts: uint64 [65536], values in each bucket, infinities and NaNs included.
        low: uint32 [65536], the smallest pattern seen in each bucket, 0xFFFFFFFF where none was.
        high: uint32 [65536], the largest pattern seen in each bucket, 0 where none was.
    """

    def __init__(self) -> None:
        self.counts: NDArray[np.uint64] = np.zeros(_BUCKETS, np.uint64)
        self.low: NDArray[np.uint32] = np.full(_BUCKETS, 0xFFFFFFFF, np.uint32)
        self.high: NDArray[np.uint32] = np.zeros(_BUCKETS, np.uint32)

    @classmethod
    def of(cls, parts: Iterable[Floats]) -> "Sketch":
        """Return the sketch of float32 values that come in parts of any shape."""
        sketch = cls()
        for values in parts:
            sketch.add(values)
        return sketch

    def add(self, values: Floats) -> None:
        """Count float32 values of any shape."""
        mvcs_native.sketch(np.ascontiguousarray(values).reshape(-1), self.counts, self.low, self.high)

    def merge(self, other: "Sketch") -> None:
        """Count everything the other sketch has counted."""
        self.counts += other.counts
        np.minimum(self.low, other.low, out=self.low)
        np.maximum(self.high, other.high, out=self.high)

    def magnitude_quantile(self, fraction: float, tail: Literal["low", "high"]) -> float:
        """Return the magnitude that about a fraction of the finite values is below ("low") or above ("high").

        The rank is interpolated between the patterns its bucket has seen: the relative error is at most
        1/128, and repeated values are all on one side. A share of no value is 0.0 below, infinity above.
        """
        counts, low, high = self._magnitudes()
        reached = np.cumsum(counts)
        total = int(reached[-1])
        share = int(fraction * total)
        if share == 0:
            return 0.0 if tail == "low" else float("inf")
        rank = share if tail == "low" else total - share
        bucket = int(np.searchsorted(reached, rank, side="left" if tail == "low" else "right"))
        inside = rank - (int(reached[bucket]) - int(counts[bucket]))
        first, last = int(low[bucket]), int(high[bucket])
        pattern = first + (last - first) * inside // int(counts[bucket])
        return float(np.uint32(pattern).view(np.float32))

    def points(self) -> Points:
        """Return the representatives of the finite buckets, ascending, and how many values each stands for.

        A bucket's is its one value, or the middle between its smallest and largest. Subnormals are left out,
        since they are kept exactly; both zeros are one point.
        """
        low, high, counts = self._normal_buckets()
        return _with_zero(_middles(low, high), counts, self._zeros())

    def extremes(self) -> Points:
        """Return the points of two for every bucket that saw more than one value: its smallest and largest.

        Where buckets are few these are all the values there are, if no bucket saw more than two.
        """
        low, high, counts = self._normal_buckets()
        single = low == high
        patterns = np.concatenate([low, high[~single]])
        halves = np.concatenate([np.where(single, counts, counts - counts // 2), counts[~single] // 2])
        return _with_zero(patterns.view(np.float32).astype(np.float64), halves, self._zeros())

    def _normal_buckets(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint64]]:
        magnitude = np.arange(_BUCKETS) & (_MAGNITUDES - 1)
        used = (self.counts > 0) & (magnitude > _SUBNORMAL) & (magnitude < _INFINITY)
        return self.low[used], self.high[used], self.counts[used]

    def _zeros(self) -> int:
        """Values in the two buckets of zero, where a zero was seen; a few may be subnormals."""
        return sum(int(self.counts[b]) for b in (0, _MAGNITUDES) if int(self.low[b]) == b << 16)

    def _magnitudes(self) -> tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.uint32]]:
        """Both signs of every finite bucket together: counts, and the patterns without the sign."""
        positive, negative = slice(0, _INFINITY), slice(_MAGNITUDES, _MAGNITUDES + _INFINITY)
        seen = self.counts[negative] > 0
        low = np.where(seen, self.low[negative] & _PATTERN, self.low[negative])
        high = self.high[negative] & _PATTERN
        counts = self.counts[positive] + self.counts[negative]
        return counts, np.minimum(self.low[positive], low), np.maximum(self.high[positive], high)


def points_of_few(parts: Sequence[Floats]) -> list[FewPoints]:
    """Return what `Sketch.points` gives of each part, of few values, without its 65,536 buckets.

    Parts of one size are sorted and looked at together: of each by itself the calls take longest.
    """
    alike: dict[int, list[int]] = defaultdict(list)
    for place, part in enumerate(parts):
        alike[part.size].append(place)
    found: dict[int, FewPoints] = {}
    for places in alike.values():
        for start in range(0, len(places), _TOGETHER):
            group = places[start : start + _TOGETHER]
            found |= zip(group, _points_alike([parts[place] for place in group]), strict=True)
    return [found[place] for place in range(len(parts))]


def _points_alike(parts: Sequence[Floats]) -> Iterator[FewPoints]:
    rows = np.sort(np.stack([part.reshape(-1) for part in parts]).view(np.uint32), axis=1)
    buckets = rows >> np.uint32(16)
    begins = np.ones(rows.shape, np.bool_)
    np.not_equal(buckets[:, 1:], buckets[:, :-1], out=begins[:, 1:])
    starts, patterns = np.flatnonzero(begins), rows.reshape(-1)
    ends = np.append(starts, patterns.size)[1:]
    counts, low, high = ends - starts, patterns[starts], patterns[ends - 1]
    magnitude = (low >> np.uint32(16)) & np.uint32(_MAGNITUDES - 1)
    used = (magnitude > _SUBNORMAL) & (magnitude < _INFINITY)
    zeros = np.where((magnitude == 0) & (low << np.uint32(1) == 0), counts, 0)
    # Rows begin where a bucket does, so that what is before a row is counted by what is before its bucket.
    edges = np.searchsorted(starts, np.arange(len(parts) + 1) * rows.shape[1])
    before, zeros_before = (np.append(0, np.cumsum(each)) for each in (used, zeros))
    values, amounts = _middles(low[used], high[used]), counts[used]
    for begin, end in pairwise(edges.tolist()):
        own = slice(before[begin], before[end])
        yield values[own], amounts[own], int(zeros_before[end] - zeros_before[begin])


def _middles(low: NDArray[np.uint32], high: NDArray[np.uint32]) -> NDArray[np.float64]:
    return (low.view(np.float32).astype(np.float64) + high.view(np.float32).astype(np.float64)) / 2


def _with_zero(values: NDArray[np.float64], counts: NDArray[np.uint64], zeros: int) -> Points:
    if zeros:
        values = np.append(values, 0.0)
        counts = np.append(counts, np.uint64(zeros))
    order = np.argsort(values, kind="stable")
    return values[order], counts[order]


def runs(count: int) -> list[slice]:
    """Return where the sample of a chunk of so many values lies: evenly spaced runs, or all of it."""
    if count <= RUNS * RUN:
        return [slice(0, count)]
    starts = (number * (count - RUN) // (RUNS - 1) for number in range(RUNS))
    return [slice(start, start + RUN) for start in starts]


def sample_of(part: memoryview, dtype: DType) -> Floats:
    """Return the sample of a chunk."""
    elements = np.frombuffer(part, np.uint8).reshape(-1, dtype.itemsize)
    taken = np.concatenate([elements[run] for run in runs(len(elements))])
    return to_float32(taken.reshape(-1), dtype.name)
