"""Which packs the commits of a store name, whether these are there or not: from the newest records down."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from mvcs.errors import MvcsError
from mvcs.history import CountingGraph, Graph, Revision
from mvcs.objects import ObjectId
from mvcs.refs import HEADS, REMOTES, TAGS, RefRecord, RefStore
from mvcs.retention import DropLog
from mvcs.store import ObjectStore, pack_path


@dataclass(frozen=True, order=True)
class PackKey:
    """A pack of a store: its name, and whether it is of an exact layer."""

    name: str
    exact: bool = False

    @property
    def path(self) -> str:
        """Where it lies."""
        return pack_path(self.name, exact=self.exact)


@dataclass
class WantedPacks:
    """Walks over the commits that refs and HEAD lead to, as far as footers tell of them.

    Attributes:
        store: the store; footers that came to its catalog count as if they lay there.
        refs: its refs.
        head: where HEAD stands without a branch.
    """

    store: ObjectStore
    refs: RefStore
    head: ObjectId | None = None

    def revisions(self) -> Iterator[Revision]:
        """Yield each commit that can be told of, as the pack ends it that counts, children before parents."""
        for item in self._walk():
            if isinstance(item, Revision):
                yield item

    def names(self) -> set[PackKey]:
        """Return the packs that these commits need; exact layers that were given up are not wanted."""
        found: set[PackKey] = set()
        for item in self._walk():
            if isinstance(item, str):
                found.add(PackKey(item))
                continue
            written = item.written
            found.add(PackKey(written.pack))
            found.update(PackKey(name, exact=True) for name in written.exact_packs)
            with suppress(MvcsError):
                found.update(map(PackKey, self.store.catalog.look(written.pack).needed))
        return found - self._given_up(found)

    def _walk(self) -> Iterator[Revision | str]:
        """Yield commits, and the packs that records name, but for those in whose place others count."""
        graph, seen = CountingGraph(self.store), set[ObjectId]()
        for target, pack in self.tips():
            start = self._loaded(graph, target, pack)
            if pack is not None and not (start and self._is_instead(graph, start, pack)):
                yield pack
            with suppress(MvcsError):  # what cannot be read is wanted by its name
                for revision in graph.walk([start] if start else (), without=frozenset(seen)):
                    seen.add(revision.id)
                    yield revision

    @staticmethod
    def _loaded(graph: Graph, target: ObjectId, pack: str | None) -> Revision | None:
        with suppress(MvcsError):
            return graph.load(target, pack)
        return None

    def _is_instead(self, graph: CountingGraph, start: Revision, pack: str) -> bool:
        """Tell whether another pack ends a commit, with all that this one names, than a record says."""
        ending = start.written.pack
        with suppress(MvcsError):
            return ending != pack and graph.are_there((ending, *self.store.catalog.look(ending).needed))
        return False

    def tips(self) -> Iterable[tuple[ObjectId, str | None]]:
        """Yield the commits that refs and HEAD name, with the packs that records name."""
        for kind in (HEADS, TAGS, REMOTES):
            survey = self.refs.survey(kind)
            whole = [*survey.whole.values(), *(self.refs.last_whole(kind, name) for name in survey.damaged)]
            for record in whole:
                if isinstance(record, RefRecord) and record.target is not None:
                    yield record.target, record.pack
        if self.head is not None:
            yield self.head, None

    def _given_up(self, found: set[PackKey]) -> set[PackKey]:
        """Return exact packs that are not there and need not be: beside a damaged record nobody can tell."""
        try:
            drops, damaged = DropLog(self.store.backend).survey()
        except MvcsError as error:
            drops, damaged = [], [error]
        dropped = {name for drop in drops for name in drop.packs}
        return {key for key in found if key.exact and (damaged or key.name in dropped) and self._is_gone(key)}

    def _is_gone(self, key: PackKey) -> bool:
        return self.store.backend.size(key.path) is None
