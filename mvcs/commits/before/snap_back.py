"""What keeps a commit from erasing the progress made since a lossy restore.

A restored weight sits on the lattice. If it then moves by less than half a step, the same lattice rounds it
back to where it was: every code comes out unchanged and the progress is gone. So the commits after such a
restore measure, tensor by tensor, how much of the movement their codes retain.

What was restored may itself lie beside the lattice, where that commit kept progress of an earlier restore in
exact values or finer steps. There the movement since says little of that progress, so codes also have to be
nearer to what training made than it began.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock

from mvcs.checkpoint import CapturedLeaf
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.history import Graph, Revision
from mvcs.objects import EXACT, Leaf, Path
from mvcs.progress import SILENT
from mvcs.quantize import ErrorSums, Floats, ProgressSums, to_float32
from mvcs.restore import open_reading
from mvcs.store import ObjectStore

RETAINED = 0.9  # less progress than this is not kept by a code
ERROR_CLASS = "snap-back"
FARTHEST = 64
SNAP_BACK_REASON = (
    "the state continued from a lossily restored one, and progress since must not be erased; "
    "nothing needs to be done, and it ends when training has moved far enough from there, "
    f"after {FARTHEST} commits at the latest"
)


@dataclass
class SnapBack:
    """The values a state continued from, and what became of the progress since.

    Attributes:
        store: where they lie.
        leaves: the leaves of the restored commit by path; None where it can no longer be read.
        continues: the restored commit itself kept progress since a lossy restore, and that has to stay too.
        retained: the least share of progress that a tensor keeps; None before anything was measured.
        refined: tensors that needed a finer step.
        exact: tensors that are kept exactly, since no step was fine enough.
    """

    store: ObjectStore
    leaves: Mapping[Path, Leaf] | None
    continues: bool = False
    retained: float | None = None
    refined: int = 0
    exact: int = 0
    _lock: Lock = field(default_factory=Lock)

    def before(self, leaf: CapturedLeaf) -> Iterator[Floats] | None:
        """Return the restored values of a leaf, chunk by chunk; None where there are none to compare with.

        Raises:
            NotFoundError: the restored commit can no longer be read.
            CorruptionError: it is damaged; also while values are taken.
        """
        if self.leaves is None:
            raise NotFoundError("the commit that the state continued from cannot be read")
        found = self.leaves.get(leaf.path)
        if found is None or (found.dtype, found.shape) != (leaf.dtype, leaf.shape):
            return None
        return (to_float32(chunk, leaf.dtype.name) for chunk in self.store.chunks(found))

    def keeps(self, sums: ProgressSums, errors: ErrorSums) -> bool:
        """Tell whether enough of a tensor's progress is kept.

        Args:
            sums: what its codes keep of the movement since the restore.
            errors: how far they are from the tensor.
        """
        is_nearer = errors.squares <= sums.moved
        return sums.retained >= RETAINED and (is_nearer or not self.continues)

    def note(self, sums: ProgressSums, *, refined: bool) -> None:
        """Remember what a tensor keeps as it is stored."""
        with self._lock:
            self.retained = sums.retained if self.retained is None else min(self.retained, sums.retained)
            self.refined += refined

    def note_exact(self) -> None:
        """Remember that a tensor is kept exactly."""
        with self._lock:
            self.exact += 1

    def to_fields(self) -> dict[str, float]:
        """Return what the commit records."""
        retained = 1.0 if self.retained is None else self.retained
        return {"retained": retained, "refined": float(self.refined), "exact": float(self.exact)}


def guard_of(
    store: ObjectStore, graph: Graph, restored_from: Revision | None, parent: Revision | None
) -> SnapBack | None:
    """Return what guards a bounded commit; None where no state was lossily restored of late."""
    try:
        found = _origin(graph, restored_from, parent)
    except (CorruptionError, NotFoundError):
        return SnapBack(store, None)  # such as a commit of a branch that was never pushed
    return None if found is None else SnapBack(store, _open_before(store, found), _had_to_refine(found))


def _origin(graph: Graph, restored_from: Revision | None, parent: Revision | None) -> Revision | None:
    """Return the commit whose restored values progress has to be measured from; None when there is none.

    That is the commit the state was just restored from, or the one an ancestor continued from, as long as
    the commits since were exact or had to store tensors finer than usual.
    """
    if restored_from is not None or parent is None or parent.commit.lineage_exact:
        return restored_from
    for revision in islice(graph.first_parents(parent), FARTHEST):
        if revision.commit.lineage_exact or not _still_close(revision):
            return None
        if revision.commit.restored_from is not None:
            return graph.load(revision.commit.restored_from)
    return None


def _still_close(revision: Revision) -> bool:
    if ERROR_CLASS not in dict(revision.commit.errors):
        return revision.commit.exactness == EXACT  # which measures nothing
    return _had_to_refine(revision)


def _had_to_refine(revision: Revision) -> bool:
    """Tell whether a commit kept tensors exactly or finer than usual, for progress since a lossy restore."""
    measured = dict(dict(revision.commit.errors).get(ERROR_CLASS, ()))
    return measured.get("refined", 0) + measured.get("exact", 0) > 0


def _open_before(store: ObjectStore, found: Revision) -> Mapping[Path, Leaf] | None:
    """Return the leaves of the commit that was restored; None where it can no longer be read."""
    try:
        tree = open_reading(store, found, SILENT).tree
    except (CorruptionError, NotFoundError):
        return None
    return dict(zip(tree.leaf_paths(), tree.leaves, strict=True))
