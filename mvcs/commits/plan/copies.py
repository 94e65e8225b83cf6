"""Low-precision copies: tensors of 16 bits that are another tensor of the same state, rounded."""

from collections import defaultdict
from collections.abc import Sequence

from mvcs.checkpoint import CapturedLeaf, path_components
from mvcs.quantize import from_float32, to_float32

HALVES = frozenset({"float16", "bfloat16"})
MASTER = "float32"
_FIRST = 1 << 12  # elements that tell most strangers apart


def masters(leaves: Sequence[CapturedLeaf]) -> dict[int, int]:
    """Return, for each tensor that is a rounded copy of a float32 one, the number of that one.

    A copy equals its master rounded to nearest, ties to even, in every bit; mixed-precision training
    keeps both in one state.
    """
    by_shape: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for index, leaf in enumerate(leaves):
        if leaf.dtype.name == MASTER and leaf.raw_bytes:
            by_shape[leaf.shape].append(index)
    found = {}
    for index, leaf in enumerate(leaves):
        if leaf.dtype.name in HALVES:
            candidates = sorted(by_shape[leaf.shape], key=lambda other: -_alike(leaf, leaves[other]))
            master = next((other for other in candidates if _is_copy(leaf, leaves[other])), None)
            if master is not None:
                found[index] = master
    return found


def _alike(leaf: CapturedLeaf, other: CapturedLeaf) -> int:
    """Count the parts at the end of both paths that are the same: the likeliest master is tried first."""
    pairs = zip(reversed(path_components(leaf.path)), reversed(path_components(other.path)), strict=False)
    return next((count for count, (one, two) in enumerate(pairs) if one != two), len(leaf.path))


def _is_copy(leaf: CapturedLeaf, master: CapturedLeaf) -> bool:
    if _rounded(master.source.part(0, 4 * _FIRST), leaf) != leaf.source.part(0, 2 * _FIRST):
        return False
    # The grid counts elements, so that chunks of both cover the same ones.
    pairs = zip(leaf.views(), master.views(), strict=True)
    return all(_rounded(part, leaf) == own for own, part in pairs)


def _rounded(original: memoryview, leaf: CapturedLeaf) -> bytes:
    return from_float32(to_float32(original, MASTER), leaf.dtype.name)
