"""Whether values are those that an earlier commit restores: then they came from its value layer."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mvcs.checkpoint.captured import Captured, CapturedLeaf
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.history.graph import Graph, Revision
from mvcs.objects.commit import BOUNDED
from mvcs.objects.dtypes import DType
from mvcs.objects.forms import Lattice
from mvcs.objects.tensors import QuantizedTensor
from mvcs.objects.tree import Leaf, Tree
from mvcs.progress import SILENT
from mvcs.quantize.steps import step_value
from mvcs.quantize.values import from_float32, to_float32
from mvcs.repository.restoring import open_reading
from mvcs.store.objects import ObjectStore

LEAVES: Final = 16  # the largest, that tell for all
SAMPLE: Final = 4096  # values of each
FARTHEST: Final = 64  # commits that may have been restored
_SHARE: Final = 0.95  # of the values that tell; the others were kept exactly
_LEAST: Final = 64  # values that tell
_DISTINCT: Final = 8  # of them; fewer lie on many lattices
_PRECISION: Final = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 24}
# Distinct ones in a sample of what training makes are more; restored ones are few, or a lattice is fine.
_COARSE: Final = {"float16": 0.25, "bfloat16": 0.125, "float32": 0.75, "float64": 0.75}

Patterns = NDArray[np.unsignedinteger]


def traced(store: ObjectStore, graph: Graph, parent: Revision, captured: Captured) -> Revision | None:
    """Return the bounded commit whose restored values a state has; None where its values tell nothing.

    That is the nearest commit with the very values, else the nearest with lattices or tables that they lie
    on. Nothing is read where no tensor has as few distinct values as restored ones do.
    """
    suspects = [leaf for leaf in _largest(captured) if _is_coarse(leaf)]
    nearest: Revision | None = None
    try:
        for revision in islice(_bounded(graph, parent), FARTHEST if suspects else 0):
            tree = open_reading(store, revision, SILENT).tree
            pairs = list(_pairs(captured, suspects, tree))
            if any(_is_restored(store, found, leaf) for found, leaf in pairs):
                return revision
            if nearest is None and any(_lies_on(store, found, leaf) for found, leaf in pairs):
                nearest = revision
    except (CorruptionError, NotFoundError):
        pass  # fsck tells of the damage
    return nearest


def _largest(captured: Captured) -> list[CapturedLeaf]:
    floats = [leaf for leaf in captured.leaves if leaf.dtype.name in _PRECISION and leaf.raw_bytes]
    return sorted(floats, key=lambda leaf: -leaf.raw_bytes)[:LEAVES]


def _is_coarse(found: CapturedLeaf) -> bool:
    sample = _sample(_first(found), found.dtype)
    distinct = len(np.unique(sample))
    return len(sample) >= _LEAST and _DISTINCT <= distinct <= _COARSE[found.dtype.name] * len(sample)


def _bounded(graph: Graph, parent: Revision) -> Iterator[Revision]:
    return (found for found in graph.first_parents(parent) if found.commit.exactness == BOUNDED)


def _pairs(
    captured: Captured, suspects: list[CapturedLeaf], tree: Tree
) -> Iterator[tuple[CapturedLeaf, Leaf]]:
    """Yield leaves with the quantized ones of the same place, in files of any name."""
    skipped = 0 if captured.files is None else 1
    known = {path[skipped:]: leaf for path, leaf in zip(tree.leaf_paths(), tree.leaves, strict=True)}
    for found in suspects:
        leaf = known.get(found.path[skipped:])
        if leaf is None or leaf.exact is None:
            continue
        if (leaf.dtype, leaf.shape) == (found.dtype, found.shape):
            yield found, leaf


def _lies_on(store: ObjectStore, found: CapturedLeaf, leaf: Leaf) -> bool:
    tensor = store.value_tensor(leaf)
    if not isinstance(tensor, QuantizedTensor):
        return False
    sample = _sample(_first(found), leaf.dtype)
    if isinstance(tensor.parameters, bytes):
        return _tells(sample, np.isin(sample, _patterns(tensor.parameters, leaf.dtype)))
    if not isinstance(tensor.parameters, Lattice):
        return False
    return _on_lattice(sample, leaf.dtype, tensor.parameters.step)


def _on_lattice(sample: Patterns, dtype: DType, step: int) -> bool:
    with np.errstate(all="ignore"):
        values, unit = to_float32(sample.tobytes(), dtype.name), np.float32(step_value(step))
        codes = np.rint(values / unit)
        # Where a step is not coarser than the element type itself, every value lies on the lattice.
        telling = (codes != 0) & (np.abs(codes) < 2.0 ** min(_PRECISION[dtype.name] - 3, 15))
        restored = _patterns(from_float32(codes.astype(np.float32) * unit, dtype.name), dtype)
    return _tells(sample[telling], (restored == sample)[telling])


def _tells(sample: Patterns, fits: NDArray[np.bool_]) -> bool:
    enough = len(sample) >= _LEAST and float(np.mean(fits)) >= _SHARE
    return enough and len(np.unique(sample[fits])) >= _DISTINCT


def _is_restored(store: ObjectStore, found: CapturedLeaf, leaf: Leaf) -> bool:
    sample = _sample(_first(found), leaf.dtype)
    restored = _sample(next(iter(store.chunks(leaf))), leaf.dtype)
    return _tells(sample, restored == sample)


def _first(found: CapturedLeaf) -> memoryview:
    return next(iter(found.views()))


def _sample(data: bytes | memoryview, dtype: DType) -> Patterns:
    patterns = _patterns(data, dtype)
    return np.ascontiguousarray(patterns[:: -(-len(patterns) // SAMPLE)])


def _patterns(data: bytes | memoryview, dtype: DType) -> Patterns:
    return np.frombuffer(data, f"<u{dtype.itemsize}")
