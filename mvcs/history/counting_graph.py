"""Commits by the packs that end them and count: those that footers name may be gone, or never have come."""

from functools import cached_property

from mvcs.errors import CorruptionError, NotFoundError
from mvcs.history.commit_graph import Graph, Revision
from mvcs.objects import ObjectId
from mvcs.store import ObjectStore, pack_path, packs_if_moved


class CountingGraph(Graph):
    """The commits of a store, each with a pack that ends it of which all named packs are there, if any is."""

    def __init__(self, store: ObjectStore, instead: dict[ObjectId, Revision] | None = None) -> None:
        """Walk the commits of `store`; those in `instead` count as they stand there."""
        super().__init__(store)
        self._instead = {} if instead is None else instead
        self._whole: set[str] = set()

    def load(self, identifier: ObjectId, pack: str | None) -> Revision:
        """Return a commit as the pack ends it that counts.

        Raises:
            NotFoundError: no pack of the store holds it.
            CorruptionError: the pack is damaged.
        """
        return self._counting(super().load(identifier, pack))

    def get(self, identifier: ObjectId, child: Revision | None = None) -> Revision:
        """Return a commit as the pack ends it that counts; `child` makes that cheap."""
        return self._counting(super().get(identifier, child))

    @cached_property
    def _there(self) -> set[str] | None:
        return packs_if_moved(self._store.backend)

    def _counting(self, revision: Revision) -> Revision:
        instead = self._instead.get(revision.id)
        if instead is not None:
            return instead
        return revision if self._is_whole(revision.written.pack) else self.elsewhere(revision)

    def _is_whole(self, pack: str) -> bool:
        if self._there is None or pack in self._whole:
            return True
        try:
            needed = self._store.catalog.look(pack).needed
        except NotFoundError:
            return False
        except CorruptionError:
            return True  # it is told where the commit is read
        if not all(self._is_there(name) for name in needed):
            return False
        self._whole.add(pack)
        return True

    def _is_there(self, name: str) -> bool:
        there = self._there
        if there is None or name in there:
            return True
        if self._store.backend.size(pack_path(name)) is None:
            return False
        there.add(name)  # it was written since
        return True
