"""What a commit's value layer holds: the objects, what its chunks of codes are, and their positions."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from mvcs.history import Revision
from mvcs.objects import ExactTensor, Kind, Lattice, LogLattice, ObjectId, QuantizedTensor, Tree
from mvcs.store import Footer, ObjectStore, Placement

HELD = 8

Position = tuple[object, ...]
"""Where a chunk is in a state: the path of its leaf, what it is there, and its number."""


@dataclass
class CommitValues:
    """The objects of one commit.

    Attributes:
        tree: id of its tree.
        kinds: all objects that it needs, with their kinds.
        steps: its chunks of codes, with the step byte of those on a lattice and None for others.
        positions: where each chunk is first.
        chunk_at: the chunk at each position.
    """

    tree: ObjectId
    kinds: dict[ObjectId, Kind] = field(default_factory=dict)
    steps: dict[ObjectId, int | None] = field(default_factory=dict)
    positions: dict[ObjectId, Position] = field(default_factory=dict)
    chunk_at: dict[Position, ObjectId] = field(default_factory=dict)

    @classmethod
    def of(cls, store: ObjectStore, revision: Revision, *, data: bool = True) -> "CommitValues":
        """Read the tree of a commit whose packs are attached.

        Args:
            store: where to read.
            revision: the commit.
            data: whether chunks count; without them only what tells of the history is left.

        Raises:
            CorruptionError: something of it is damaged.
            NotFoundError: or gone.
        """
        found = cls(revision.commit.tree)
        tree = store.tree(found.tree)
        found.kinds |= {revision.id: Kind.COMMIT, found.tree: Kind.TREE}
        for identifier, length in dict(tree.blobs()).items():
            found._take_blob(store, identifier, length, data=data)
        if data:
            found._take_leaves(tree)
        return found

    def _take_blob(self, store: ObjectStore, identifier: ObjectId, length: int, *, data: bool) -> None:
        self.kinds[identifier] = Kind.BLOB
        blob = store.named_blob(identifier, length)
        if data:
            self.kinds |= dict.fromkeys(blob.chunks, Kind.CHUNK)

    def _take_leaves(self, tree: Tree) -> None:
        for path, leaf in zip(tree.leaf_paths(), tree.leaves, strict=True):
            for place, chunk in _chunks(leaf.tensor, self.steps):
                self.kinds[chunk] = Kind.CHUNK
                position = (path, *place)
                self.positions.setdefault(chunk, position)
                self.chunk_at.setdefault(position, chunk)


def _chunks(
    tensor: ExactTensor | QuantizedTensor, steps: dict[ObjectId, int | None]
) -> Iterator[tuple[Position, ObjectId]]:
    """Yield the chunks of a tensor and of what it is made from; codes are noted with their steps."""
    if isinstance(tensor, ExactTensor):
        yield from (((0, "exact", number), chunk) for number, chunk in enumerate(tensor.chunks))
        return
    level = 0
    current: QuantizedTensor | None = tensor
    while current is not None:
        step = current.parameters.step if isinstance(current.parameters, Lattice) else None
        steps |= dict.fromkeys(current.codes, step)
        yield from (((level, "codes", number), chunk) for number, chunk in enumerate(current.codes))
        for number, chunk in enumerate(current.exceptions):
            if chunk is not None:
                yield (level, "exceptions", number), chunk
        if isinstance(current.parameters, LogLattice):
            for name, chunk in (("rows", current.parameters.rows), ("cols", current.parameters.cols)):
                if chunk is not None:
                    steps[chunk] = None
                    yield (level, name, 0), chunk
        level, current = level + 1, current.source


class KnownValues:
    """What commits hold, read from their packs; a few stay in memory."""

    def __init__(
        self,
        store: ObjectStore,
        footer_of: Callable[[str], Footer],
        placement_of: Callable[[ObjectId], Placement],
        has_data: Callable[[ObjectId], bool],
    ) -> None:
        """Read from a view of `store`; of commits without data only what tells of the history counts."""
        self._view = store.apart()
        self._footer_of, self._placement_of, self._has_data = footer_of, placement_of, has_data
        self._held: OrderedDict[ObjectId, CommitValues] = OrderedDict()

    def of(self, revision: Revision) -> CommitValues:
        """Return what a commit holds.

        Raises:
            CorruptionError: its tree is damaged.
            NotFoundError: or gone.
        """
        found = self._held.get(revision.id)
        if found is None:
            packs = self._placement_of(revision.id).packs
            self._view.begin_anew(packs)
            for name in packs:
                self._view.catalog.add(name, self._footer_of(name))
            data = self._has_data(revision.id)
            found = self._held[revision.id] = CommitValues.of(self._view, revision, data=data)
            while len(self._held) > HELD:
                self._held.popitem(last=False)
        return found
