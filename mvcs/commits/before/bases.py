"""The parent's leaves by path, among which a leaf finds the one that it is stored near."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mvcs.checkpoint import Captured, CapturedLeaf
from mvcs.commits.plan.predecessors import predecessors, shapes, shapes_of
from mvcs.objects import Leaf, Path, Tree


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


def _renamed(parent: Tree, twins: Mapping[str, str]) -> Iterator[tuple[Path, Leaf]]:
    """Yield leaves of the parent by the paths they have in the files that continue theirs."""
    found: dict[object, list[tuple[Path, Leaf]]] = {}
    for path, leaf in zip(parent.leaf_paths(), parent.leaves, strict=True):
        found.setdefault(path[0], []).append((path, leaf))
    for new, old in twins.items():
        yield from (((new, *path[1:]), leaf) for path, leaf in found.get(old, ()))
