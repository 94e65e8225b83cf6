"""Copies beside a model: tensors of 16 bits that are another one rounded, and averages of weights."""

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence

import numpy as np

from mvcs.checkpoint import MODELS, CapturedLeaf, path_components
from mvcs.objects import Path, element_count
from mvcs.quantize import Floats, from_float32, to_float32

HALVES = frozenset({"float16", "bfloat16"})
MASTER = "float32"
_FIRST = 1 << 12  # elements that tell most strangers apart
_NEAR = 0.5  # of the squares of the weights: those of two runs are four times as far apart


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


def averages(
    weights: Sequence[CapturedLeaf], copies: Container[Path] = (), trained: Container[Path] = ()
) -> dict[Path, Path]:
    """Return the weight of a model that each weight beside it is an average of, by their paths.

    It has the weight's name and shape, and most of its values.

    Args:
        weights: of two and more dimensions.
        copies: low-precision copies of other tensors: these follow nothing, and nothing follows them.
        trained: weights that an optimizer has moments of: these follow nothing.
    """
    found = [leaf for leaf in weights if leaf.path not in copies]
    models = _by_name(found)
    beside = (leaf for leaf in found if leaf.path not in trained and _name(leaf.path) is None)
    pairs = ((leaf, _followed(leaf, models)) for leaf in beside)
    return {leaf.path: weight.path for leaf, weight in pairs if weight is not None and _near(leaf, weight)}


def _name(path: Path) -> tuple[str, ...] | None:
    """Return a weight's name in the model that it is of; None where it is of none."""
    at = next((at for at, key in enumerate(path[:2]) if key in MODELS), None)
    return None if at is None else tuple(path_components(path[at + 1 :]))


def _by_name(weights: Sequence[CapturedLeaf]) -> Mapping[tuple[str, ...], CapturedLeaf]:
    """Return the weights of models by their names, without those of names that two models have."""
    named = [(name, leaf) for leaf in weights if (name := _name(leaf.path))]
    counts: dict[tuple[str, ...], int] = {}
    for name, _ in named:
        counts[name] = counts.get(name, 0) + 1
    return {name: leaf for name, leaf in named if counts[name] == 1}


def _followed(leaf: CapturedLeaf, models: Mapping[tuple[str, ...], CapturedLeaf]) -> CapturedLeaf | None:
    """Return the weight with the longest name that a path ends with."""
    parts = tuple(path_components(leaf.path))
    named = (models.get(parts[at:]) for at in range(1, len(parts)))
    return next((one for one in named if one is not None and one.shape == leaf.shape), None)


def _near(leaf: CapturedLeaf, weight: CapturedLeaf) -> bool:
    own, other = _begin(leaf), _begin(weight)
    with np.errstate(all="ignore"):
        return bool(np.sum(np.square(own - other)) <= _NEAR * np.sum(np.square(other)))


def _begin(leaf: CapturedLeaf) -> Floats:
    count = min(_FIRST, element_count(leaf.shape))
    return to_float32(leaf.source.part(0, count * leaf.dtype.itemsize), leaf.dtype.name)
