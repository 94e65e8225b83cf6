"""Packs of commits that nothing leads to any more, which others need: how much of each is of use."""

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from mvcs.history import Revision
from mvcs.objects import Blob, Kind, ObjectId
from mvcs.restore.show import located_chunks
from mvcs.store import UNREADABLE_ERRORS, Located, ObjectStore, links_behind, pack_path

_LEAST_BYTES = 1 << 16
_MOVE_BYTES = 1 << 12  # about what moving one commit takes
_HELD = 32  # commits after which footers are let go that the last one does not need


@dataclass(frozen=True)
class PartlyNeeded:
    """A pack that commits need, and which is none of theirs.

    Attributes:
        pack: its name.
        bytes: what it takes.
        unused: bytes of entries that no commit needs, also as what others are near.
        commits: how many need it.
    """

    pack: str
    bytes: int
    unused: int
    commits: int

    def is_waste(self, most: float) -> bool:
        """Tell whether more than a share of it is of no use, and storing the rest again saves bytes."""
        return self.unused > max(most * self.bytes, _LEAST_BYTES + self.commits * _MOVE_BYTES)


def partly_needed(
    store: ObjectStore,
    revisions: Sequence[Revision],
    dropped: Container[ObjectId],
    rest: Callable[[], None] = lambda: None,
) -> list[PartlyNeeded]:
    """Return the packs that commits need for value layers, and that are of commits that are not among these.

    Such are those of a commit that was amended. Where there are none, footers alone are read. A pack of
    which a commit cannot be read is left out: nobody knows what of it is needed.

    Args:
        store: where they lie.
        revisions: all commits that refs lead to.
        dropped: those of them whose data were given up.
        rest: is called after each commit, and may wait.
    """
    look = _Look(store.apart(), dropped)
    for revision in revisions:
        look.count(revision)
        rest()
    foreign = look.foreign
    for revision in revisions if foreign else ():
        look.look_at(revision, foreign)
        rest()
    return [look.found(pack) for pack in sorted(foreign)]


@dataclass
class _Look:
    store: ObjectStore
    dropped: Container[ObjectId]
    own: set[str] = field(default_factory=set)
    needed: Counter[str] = field(default_factory=Counter)
    used: defaultdict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    _met: int = 0

    @property
    def foreign(self) -> set[str]:
        return self.needed.keys() - self.own

    def count(self, revision: Revision) -> None:
        with suppress(*UNREADABLE_ERRORS):
            placement = self.store.manifests.placement(revision.id)
            self.own.update(placement.own)
            self.needed.update(placement.packs)

    def look_at(self, revision: Revision, foreign: set[str]) -> None:
        """Note what a commit needs of foreign packs; of one that cannot be read, forget these."""
        packs = frozenset[str]()
        try:
            packs = frozenset(self.store.manifests.placement(revision.id).packs)
            if revision.id in self.dropped or foreign.isdisjoint(packs):
                return
            for link in self._behind(revision):
                if link.pack in foreign:
                    self.used[link.pack][link.placed.offset] = link.placed.length
        except UNREADABLE_ERRORS:
            foreign -= packs
        self._met += 1
        if self._met % _HELD == 0:
            self.store.keep(packs)

    def _behind(self, revision: Revision) -> list[Located]:
        catalog = self.store.catalog
        catalog.attach_commit(revision.id)
        return links_behind(self._held(revision), lambda name, exact: catalog.locate(name, exact=exact))

    def _held(self, revision: Revision) -> Iterator[Located]:
        store, tree = self.store, self.store.tree(revision.commit.tree)
        yield store.catalog.locate(revision.commit.tree)
        for leaf in tree.leaves:
            yield from located_chunks(store, leaf)
        for identifier, _ in tree.blobs():
            yield store.catalog.locate(identifier)
            yield from map(store.catalog.locate, Blob.decode(store.read(Kind.BLOB, identifier)).chunks)

    def found(self, pack: str) -> PartlyNeeded:
        size = self.store.backend.size(pack_path(pack)) or 0
        used = sum(self.used[pack].values())
        return PartlyNeeded(pack, size, max(0, size - used), self.needed[pack])
