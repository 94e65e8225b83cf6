"""Commits by the packs that end them and count: those that footers name may be gone, or never have come."""

from collections.abc import Iterable
from contextlib import suppress

from mvcs.errors import CorruptionError, NotFoundError
from mvcs.history.commit_graph import Graph, Revision
from mvcs.history.ending_packs import EndingPacks
from mvcs.objects import ObjectId
from mvcs.store import ObjectStore, pack_path, packs_if_moved


class CountingGraph(Graph):
    """The commits of a store, each with a pack that ends it of which all named packs are there, if any is.

    A pack that is named counts where it is whole in this sense; only another one has to be looked for. What
    was seen stays in mind: make one for each walk, or for each task.
    """

    def __init__(self, store: ObjectStore, instead: dict[ObjectId, Revision] | None = None) -> None:
        """Walk the commits of `store`; those in `instead` count as they stand there."""
        super().__init__(store)
        self._instead = {} if instead is None else instead
        self._whole: set[str] = set()
        self._gone: set[str] = set()
        self._there: set[str] | None = None
        self._is_listed = False
        self._ended: EndingPacks | None = None

    def load(self, identifier: ObjectId, pack: str | None) -> Revision:
        """Return a commit as the pack ends it that counts.

        Raises:
            NotFoundError: no pack of the store holds it.
            CorruptionError: the pack is damaged.
        """
        return self._counting(super().load(identifier, pack))

    def get(self, identifier: ObjectId, child: Revision | None = None) -> Revision:
        """Return a commit as the pack ends it that counts; what the pack of `child` names goes first.

        Where that names none, no walk may go by what it met before: another one would choose otherwise.
        """
        if child is None or not self.is_moved:
            return self._counting(super().get(identifier, child))
        told = self._told_by(child.written.pack, identifier)
        return self._counting(told) if told else self._unnamed(identifier, child)

    def _unnamed(self, identifier: ObjectId, child: Revision) -> Revision:
        found = None if identifier in self._instead else self._endings.whole(identifier)
        return self._counting(super().get(identifier, child)) if found is None else Revision(found)

    def _told_by(self, pack: str, identifier: ObjectId) -> Revision | None:
        # Others tell of it too, and not all have to name the same pack.
        with suppress(CorruptionError, NotFoundError):
            for written in self._store.catalog.look(pack).commits:
                if written.id == identifier:
                    return Revision(written)
        return None

    @property
    def is_moved(self) -> bool:
        """Whether commits may have been ended anew here, by packs that another store does not name."""
        return self._listed() is not None

    def are_there(self, packs: Iterable[str]) -> bool:
        """Tell whether no pack of these is gone; without asking where none can be for a good reason."""
        return all(map(self._is_there, packs))

    def _listed(self) -> set[str] | None:
        if not self._is_listed:
            self._there, self._is_listed = packs_if_moved(self._store.backend), True
        return self._there

    def _counting(self, revision: Revision) -> Revision:
        instead = self._instead.get(revision.id)
        if instead is not None:
            return instead
        return revision if self._is_whole(revision.written.pack) else self._ended_by_another(revision)

    def _ended_by_another(self, revision: Revision) -> Revision:
        found = self._endings.whole(revision.id)
        return revision if found is None else Revision(found)

    @property
    def _endings(self) -> EndingPacks:
        if self._ended is None:
            self._ended = EndingPacks.of(self._store.backend)
        return self._ended

    def _is_whole(self, pack: str) -> bool:
        if pack in self._whole or not self.is_moved:
            return True
        try:
            needed = self._store.catalog.look(pack).needed
        except NotFoundError:
            return False
        except CorruptionError:
            return True  # it is told where the commit is read
        if not self.are_there((pack, *needed)):
            return False
        self._whole.add(pack)
        return True

    def _is_there(self, name: str) -> bool:
        there = self._listed()
        if there is None or name in there:
            return True
        if name not in self._gone:
            # Who names a pack wrote it before: it is asked for once, as it may be newer than the listing.
            written = self._store.backend.size(pack_path(name)) is not None
            (there if written else self._gone).add(name)
        return name in there
