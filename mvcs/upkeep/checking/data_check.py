"""Are the data of a commit there, or were they dropped on purpose? Else they are lost."""

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from mvcs.errors import NotFoundError
from mvcs.history import Revision
from mvcs.objects import ObjectId, Tree
from mvcs.restore import has_chunks, located_chunks, value_key
from mvcs.retention import DataDrops
from mvcs.store import ObjectStore


@dataclass
class DataCheck:
    """Looks for the chunks of commits whose packs are attached.

    Attributes:
        store: where they lie.
    """

    store: ObjectStore
    _meanwhile: set[ObjectId] = field(default_factory=set)

    @cached_property
    def _drops(self) -> DataDrops:
        return DataDrops.of(self.store.backend)

    @property
    def dropped(self) -> Container[ObjectId]:
        """The commits whose data were dropped on purpose."""
        return self._drops.found.keys()

    def check(self, revision: Revision, tree: Tree) -> None:
        """Check that every chunk of a commit can be decoded, unless its data were dropped.

        Raises:
            NotFoundError: one is nowhere.
            CorruptionError: a chain of bases has no end.
        """
        if self._drops.get(revision.id) is not None and not all(
            has_chunks(self.store, leaf) for leaf in tree.leaves
        ):
            return
        try:
            self._locate(tree)
        except NotFoundError:
            # What goes while the check looks is on record before it goes.
            if DataDrops.of(self.store.backend).get(revision.id) is None:
                raise
            self._meanwhile.add(revision.id)

    def _locate(self, tree: Tree) -> None:
        for leaf in {value_key(leaf): leaf for leaf in tree.leaves}.values():
            for located in located_chunks(self.store, leaf):
                self.store.catalog.depth_of(located)

    def tell(self, note: Callable[[str], None], commits: Iterable[ObjectId]) -> None:
        """Say of how many of some commits the data were dropped, be they there until a collector comes."""
        dropped = sum(one in self.dropped or one in self._meanwhile for one in commits)
        if dropped:
            what = "1 commit" if dropped == 1 else f"{dropped} commits"
            note(f"the data of {what} were dropped on purpose; 'mvcs log' marks them")
