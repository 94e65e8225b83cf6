"""The parent of a commit: its tree, the leaves new ones are stored near, their codes, and what is frozen."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from mvcs.checkpoint import Captured, CapturedLeaf
from mvcs.commits.before.earlier_weights import EarlierWeights
from mvcs.commits.before.snap_back import SnapBack
from mvcs.commits.plan.file_selection import predecessors, shapes, shapes_of
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.history import Graph, Revision
from mvcs.objects import (
    ExactTensor,
    Kind,
    Lattice,
    Leaf,
    LogLattice,
    Path,
    QuantizedTensor,
    RootLattice,
    Tree,
    element_count,
    object_id,
)
from mvcs.quantize import WIDE_DTYPE, Codes, Coding, LogGrid, Restorer, to_float32, upper_halves
from mvcs.store import ObjectStore

FARTHEST = 1024  # commits of weights alone that are passed over for bases
_LOOKED_AT = 1 << 12  # values that tell most weights that were trained
Weights = Iterable[tuple[CapturedLeaf, Leaf | None]]


@dataclass(frozen=True)
class Bases:
    """The parent's leaves by path, among which a leaf looks for its base.

    Attributes:
        leaves: by full path; of files that new ones continue also by the paths they have there.
    """

    leaves: Mapping[Path, Leaf] = field(default_factory=dict)

    @classmethod
    def of(cls, parent: Tree | None, captured: Captured, behind: Tree | None = None) -> "Bases":
        """Index a parent tree for what was captured; leaves that it lacks are looked for in the one behind.

        A file whose path the parent lacks takes the leaves of the parent's file that is most like it.
        """
        if parent is None:
            return cls()
        trees = [behind, parent] if behind else [parent]
        leaves = {
            path: leaf for tree in trees for path, leaf in zip(tree.leaf_paths(), tree.leaves, strict=True)
        }
        old = {entry.path for entry in parent.files or ()}
        if old and any(entry.path not in old for entry in captured.files or ()):
            found = ((leaf.path, leaf.dtype, leaf.shape) for leaf in captured.leaves)
            twins = predecessors(shapes(captured.files, found), shapes_of(parent))
            leaves |= dict(_renamed(parent, twins))
        return cls(leaves)

    def find(self, leaf: CapturedLeaf) -> Leaf | None:
        """Return the parent's leaf of the same path, dtype and shape."""
        found = self.leaves.get(leaf.path)
        return found if found and (found.dtype, found.shape) == (leaf.dtype, leaf.shape) else None


@dataclass(frozen=True)
class ParentTree:
    """What a commit can be stored near.

    Attributes:
        revision: the parent; None for the first commit.
        tree: what it holds; None where that cannot be read.
        behind: the newest tree behind commits of weights alone, which has the bases of all else.
    """

    revision: Revision | None
    tree: Tree | None
    behind: Tree | None

    @classmethod
    def of(cls, revision: Revision | None, store: ObjectStore, graph: Graph) -> "ParentTree":
        """Read what a parent holds, of which `store` knows the packs."""
        tree = None if revision is None else _tree(revision, store)
        if revision is None or not revision.commit.weights_only:
            return cls(revision, tree, None)
        line = islice(graph.first_parents(revision), FARTHEST)
        whole = next((found for found in line if not found.commit.weights_only), None)
        if whole is not None:
            store.catalog.attach_commit(whole.id)
        return cls(revision, tree, None if whole is None else _tree(whole, store))

    def bases(self, captured: Captured) -> Bases:
        """Return the leaves among which those of what was captured find their bases."""
        return Bases.of(self.tree, captured, self.behind)


def _tree(revision: Revision, store: ObjectStore) -> Tree | None:
    try:
        return store.tree(revision.commit.tree)
    except (CorruptionError, NotFoundError):
        return None  # fsck tells of the damage; the new state is in hand and is stored alone


def _renamed(parent: Tree, twins: Mapping[str, str]) -> Iterator[tuple[Path, Leaf]]:
    """Yield leaves of the parent by the paths they have in the files that continue theirs."""
    found: dict[object, list[tuple[Path, Leaf]]] = {}
    for path, leaf in zip(parent.leaf_paths(), parent.leaves, strict=True):
        found.setdefault(path[0], []).append((path, leaf))
    for new, old in twins.items():
        yield from (((new, *path[1:]), leaf) for path, leaf in found.get(old, ()))


@dataclass(frozen=True)
class ParentCodes:
    """What the parent's leaves are restored from. What cannot be read counts as not there: no method raises.

    Attributes:
        store: where it lies.
    """

    store: ObjectStore

    def tensor(self, base: Leaf | None) -> QuantizedTensor | None:
        """Return the quantized tensor of a leaf; None where there is none."""
        tensor = None if base is None else base.tensor
        return tensor if isinstance(tensor, QuantizedTensor) else None

    def step(self, base: Leaf | None) -> int | None:
        """Return the step byte of a leaf; None where it is not on a lattice."""
        old = self.tensor(base)
        return old.parameters.step if old is not None and isinstance(old.parameters, Lattice) else None

    def comparable(self, base: Leaf | None, coding: Coding) -> QuantizedTensor | None:
        """Return the tensor where its codes are a base for a coding's: the same rule on a similar scale."""
        old, form = self.tensor(base), coding.parameters
        if old is None or not old.codes or isinstance(form, RootLattice):
            return None
        return old if type(old.parameters) is type(form) else None

    def codes(self, old: QuantizedTensor, index: int) -> Codes | None:
        """Return the codes of a chunk of a lattice's tensor; None where they cannot be read."""
        try:
            codes = np.frombuffer(self.store.codes(old.codes[index]), "<i2")
        except (CorruptionError, NotFoundError):
            return None
        return codes if codes.size == old.chunk_elements(index) else None

    def all_codes(self, old: QuantizedTensor) -> bytes | None:
        """Return the codes of a whole tensor, chunk behind chunk; None where they cannot be read."""
        try:
            return b"".join(bytes(self.store.codes(identifier)) for identifier in old.codes)
        except (CorruptionError, NotFoundError):
            return None

    def log_grid(self, base: Leaf | None, scale: int) -> tuple[LogLattice, LogGrid] | None:
        """Return the form and the offsets of a leaf on a log lattice of that scale; None for any other."""
        old = self.tensor(base)
        if old is None or not isinstance(old.parameters, LogLattice) or old.parameters.scale != scale:
            return None
        try:
            restorer: Restorer = self.store.restorer
            return old.parameters, restorer.log_grid(old)
        except (CorruptionError, NotFoundError):
            return None


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
