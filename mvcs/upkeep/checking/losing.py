"""Which commits lose something by what cannot be read."""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping

from mvcs.errors import CorruptionError, NotFoundError, UnsupportedFormatError
from mvcs.history import Revision
from mvcs.objects import ObjectId, QuantizedTensor, Tree
from mvcs.store import ObjectStore


def losing(
    store: ObjectStore,
    revisions: Iterable[Revision],
    faults: Mapping[str, Collection[ObjectId]],
    dropped: Container[ObjectId] = (),
) -> dict[str, list[ObjectId]]:
    """Return the commits that need one of the objects which cannot be read on account of each pack.

    Args:
        store: where trees are read; one that cannot be read is what its commit loses.
        revisions: the commits, in the order in which they are named.
        faults: the objects, by the paths of packs.
        dropped: commits whose data were dropped, and which lose none of these any more.
    """
    objects = {path: frozenset(found) for path, found in faults.items() if found}
    commits: dict[str, list[ObjectId]] = {path: [] for path in faults}
    for revision in revisions if objects else ():
        needed = frozenset(_needed(store, revision, data=revision.id not in dropped))
        for path, unread in objects.items():
            if not unread.isdisjoint(needed):
                commits[path].append(revision.id)
    return commits


def _needed(store: ObjectStore, revision: Revision, *, data: bool) -> Iterator[ObjectId]:
    yield from (revision.id, revision.commit.tree)
    try:
        tree = store.tree(revision.commit.tree)
        yield from _in_tree(tree) if data else dict(tree.blobs())
    except (CorruptionError, NotFoundError, UnsupportedFormatError):
        return


def _in_tree(tree: Tree) -> Iterator[ObjectId]:
    yield from (identifier for identifier, _ in tree.blobs())
    for leaf in tree.leaves:
        if isinstance(leaf.tensor, QuantizedTensor):
            yield leaf.tensor.id
        yield from leaf.value_chunks()
        yield from leaf.original.chunks if leaf.original else ()
