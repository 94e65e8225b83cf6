"""Which commits that count as dropped have all of their data, and the packs that lead to these."""

from collections.abc import Collection, Iterable, Iterator

from mvcs.compaction import named_commits
from mvcs.history import CountingGraph, EndingPacks, Revision
from mvcs.objects import ObjectId
from mvcs.refs import RefStore
from mvcs.remotes import has_data
from mvcs.store import ObjectStore


def with_data(store: ObjectStore, revisions: Collection[Revision]) -> dict[ObjectId, Revision]:
    """Return the commits whose data are all there, each as a pack ends it from which all are found.

    Raises:
        CorruptionError: something of one is damaged, so that nobody can tell.
    """
    found: dict[ObjectId, Revision] = {}
    ended = EndingPacks.of(store.backend) if revisions else None
    for revision in revisions:
        others = [] if ended is None else [Revision(one) for one in ended.all_whole(revision.id)]
        for one in (revision, *others):
            if has_data(store, one):
                found[revision.id] = one
                break
    return found


def those_with_data(store: ObjectStore, refs: RefStore, commits: Collection[ObjectId]) -> set[ObjectId]:
    """Return those of some commits whose data are where refs lead to."""
    if not commits:
        return set()
    return {one.id for one in _behind(store, refs) if one.id in commits and has_data(store, one)}


def _behind(store: ObjectStore, refs: RefStore) -> Iterator[Revision]:
    graph = CountingGraph(store.apart())
    yield from graph.walk(_tips(graph, refs))


def _tips(graph: CountingGraph, refs: RefStore) -> Iterable[Revision]:
    for named in named_commits(refs):
        if named.record.target is not None:
            yield graph.load(named.record.target, named.record.pack)
