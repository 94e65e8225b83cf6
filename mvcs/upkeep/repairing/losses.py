"""What commits no longer restore, since entries are damaged and packs are gone: tensor by tensor."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from mvcs.errors import MvcsError
from mvcs.history import CountingGraph, Graph, Revision
from mvcs.objects import (
    Blob,
    Kind,
    Leaf,
    ObjectId,
    QuantizedTensor,
    Tree,
    blob_reference,
    half,
    path_text,
)
from mvcs.refs import HEADS, RefRecord, RefStore
from mvcs.reports import Loss, NewestWhole
from mvcs.store import UNREADABLE_ERRORS, ObjectStore, pack_path

VALUE, EXACT = "value", "exact"
NAMED = 64  # tensors of a commit that a report names


@dataclass
class Losses:
    """Looks through commits of a store whose damage is known: its catalog distrusts what is damaged.

    Attributes:
        store: the store.
        given_up: packs of exact layers that were dropped on purpose.
    """

    store: ObjectStore
    given_up: Collection[str]
    _lost: dict[tuple[ObjectId, bool], bool] = field(default_factory=dict)

    def of(self, revisions: Iterable[Revision]) -> Iterator[Loss]:
        """Yield what each commit has lost, of both layers."""
        for revision in revisions:
            try:
                self.store.catalog.attach_commit(revision.written.pack)
                tree = self.store.tree(revision.commit.tree)
            except UNREADABLE_ERRORS:
                yield _loss(revision, VALUE, None)
                continue
            values = [self._has_lost_value(leaf) for leaf in tree.leaves]
            paths = [path for path, lost in zip(tree.leaf_paths(), values, strict=True) if lost]
            paths += self._files(tree)
            if paths:
                yield _loss(revision, VALUE, [path_text(path) or "the value itself" for path in paths])
            exact = list(self._exact(revision, tree, values))
            if exact:
                yield _loss(revision, EXACT, exact)

    def _has_lost_value(self, leaf: Leaf) -> bool:
        return any(map(self._is_lost, leaf.value_chunks()))

    def _files(self, tree: Tree) -> Iterator[tuple[str | int | bool, ...]]:
        for path, node in tree.nodes() if tree.blobs() else ():
            found = blob_reference(node) if isinstance(node, list) else None
            if found is not None and self._is_lost_blob(found[0]):
                yield path

    def _is_lost_blob(self, identifier: ObjectId) -> bool:
        if self._is_lost(identifier):
            return True
        try:
            blob = Blob.decode(self.store.read(Kind.BLOB, identifier))
        except UNREADABLE_ERRORS:
            return True
        return any(map(self._is_lost, blob.chunks))

    def _exact(self, revision: Revision, tree: Tree, values: list[bool]) -> Iterator[str]:
        """Yield the paths of tensors whose exact values are lost; a layer that was given up has lost none."""
        names = revision.written.exact_packs
        if not names or self._is_given_up(names):
            return
        self.store.catalog.attach_layer(names)
        without = {
            half(leaf.tensor.id)
            for leaf, lost in zip(tree.leaves, values, strict=True)
            if lost and isinstance(leaf.tensor, QuantizedTensor)
        }
        for path, leaf in zip(tree.leaf_paths(), tree.leaves, strict=True):
            chunks = () if leaf.original is None else leaf.original.chunks
            if any(self._is_lost_layer(chunk, without) for chunk in chunks):
                yield path_text(path) or "the value itself"

    def _is_given_up(self, names: Iterable[str]) -> bool:
        size = self.store.backend.size
        return any(name in self.given_up and size(pack_path(name, exact=True)) is None for name in names)

    def _is_lost_layer(self, chunk: ObjectId, without: Collection[ObjectId]) -> bool:
        """Tell whether an exact chunk is lost, be it that the values are which it is stored near."""
        if self._is_lost(chunk, exact=True):
            return True
        links = self.store.catalog.chain_of(self.store.catalog.locate(chunk, exact=True)).links
        bases = (base for link in links for base in link.placed.entry.bases if base.chunk is not None)
        return any(base.id in without for base in bases)

    def _is_lost(self, identifier: ObjectId, *, exact: bool = False) -> bool:
        known = self._lost.get((identifier, exact))
        if known is None:
            known = self._lost[identifier, exact] = self._is_unreadable(identifier, exact=exact)
        return known

    def _is_unreadable(self, identifier: ObjectId, *, exact: bool) -> bool:
        catalog = self.store.catalog
        try:
            links = catalog.chain_of(catalog.locate(identifier, exact=exact)).links
        except UNREADABLE_ERRORS:
            return True
        return any(link.place in catalog.damaged for link in links)


def _loss(revision: Revision, layer: str, paths: list[str] | None) -> Loss:
    message = revision.commit.message.partition("\n")[0]
    count = None if paths is None else len(paths)
    return Loss(revision.id.hex(), message, layer, (paths or [])[:NAMED], count)


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
