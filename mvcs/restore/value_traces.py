"""Whether values are those that an earlier commit restores: then they came from its value layer."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mvcs.checkpoint import Captured, CapturedLeaf
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.history import Graph, Revision
from mvcs.objects import BOUNDED, DType, ExactTensor, Lattice, Leaf, Path, QuantizedTensor, Tree
from mvcs.progress import SILENT
from mvcs.quantize import from_float32, step_value, to_float32
from mvcs.restore.file_match import exact_tensor
from mvcs.restore.open_commit import open_reading
from mvcs.store import ObjectStore

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
Fits = Callable[[Patterns], bool]


@dataclass(frozen=True)
class _Suspect:
    """A tensor that has as few distinct values as restored ones do.

    Attributes:
        found: the tensor.
        before: the parent's leaf in its place; None where it has none.
        sample: values of the tensor.
        usual: those that were handed over to the parent; None where they are not stored any more.
    """

    found: CapturedLeaf
    before: Leaf | None
    sample: Patterns
    usual: Patterns | None

    def tells(self, leaf: Leaf, fits: Fits) -> bool:
        """Tell whether values fit what a leaf restores, though what was handed over does not."""
        if not fits(self.sample) or (self.usual is not None and fits(self.usual)):
            return False
        return self._own not in {leaf.handed_over, self.before.handed_over if self.before else None}

    @cached_property
    def _own(self) -> ExactTensor:
        return exact_tensor(self.found)


def traced_commit(
    store: ObjectStore, graph: Graph, parent: Revision, captured: Captured, *, strict: bool = False
) -> Revision | None:
    """Return the bounded commit whose restored values a state has; None where its values tell nothing.

    That is the nearest commit with the very values, else the nearest with lattices or tables that they lie
    on. Nothing is read where no tensor has as few distinct values as restored ones do.

    Args:
        store: where commits lie.
        graph: the history.
        parent: what the state is committed behind.
        captured: the state.
        strict: count only the very values, where those handed over to their commit or to `parent` are others.
    """
    coarse = [leaf for leaf in _largest(captured) if _is_coarse(leaf)]
    nearest: Revision | None = None
    try:
        suspects = list(_suspects(store, parent, captured, coarse))
        bounded = (found for found in graph.first_parents(parent) if found.commit.exactness == BOUNDED)
        for revision in islice(bounded, FARTHEST if suspects else 0):
            tree = open_reading(store, revision, SILENT).tree
            pairs = [*_pairs(captured, suspects, tree)]
            if any(_is_restored(store, revision, suspect, leaf, strict=strict) for suspect, leaf in pairs):
                return revision
            if nearest is None and not strict and any(_lies_on(*pair) for pair in pairs):
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


def _suspects(
    store: ObjectStore, parent: Revision, captured: Captured, coarse: list[CapturedLeaf]
) -> Iterator[_Suspect]:
    known = _by_place(open_reading(store, parent, SILENT).tree) if coarse else {}
    for found in coarse:
        before = _counterpart(captured, found, known)
        usual = None if before is None else _handed_over(store, parent, before)
        yield _Suspect(found, before, _sample(_first(found), found.dtype), usual)


def _pairs(captured: Captured, suspects: list[_Suspect], tree: Tree) -> Iterator[tuple[_Suspect, Leaf]]:
    """Yield suspects with the quantized leaves of the same place, in files of any name."""
    known = _by_place(tree)
    for suspect in suspects:
        leaf = _counterpart(captured, suspect.found, known)
        if leaf is not None and leaf.original is not None:
            yield suspect, leaf


def _by_place(tree: Tree) -> dict[Path, Leaf]:
    skipped = 0 if tree.files is None else 1
    return {path[skipped:]: leaf for path, leaf in zip(tree.leaf_paths(), tree.leaves, strict=True)}


def _counterpart(captured: Captured, found: CapturedLeaf, known: dict[Path, Leaf]) -> Leaf | None:
    leaf = known.get(found.path[0 if captured.files is None else 1 :])
    return leaf if leaf and (leaf.dtype, leaf.shape) == (found.dtype, found.shape) else None


def _handed_over(store: ObjectStore, revision: Revision, leaf: Leaf) -> Patterns | None:
    """Return values that were handed over to a commit; None where they are not stored any more."""
    try:
        reading = open_reading(store, revision, SILENT, exact=True)
        return _sample(next(reading.store.chunks(leaf, exact=True)), leaf.dtype)
    except (CorruptionError, NotFoundError):
        return None


def _lies_on(suspect: _Suspect, leaf: Leaf) -> bool:
    tensor = leaf.tensor
    form = tensor.parameters if isinstance(tensor, QuantizedTensor) else None
    if isinstance(form, bytes):
        table = _patterns(form, leaf.dtype)
        return suspect.tells(leaf, lambda sample: _tells(sample, np.isin(sample, table)))
    if not isinstance(form, Lattice):
        return False
    return suspect.tells(leaf, partial(_on_lattice, dtype=leaf.dtype, step=form.step))


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


def _is_restored(
    store: ObjectStore, revision: Revision, suspect: _Suspect, leaf: Leaf, *, strict: bool
) -> bool:
    restored, sample = _sample(next(store.chunks(leaf)), leaf.dtype), suspect.sample
    if not _tells(sample, restored == sample):
        return False
    exact = _handed_over(store, revision, leaf)
    if exact is None:
        is_telling = suspect.usual is not None or not strict
        return is_telling and suspect.tells(leaf, lambda values: _tells(values, restored == values))
    lost = restored != exact
    return _tells(sample[lost], (restored == sample)[lost])


def _first(found: CapturedLeaf) -> memoryview:
    return next(iter(found.views()))


def _sample(data: bytes | memoryview, dtype: DType) -> Patterns:
    patterns = _patterns(data, dtype)
    return np.ascontiguousarray(patterns[:: -(-len(patterns) // SAMPLE)])


def _patterns(data: bytes | memoryview, dtype: DType) -> Patterns:
    return np.frombuffer(data, f"<u{dtype.itemsize}")
