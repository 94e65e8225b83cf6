"""What a pack's own footer would say, worked out from what is left: for packs that no other store has."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from mvcs.errors import MvcsError, NotFoundError
from mvcs.history import Graph, Revision
from mvcs.objects import Blob, Commit, Kind, ObjectId, Tree
from mvcs.store import (
    MAX_FILE,
    UNREADABLE_ERRORS,
    Ending,
    ObjectStore,
    RebuiltPack,
    Salvage,
    WrittenCommit,
    rebuild_pack,
    salvage,
)
from mvcs.upkeep.repairing.other_contents import OtherContents
from mvcs.upkeep.repairing.wanted_packs import PackKey, WantedPacks


@dataclass(frozen=True)
class Rebuilding:
    """Makes packs again from their own bytes.

    Attributes:
        wanted: tells of the commits of the store.
        others: stores of the same project.
    """

    wanted: WantedPacks
    others: Sequence[ObjectStore] = ()

    def rebuilt(self, key: PackKey) -> RebuiltPack | None:
        """Return a pack made again; None where nothing better than what lies there comes of it."""
        store = self.wanted.store
        try:
            data = store.backend.read_small(key.path, MAX_FILE)
        except (MvcsError, NotFoundError):
            return None
        view = store.apart()

        def salvaged() -> Salvage:
            if key.exact:
                self._lean(view, key.name)
            return salvage(view, key.name, exact=key.exact)

        def contents() -> OtherContents:
            tree = self._tree(view, key.name) if key.exact else None
            return OtherContents(view, key.name, key.exact, tree, self.others)

        with suppress(*UNREADABLE_ERRORS):
            return rebuild_pack(key.name, data, salvaged, lambda found: self._ending(view, found), contents)
        return None

    def _lean(self, view: ObjectStore, name: str) -> None:
        tree = self._tree(view, name)
        if tree is not None:
            view.lean_on(tree, [name])

    def _tree(self, view: ObjectStore, name: str) -> Tree | None:
        """Return the tree of the commit whose layer an exact pack is: stored near what it restores."""
        for revision in self.wanted.revisions():
            if name in revision.written.exact_packs:
                view.catalog.attach_commit(revision.written.pack)
                with suppress(*UNREADABLE_ERRORS):
                    return view.tree(revision.commit.tree)
        return None

    def _ending(self, view: ObjectStore, found: Salvage) -> Ending:
        commits = [identifier for kind, identifier in found.objects if kind is Kind.COMMIT]
        if found.told is None or len(commits) != 1:
            return Ending()
        content = bytes(view.read(Kind.COMMIT, commits[0]))
        told, commit = found.told, Commit.decode(content)
        first = WrittenCommit(commits[0], content, "", *told.sizes, told.exact_packs)
        graph = Graph(view)
        parents = list(_loaded(graph, commit.parents))
        reach = self._reach(view, commits[0], commit).difference(told.own, {found.name})
        return Ending((first, *graph.copies(parents)), tuple(sorted(reach)), told.own)

    @staticmethod
    def _reach(view: ObjectStore, identifier: ObjectId, commit: Commit) -> set[str]:
        """Return the packs in which all lies that a commit needs, as far as they can be found."""
        packs: set[str] = set()
        for needed in _needed(view, identifier, commit):
            with suppress(*UNREADABLE_ERRORS):
                packs |= view.catalog.chain_of(view.catalog.locate(needed)).packs
        return packs


def _loaded(graph: Graph, identifiers: Iterable[ObjectId]) -> Iterator[Revision]:
    for identifier in identifiers:
        with suppress(*UNREADABLE_ERRORS):
            yield graph.load(identifier, None)


def _needed(view: ObjectStore, identifier: ObjectId, commit: Commit) -> Iterator[ObjectId]:
    yield identifier
    yield commit.tree
    with suppress(*UNREADABLE_ERRORS):
        tree = view.tree(commit.tree)
        yield from dict.fromkeys(chunk for leaf in tree.leaves for chunk in leaf.value_chunks())
        for blob in dict(tree.blobs()):
            yield blob
            yield from Blob.decode(view.read(Kind.BLOB, blob)).chunks
