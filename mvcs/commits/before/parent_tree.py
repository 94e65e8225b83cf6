"""The commit that a new one is stored near, with what it holds, as far as that can be read."""

from dataclasses import dataclass
from itertools import islice

from mvcs.checkpoint import Captured
from mvcs.commits.before.bases import Bases
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.history import Graph, Revision
from mvcs.objects import Tree
from mvcs.progress import SILENT
from mvcs.restore import open_reading
from mvcs.store import ObjectStore

FARTHEST = 1024  # commits of weights alone that are passed over for bases


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
        """Read what a parent holds."""
        tree = None if revision is None else _tree(revision, store)
        if revision is None or not revision.commit.weights_only:
            return cls(revision, tree, None)
        line = islice(graph.first_parents(revision), FARTHEST)
        whole = next((found for found in line if not found.commit.weights_only), None)
        return cls(revision, tree, None if whole is None else _tree(whole, store))

    def bases(self, captured: Captured) -> Bases:
        """Return the leaves among which those of what was captured find their bases."""
        return Bases.of(self.tree, captured, self.behind)


def _tree(revision: Revision, store: ObjectStore) -> Tree | None:
    try:
        return open_reading(store, revision, SILENT).tree
    except (CorruptionError, NotFoundError):
        return None  # fsck tells of the damage; the new state is in hand and is stored alone
