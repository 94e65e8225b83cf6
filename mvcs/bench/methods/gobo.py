"""GOBO: outliers as they are, and the nearest of a tensor's centroids for all other values.

"GOBO" (MICRO 2020), its outliers and its choice of centroids, as Inshrinkerator (SoCC 2024, section 8.2,
appendix A.2 and table 12) compares it: "KMeans".
"""

from collections.abc import Sequence
from math import log, pi, prod, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mvcs.bench.methods.coding import from_bits, to_bits
from mvcs.bench.methods.method import Floats, Method, Needs, Restored, Setting, Shapes, State, Tensors, split
from mvcs.checkpoint import is_embedding

_OUTLIER = -4.0
_MOST_ROUNDS = 1000
_MOST_BITS = 8


class GOBO(Method):
    """GOBO: a tensor's outliers are the values w with ln N(w; the tensor's mean and deviation) below -4.

    A constant tensor has no outliers, and centroids that are its value. One whose deviation is above 21.8 has
    outliers alone, for no density is larger than -4 there.
    """

    name = "gobo"
    paper = "GOBO (MICRO 2020), outliers and centroid selection; SoCC 2024, section 8.2, table 12"
    differs = (
        "in training as well as after it; embeddings have centroids of their own number (table 12); sums over"
        " sorted values give the centroids of the same rounds; positions of outliers have 32 bits"
    )
    chain = "none"
    axes: ClassVar = {"bins": (8, 16, 32, 64, 128, 256), "embedding_bins": (16, 32)}

    def code(self, tensors: Tensors, state: State | None, setting: Setting, needs: Needs) -> Sequence[bytes]:
        """Return for each tensor the bits of a code and the number of outliers; then what these are of.

        That is the outliers' positions and values, centroids, and codes of the values that are no outliers.
        """
        bits, counts, positions, outliers, centroids, codes = ([b""] for _ in range(6))
        for name, tensor in tensors.items():
            values = tensor.ravel()
            kind = "embedding_bins" if is_embedding((name,), tensor.shape) else "bins"
            bins = int(setting[kind])
            out = _outliers(values)
            rest = values[~out]
            centres = centroids_of(rest, bins)
            between = ((centres[1:].astype(np.float64) + centres[:-1]) / 2).astype(np.float32)
            width = bins.bit_length() - 1
            bits.append(bytes([width]))
            counts.append(np.array(out.sum(), "<u4").tobytes())
            positions.append(np.flatnonzero(out).astype("<u4").tobytes())
            outliers.append(values[out].astype("<f4").tobytes())
            centroids.append(centres.astype("<f4").tobytes())
            codes.append(to_bits(np.searchsorted(between, rest), width))
        return [b"".join(part) for part in (bits, counts, positions, outliers, centroids, codes)]

    def restore(self, sections: Sequence[bytes], shapes: Shapes, state: State | None) -> Restored:
        """Return each code's centroid, and the outliers at their positions."""
        bits, counted, positions, outliers, centroids, codes = sections
        counts = np.frombuffer(counted, "<u4").tolist()
        sizes = [prod(shape) for shape in shapes.values()]
        if not all(0 < width <= _MOST_BITS for width in bits) or any(
            count > size for count, size in zip(counts, sizes, strict=True)
        ):
            raise ValueError("a width or a number of outliers is out of range")
        each = list(zip(shapes, bits, counts, sizes, strict=True))
        of_outliers = {name: (count,) for name, _, count, _ in each}
        places = split(np.frombuffer(positions, "<u4"), of_outliers)
        extremes = split(np.frombuffer(outliers, "<f4"), of_outliers)
        centres = split(np.frombuffer(centroids, "<f4"), {name: (1 << width,) for name, width, _, _ in each})
        packed = split(
            np.frombuffer(codes, np.uint8),
            {name: (-(-width * (size - count) // 8),) for name, width, count, size in each},
        )
        found = dict[str, Floats]()
        for name, width, count, size in each:
            values, inside = np.empty(size, np.float32), np.ones(size, np.bool_)
            inside[places[name]] = False
            values[places[name]] = extremes[name]
            values[inside] = centres[name][from_bits(packed[name].tobytes(), width, size - count)]
            found[name] = values.reshape(shapes[name])
        return found, {}


def centroids_of(values: Floats, bins: int) -> Floats:
    """Return the centroids of values, ascending.

    They begin as the means of equally full parts of the sorted values. Each value goes to the nearest, and
    each centroid becomes the mean of its values, until the sum of distances falls no more.

    Args:
        values: one dimension.
        bins: how many centroids there are.
    """
    ordered = np.sort(values).astype(np.float64)
    if not ordered.size:
        return np.zeros(bins, np.float32)
    sums = np.r_[0, np.cumsum(ordered)]

    def means(ends: NDArray[np.intp], empty: NDArray[np.float64]) -> NDArray[np.float64]:
        full = np.diff(ends)
        return np.where(full > 0, np.diff(sums[ends]) / np.maximum(full, 1), empty)

    ends = np.arange(bins + 1) * ordered.size // bins
    centroids = means(ends, ordered[np.minimum(ends[:-1], ordered.size - 1)])
    least, best = np.inf, centroids
    for _ in range(_MOST_ROUNDS):
        between = np.searchsorted(ordered, (centroids[1:] + centroids[:-1]) / 2)
        ends = np.r_[0, between, ordered.size]
        low, high = ends[:-1], ends[1:]
        middle = np.searchsorted(ordered, centroids).clip(low, high)
        below = centroids * (middle - low) - (sums[middle] - sums[low])
        above = sums[high] - sums[middle] - centroids * (high - middle)
        distance = float((below + above).sum())
        if distance >= least:
            break
        least, best = distance, centroids
        centroids = means(ends, centroids)
    return best.astype(np.float32)


def _outliers(values: Floats) -> NDArray[np.bool_]:
    deviation = float(values.std(dtype=np.float64)) if values.size else 0.0
    if not deviation or values.min() == values.max():
        return np.zeros(values.size, np.bool_)
    farthest = -2 * (_OUTLIER + log(deviation * sqrt(2 * pi)))
    squares: NDArray[np.float64] = np.square((values - values.mean(dtype=np.float64)) / deviation)
    return squares > farthest
