"""Exact weighted k-means on a line, by the plain quadratic dynamic programme."""

import math


def run_cost(points, weights, start, last):
    """Weighted squared distances of points start .. last to their mean."""
    total = math.fsum(weights[start : last + 1])
    if total == 0:
        return 0.0
    mean = (
        math.fsum(p * w for p, w in zip(points[start : last + 1], weights[start : last + 1], strict=True))
        / total
    )
    return math.fsum(
        w * (p - mean) ** 2 for p, w in zip(points[start : last + 1], weights[start : last + 1], strict=True)
    )


def partition_cost(points, weights, starts):
    """Cost of the clusters that begin at the given indices."""
    ends = [*starts[1:], len(points)]
    return sum(run_cost(points, weights, start, end - 1) for start, end in zip(starts, ends, strict=True))


def kmeans(points, weights, k):
    """Start of each of min(k, n) clusters; of equally good starts the smallest."""
    n = len(points)
    clusters = min(k, n)
    if clusters == 0:
        return []
    best = [run_cost(points, weights, 0, last) for last in range(n)]
    choices = []
    for cluster in range(1, clusters):
        costs, starts = [math.inf] * n, [0] * n
        for last in range(cluster, n):
            totals = [best[s - 1] + run_cost(points, weights, s, last) for s in range(cluster, last + 1)]
            costs[last] = min(totals)
            starts[last] = cluster + totals.index(costs[last])
        best = costs
        choices.append(starts)
    result, last = [], n - 1
    for starts in reversed(choices):
        result.append(starts[last])
        last = starts[last] - 1
    return [0, *reversed(result)]
