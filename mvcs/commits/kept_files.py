"""Files that a commit keeps of its parent: they stand in it by their ids, and the folder is not asked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from mvcs.delta import ElementFormat
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.history import Revision
from mvcs.objects import Blob, Kind, Leaf, QuantizedTensor, Tree, joined_trees
from mvcs.progress import SILENT
from mvcs.restore import Reading, open_reading
from mvcs.store import EntryBase, Near, ObjectStore, ObjectWriter, pack_path

_COMPANY = "kept"


@dataclass(frozen=True)
class KeptFiles:
    """Some files of a commit, or its state, for one that continues it or takes its place.

    Attributes:
        tree: these files, or the state.
        parent: the commit that has them.
        names: what it calls those that have another name now, by that name.
    """

    tree: Tree
    parent: Revision
    names: Mapping[str, str] = field(default_factory=dict)

    def beside(self, stored: Tree) -> Tree:
        """Return the tree of these files and of what was stored; of a state that is kept, which is alone."""
        return self.tree if self.tree.files is None else joined_trees(stored, self.tree)

    @property
    def lossy(self) -> list[Leaf]:
        """The leaves that have an exact layer apart."""
        return [leaf for leaf in self.tree.leaves if leaf.original is not None]

    def hold(self, store: ObjectStore, writer: ObjectWriter) -> None:
        """Have the commit that is written need what the files need.

        Raises:
            CorruptionError: something of them is missing or damaged.
        """
        try:
            for leaf in self.tree.leaves:
                writer.hold(leaf.value_chunks())
            for identifier in dict(self.tree.blobs()):
                blob = Blob.decode(store.read(Kind.BLOB, identifier))
                writer.hold([identifier, *blob.chunks])
        except (CorruptionError, NotFoundError) as error:
            raise CorruptionError(
                f"a file of HEAD cannot be kept: {error.message}",
                hint="name every file to take it from the folder, or with --only leave out the others",
            ) from error

    def write_exact(self, store: ObjectStore, writer: ObjectWriter) -> bool:
        """Write the exact layer of these files once more, since it goes with its commit.

        Args:
            store: a view of the store for this reading.
            writer: of the new commit's exact layer.

        Returns:
            Whether the parent's exact layer has all of it; what was written in vain is removed.
        """
        try:
            reading = open_reading(store, self.parent, SILENT, exact=True)
            for leaf in self.lossy:
                _write_leaf(reading, leaf, writer)
        except (CorruptionError, NotFoundError):
            for name in writer.packs:
                store.backend.delete(pack_path(name, exact=True))
            return False
        return True


def _write_leaf(reading: Reading, leaf: Leaf, writer: ObjectWriter) -> None:
    store, value = reading.store, leaf.tensor
    element = ElementFormat.of(leaf.dtype.itemsize, leaf.dtype.kind)
    for index, chunk in enumerate(store.chunks(leaf, exact=True)):
        near = None
        if isinstance(value, QuantizedTensor):
            near = Near(EntryBase(leaf.value, index), partial(store.restored_chunk, value, index))
        writer.put_chunk(chunk, element, near, company=_COMPANY)
