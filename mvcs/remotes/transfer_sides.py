"""The two stores of an exchange: their objects, history and refs."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from mvcs.errors import MvcsError
from mvcs.history import CountingGraph, Graph, GraphNeeds, Revision
from mvcs.objects import ObjectId
from mvcs.refs import HEADS, REMOTES, TAGS, RefRecord, RefStore
from mvcs.store import ObjectStore


def damaged_there(error: MvcsError) -> MvcsError:
    """Return an error about a ref of the far end, whose hint would speak of this one."""
    hint = "'mvcs reflog' over there shows older records; 'mvcs push --force' from a clone writes it again"
    return type(error)(error.message, hint=hint)


@dataclass(frozen=True)
class TransferSide:
    """One of the two stores of an exchange."""

    store: ObjectStore
    graph: Graph
    refs: RefStore

    @classmethod
    def of(cls, store: ObjectStore) -> "TransferSide":
        """Open refs and history of a store."""
        graph = Graph(store)
        return cls(store, graph, RefStore(store.backend, needs=GraphNeeds(store, graph)))

    def tips(self, *others: str) -> set[ObjectId]:
        """Return every commit that a branch or tag names, or a ref of one of the `others` of kinds.

        A damaged one names none.
        """
        return {record.target for record in self._named(*others) if record.target is not None}

    def _named(self, *others: str) -> list[RefRecord]:
        surveys = [self.refs.survey(kind) for kind in (HEADS, TAGS, *others)]
        return [record for survey in surveys for record in survey.whole.values()]

    def history(self) -> dict[ObjectId, Revision]:
        """Return every commit behind a branch, a tag or what is known of a remote, parents first.

        A ref that leads nowhere holds nothing, nor does one of whose history a part is lost. Of a damaged one
        its newest record counts that can be read.
        """
        found: dict[ObjectId, Revision] = {}
        for kind in (HEADS, TAGS, REMOTES):
            for record in self._newest(kind):
                if record.target is None or record.target in found:
                    continue
                with suppress(MvcsError):
                    walk = list(self.walk([self.graph.load(record.target, record.pack)], without=found))
                    found |= {revision.id: revision for revision in reversed(walk)}
        return found

    def walk(
        self, starts: Iterable[Revision], without: Collection[ObjectId] = frozenset()
    ) -> Iterator[Revision]:
        """Yield what `Graph.walk` does, each commit with the pack that ends it and counts."""
        if not self.is_moved:
            return self.graph.walk(starts, without)
        return self._counting.walk((self._counting.load(one.id, one.written.pack) for one in starts), without)

    @property
    def is_moved(self) -> bool:
        """Whether commits may have been ended anew here, by packs that another store does not name."""
        return self._counting.is_moved

    @cached_property
    def _counting(self) -> CountingGraph:
        return CountingGraph(self.store)

    def _newest(self, kind: str) -> Iterator[RefRecord]:
        survey = self.refs.survey(kind)
        yield from survey.whole.values()
        for name in survey.damaged:
            record = self.refs.last_whole(kind, name)
            if record is not None:
                yield record

    def behind(self, tips: Iterable[Revision], known: Collection[ObjectId]) -> set[ObjectId]:
        """Return the `known` commits met behind `tips`, and everything behind those."""
        met = [revision for revision in self.graph.walk(tips) if revision.id in known]
        return {revision.id for revision in self.graph.walk(met)}
