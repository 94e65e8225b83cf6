"""Sums in double precision, in the kernels' order: sixteen lanes by index, each from its first item on."""

import numpy as np

LANES = 16


def in_lanes(terms):
    """Add the terms of each lane one after another, then the lanes."""
    padded = np.concatenate([terms, np.zeros(-terms.size % LANES)]).reshape(-1, LANES)
    lanes = np.add.accumulate(np.vstack([np.zeros(LANES), padded]), axis=0)[-1]
    return float(np.add.accumulate(np.append(0.0, lanes))[-1])


@np.errstate(all="ignore")
def error_sums(exact, restored):
    """The largest error, squared errors, squared finite values; infinite where a special value was lost."""
    both = np.isfinite(exact) & np.isfinite(restored)
    same = exact.view(np.uint32) == restored.view(np.uint32)
    difference = np.abs(restored.astype(np.float64) - exact.astype(np.float64))
    errors = np.where(both, difference, np.where(same, 0.0, np.inf))
    sizes = np.where(np.isfinite(exact), exact, 0).astype(np.float64)
    return float(errors.max(initial=0.0)), in_lanes(errors * errors), in_lanes(sizes * sizes)


@np.errstate(all="ignore")
def progress_sums(restored, now, before):
    """Kept times moved, and moved squared, where all three are finite."""
    counted = np.isfinite(restored) & np.isfinite(now) & np.isfinite(before)
    start = before.astype(np.float64)
    moved = np.where(counted, now.astype(np.float64) - start, 0.0)
    kept = np.where(counted, restored.astype(np.float64) - start, 0.0)
    return in_lanes(kept * moved), in_lanes(moved * moved)


@np.errstate(all="ignore")
def root_sums(values, roots):
    """The sum of |value| / root in float32, and how many there are."""
    ratios = np.abs(values) / np.sqrt(roots)
    counted = np.isfinite(ratios) & np.isfinite(roots) & (roots > 0)
    return in_lanes(np.where(counted, ratios, 0).astype(np.float64)), int(np.count_nonzero(counted))
