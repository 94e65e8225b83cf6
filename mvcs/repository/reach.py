"""Which packs commits need: every commit behind a ref, a record of its past, or HEAD."""

from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice

from mvcs.errors import NotFoundError
from mvcs.history.graph import Graph, Revision
from mvcs.objects.ids import ObjectId
from mvcs.refs import HEADS, REMOTES, TAGS, RefStore
from mvcs.store.backend import Backend
from mvcs.store.catalog import READERS, read_footer
from mvcs.store.objects import ObjectStore

_BATCH = 64


def unneeded(
    backend: Backend,
    packs: Iterable[str],
    detached: ObjectId | None = None,
    past: Collection[ObjectId] = (),
) -> set[str]:
    """Return those of `packs`, by name, that no commit of a store needs for either of its layers.

    Commits count that a branch, a tag or what is known of a remote leads to, now or in a record that is kept
    of its past, and the commit that HEAD stands on.

    Args:
        backend: the store.
        packs: names of packs.
        detached: where HEAD stands without a branch.
        past: where it stood before; what is no longer stored of that counts for nothing.

    Raises:
        MvcsError: something on the way is damaged, so that nobody can tell.
    """
    return _left(backend, packs, lambda graph: _everything(graph, RefStore(backend), detached, past))


def unneeded_now(backend: Backend, packs: Iterable[str], kind: str, start: str = "") -> set[str]:
    """Return those of `packs` that no commit needs behind refs of one kind whose names begin with `start`.

    Raises:
        MvcsError: something on the way is damaged, so that nobody can tell.
    """
    return _left(backend, packs, lambda graph: _tips(graph, RefStore(backend), kind, start))


def _left(backend: Backend, packs: Iterable[str], starts: Callable[[Graph], Iterator[Revision]]) -> set[str]:
    left = set(packs)
    if left:
        for needed in _needs(backend, starts):
            left -= needed
            if not left:
                break
    return left


def _needs(backend: Backend, starts: Callable[[Graph], Iterator[Revision]]) -> Iterator[set[str]]:
    store = ObjectStore(backend)
    graph = Graph(store)
    with ThreadPoolExecutor(READERS) as pool:
        walk = graph.walk(starts(graph))
        while revisions := list(islice(walk, _BATCH)):
            yield from pool.map(lambda revision: _needed(backend, revision), revisions)
            store.catalog.keep(())  # a long history's footers do not stay in memory


def _needed(backend: Backend, revision: Revision) -> set[str]:
    written = revision.written
    return {written.pack, *read_footer(backend, written.pack).needed, *written.exact_packs}


def _tips(graph: Graph, refs: RefStore, kind: str, start: str) -> Iterator[Revision]:
    for name, record in refs.all(kind).items():
        if name.startswith(start) and record.target is not None:
            yield graph.load(record.target, record.pack)


def _everything(
    graph: Graph, refs: RefStore, detached: ObjectId | None, past: Collection[ObjectId]
) -> Iterator[Revision]:
    for kind in (HEADS, TAGS, REMOTES):
        for name in refs.listed(kind):
            for record in refs.history(kind, name):
                if record.target is not None:
                    yield graph.load(record.target, record.pack)
    if detached is not None:
        yield graph.load(detached, None)
    for left in past:
        with suppress(NotFoundError):
            yield graph.load(left, None)
