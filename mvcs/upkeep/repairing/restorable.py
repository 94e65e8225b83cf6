"""Which commits still restore, once it is known what is lost."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress

from mvcs.errors import MvcsError
from mvcs.history import CountingGraph, Graph, Revision
from mvcs.objects import ObjectId
from mvcs.refs import HEADS, RefRecord, RefStore
from mvcs.reports import Loss, NewestWhole
from mvcs.store import ObjectStore
from mvcs.upkeep.repairing.losses import VALUE


class Restorable:
    """Tells of commits whose data were not dropped which of them restore.

    Attributes:
        whole: the ids of those that have lost nothing, as they were given.
    """

    def __init__(self, revisions: Sequence[Revision], losses: Collection[Loss]) -> None:
        lossy = {loss.commit for loss in losses}
        without_values = {loss.commit for loss in losses if loss.layer == VALUE}
        self.whole = [one.id.hex() for one in revisions if one.id.hex() not in lossy]
        self._with_values = {one.id for one in revisions if one.id.hex() not in without_values}

    def newest(self, store: ObjectStore, refs: RefStore) -> Iterator[NewestWhole]:
        """Yield the newest commit of each branch whose values restore; a branch may have none."""
        graph = CountingGraph(store)
        for name in refs.listed(HEADS):
            with suppress(MvcsError):  # it was told what is wrong with the branch
                yield self._newest(graph, name, _targets(refs, name))

    def _newest(self, graph: Graph, name: str, targets: Iterable[tuple[ObjectId, str | None]]) -> NewestWhole:
        for target, pack in targets:
            with suppress(MvcsError):
                for revision in graph.walk([graph.load(target, pack)]):
                    if revision.id in self._with_values:
                        return self._told(name, revision)
                return NewestWhole(name)
        return NewestWhole(name)

    def _told(self, name: str, revision: Revision) -> NewestWhole:
        identifier, commit = revision.id.hex(), revision.commit
        exact = identifier in set(self.whole)
        return NewestWhole(name, identifier, commit.step, commit.message.partition("\n")[0], exact)


def _targets(refs: RefStore, name: str) -> Iterator[tuple[ObjectId, str | None]]:
    """Yield where a branch stands, and where it stood before; nothing of one that was deleted."""
    for record in refs.row(HEADS, name):
        if isinstance(record, RefRecord):
            if record.target is None:
                return
            yield record.target, record.pack
