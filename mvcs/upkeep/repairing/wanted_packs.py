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
        for item in self._walk(CountingGraph(self.store)):
            if isinstance(item, Revision):
                yield item

    def names(self) -> set[PackKey]:
        """Return the packs that are named for these commits, but for exact layers that were given up."""
        found: set[PackKey] = set()
        for item in self._walk(Graph(self.store)):
            if isinstance(item, str):
                found.add(PackKey(item))
                continue
            written = item.written
            found.add(PackKey(written.pack))
            found.update(PackKey(name, exact=True) for name in written.exact_packs)
            with suppress(MvcsError):
                found.update(map(PackKey, self.store.catalog.look(written.pack).needed))
        return found - self._given_up(found)

    def _walk(self, graph: Graph) -> Iterator[Revision | str]:
        """Yield commits, and the packs that records name."""
        seen = set[ObjectId]()
        for target, pack in self.tips():
            if pack is not None:
                yield pack
            with suppress(MvcsError):  # what cannot be read is wanted by its name
                for revision in graph.walk([graph.load(target, pack)], without=frozenset(seen)):
                    seen.add(revision.id)
                    yield revision

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
