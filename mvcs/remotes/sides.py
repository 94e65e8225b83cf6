"""The two stores of an exchange: their objects, history and refs."""

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

from mvcs.errors import MvcsError
from mvcs.history.graph import Graph, Revision
from mvcs.objects.ids import ObjectId
from mvcs.refs import HEADS, REMOTES, TAGS, RefStore
from mvcs.store.objects import ObjectStore


@dataclass(frozen=True)
class Side:
    """One of the two stores of an exchange."""

    store: ObjectStore
    graph: Graph
    refs: RefStore

    @classmethod
    def of(cls, store: ObjectStore) -> "Side":
        """Open refs and history of a store."""
        return cls(store, Graph(store), RefStore(store.backend))

    def tips(self, *others: str) -> set[ObjectId]:
        """Return every commit that a branch or tag names, or a ref of one of the `others` of kinds."""
        records = [record for kind in (HEADS, TAGS, *others) for record in self.refs.all(kind).values()]
        return {record.target for record in records if record.target is not None}

    def history(self) -> dict[ObjectId, Revision]:
        """Return every commit behind a branch, a tag or what is known of a remote, parents first.

        A ref that leads nowhere holds nothing, nor does one of whose history a part is lost.
        """
        found: dict[ObjectId, Revision] = {}
        for kind in (HEADS, TAGS, REMOTES):
            for record in self.refs.all(kind).values():
                if record.target is None or record.target in found:
                    continue
                with suppress(MvcsError):
                    walk = list(self.graph.walk([self.graph.load(record.target, record.pack)], without=found))
                    found |= {revision.id: revision for revision in reversed(walk)}
        return found

    def behind(self, tips: Iterable[Revision], known: Collection[ObjectId]) -> set[ObjectId]:
        """Return the `known` commits met behind `tips`, and everything behind those."""
        met = [revision for revision in self.graph.walk(tips) if revision.id in known]
        return {revision.id for revision in self.graph.walk(met)}
