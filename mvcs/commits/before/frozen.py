"""Frozen weights: those that the parent was handed bit for bit, or that are what it restores."""

from collections.abc import Iterable
from contextlib import suppress

import numpy as np

from mvcs.checkpoint import CapturedLeaf
from mvcs.commits.before.earlier_weights import EarlierWeights
from mvcs.commits.before.parent_codes import ParentCodes
from mvcs.commits.before.snap_back import SnapBack
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.objects import ExactTensor, Kind, Leaf, Path, element_count, object_id
from mvcs.quantize import WIDE_DTYPE, to_float32, upper_halves

_LOOKED_AT = 1 << 12  # values that tell most weights that were trained

Weights = Iterable[tuple[CapturedLeaf, Leaf | None]]


def frozen_steps(
    weights: Weights, parents: ParentCodes, earlier: EarlierWeights | None, guard: SnapBack | None
) -> dict[Path, int]:
    """Return the step byte of every weight on a lattice that did not change since the parent.

    Args:
        weights: each with the parent's leaf.
        parents: knows the parent's tensors.
        earlier: weights of an earlier commit, which tell soon that others did change; None for none.
        guard: knows what the state was lossily restored from; None where it was not.
    """
    found = ((leaf, base, parents.step(base)) for leaf, base in weights)
    return {
        leaf.path: step
        for leaf, base, step in found
        if base and step is not None and (_was_handed(leaf, base, earlier) or _is_restored(leaf, base, guard))
    }


def _was_handed(leaf: CapturedLeaf, base: Leaf, earlier: EarlierWeights | None) -> bool:
    """Tell whether a weight is bit for bit what was handed over to the parent."""
    if earlier is not None and not _seems_unchanged(leaf, earlier):
        return False
    chunks = tuple(object_id(Kind.CHUNK, part) for part in leaf.views())
    return ExactTensor(leaf.dtype, leaf.shape, chunks).id == base.exact


def _seems_unchanged(leaf: CapturedLeaf, earlier: EarlierWeights) -> bool:
    """Compare the first values of a weight; hashing all of them costs more."""
    old = earlier.find(leaf)
    if old is None:
        return True
    begin = leaf.source.part(0, min(_LOOKED_AT, element_count(leaf.shape)) * leaf.dtype.itemsize)
    now = upper_halves(begin, leaf.dtype.name)
    return bool(np.array_equal(now, old[: now.size]))


def _is_restored(leaf: CapturedLeaf, base: Leaf, guard: SnapBack | None) -> bool:
    """Tell whether a weight is what the parent restores, as it is after a lossy restore."""
    if guard is None or not guard.leaves or leaf.dtype.name == WIDE_DTYPE:
        return False
    origin = guard.leaves.get(leaf.path)
    if origin is None or origin.value != base.value:
        return False
    with suppress(CorruptionError, NotFoundError):
        before = guard.before(leaf)
        return before is not None and all(
            np.array_equal(old.view(np.uint32), to_float32(part, leaf.dtype.name).view(np.uint32))
            for part, old in zip(leaf.views(), before, strict=True)
        )
    return False
