"""What commits store: by class of leaves, by encoding, and what each takes to restore.

Footers and trees are read, and the heads of opaque files. No chunk of a tensor is.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from mvcs.checkpoint import roles_of
from mvcs.delta import Encoding
from mvcs.history import Revision
from mvcs.objects import Blob, Kind, Leaf, ObjectId, Tree, half
from mvcs.restore import located_chunks, stored_share
from mvcs.store import (
    UNREADABLE_ERRORS,
    Footer,
    Located,
    ObjectStore,
    RestoreCost,
    links_behind,
    pack_path,
)

METADATA, BLOBS, ELSEWHERE = "metadata", "blobs", "elsewhere"
_FORGOTTEN = 32  # commits after which footers are let go that the last one does not need


@dataclass(frozen=True)
class Taken:
    """What one commit takes, as it lies in the store now.

    Attributes:
        value_bytes: of its packs of the value layer.
        exact_bytes: of those of its exact layer.
        cost: of restoring its value layer, each entry read once.
    """

    value_bytes: int
    exact_bytes: int
    cost: RestoreCost


@dataclass
class CommitSizes:
    """Goes through commits, and adds up what they store.

    Attributes:
        store: where they lie.
        sizes: bytes of every pack by path.
        raw: bytes handed over by class.
        value: bytes of value layers by class.
        exact: bytes of exact layers by class.
        entries: how many of each encoding there are.
        decoded: what these decode to.
        encoded: what they take.
        shared: bytes that commits refer to which an earlier one, or another tensor, has stored.
        packs: paths of the packs that were met.
        leant_on: names of all packs that value layers need.
    """

    store: ObjectStore
    sizes: Mapping[str, int]
    raw: Counter[str] = field(default_factory=Counter)
    value: Counter[str] = field(default_factory=Counter)
    exact: Counter[str] = field(default_factory=Counter)
    entries: Counter[Encoding] = field(default_factory=Counter)
    decoded: Counter[Encoding] = field(default_factory=Counter)
    encoded: Counter[Encoding] = field(default_factory=Counter)
    shared: int = 0
    packs: set[str] = field(default_factory=set)
    leant_on: set[str] = field(default_factory=set)
    _met: int = 0

    def add(self, revision: Revision) -> Taken:
        """Count a commit in.

        Raises:
            NotFoundError: something that it holds is nowhere.
            CorruptionError: what describes it is damaged.
        """
        catalog, written = self.store.catalog, revision.written
        catalog.attach_commit(written.pack)
        ending = catalog.attach(written.pack)
        self.leant_on.update(ending.needed)
        self._forget([written.pack, *ending.needed])
        tree, own = self.store.tree(revision.commit.tree), {written.pack, *ending.own}
        held = _Held.of(self.store, tree)
        self.raw.update(held.raw)
        value = sum(self._pack(name, held.names) for name in sorted(own))
        exact = sum(self._pack(name, held.originals, exact=True) for name in written.exact_packs)
        self.shared += sum(held.shared(own))
        starts = [*held.chunks, catalog.locate(revision.commit.tree)]
        links = links_behind(starts, lambda name, exact: catalog.locate(name, exact=exact))
        depth = max(map(catalog.depth_of, held.chunks), default=0)
        return Taken(value, exact, RestoreCost.of_links(links, len(held.chunks), depth))

    def add_rest(self, revision: Revision) -> int:
        """Count in what is left of a commit whose data were dropped, and return its bytes.

        Raises:
            NotFoundError: that is nowhere, too.
            CorruptionError: it is damaged.
        """
        catalog, name = self.store.catalog, revision.written.pack
        ending = catalog.attach(name)
        catalog.attach_commit(name)
        self._forget([name, *ending.needed])
        tree = self.store.tree(revision.commit.tree)
        # Where refs lead to its data all the same, they count as what they are.
        names = {
            half(chunk): role.value
            for leaf, role in zip(tree.leaves, roles_of(tree), strict=True)
            for chunk in leaf.tensor.chunk_ids()
        }
        return sum(self._pack(each, names) for each in sorted({name, *ending.own}))

    def add_unread(self, revision: Revision) -> None:
        """Count in what is there of a commit that cannot be read whole: its packs are not of no use."""
        written = revision.written
        own = {written.pack}
        with suppress(*UNREADABLE_ERRORS):
            ending = self.store.catalog.attach(written.pack)
            own.update(ending.own)
            self.leant_on.update(ending.needed)
        packs = [*((name, False) for name in sorted(own)), *((name, True) for name in written.exact_packs)]
        for name, exact in packs:
            with suppress(*UNREADABLE_ERRORS):
                self._pack(name, {}, exact=exact)

    def _forget(self, needed: list[str]) -> None:
        self._met += 1
        if self._met % _FORGOTTEN == 0:
            self.store.keep(needed)

    def _pack(self, name: str, names: Mapping[ObjectId, str], *, exact: bool = False) -> int:
        """Count a pack in, once, and return its bytes; 0 for one that is not there."""
        path, catalog = pack_path(name, exact=exact), self.store.catalog
        size = self.sizes.get(path)
        if size is None or path in self.packs:
            return 0
        footer = catalog.look(name, exact=exact)
        self.packs.add(path)
        by_class = self.exact if exact else self.value
        by_class.update(self._entries(footer, names))
        by_class[METADATA] += size - sum(placed.length for placed in footer.entries)
        return size

    def _entries(self, footer: Footer, names: Mapping[ObjectId, str]) -> Counter[str]:
        """Count the entries of a pack by encoding, and return their bytes by class."""
        found: Counter[str] = Counter()
        for placed in footer.entries:
            entry, rest = placed.entry, placed.length
            self.entries[entry.encoding] += 1
            self.decoded[entry.encoding] += entry.raw_bytes
            self.encoded[entry.encoding] += placed.length
            unnamed = METADATA if placed is footer.entries[-1] else ELSEWHERE
            for member, identifier in zip(entry.members, placed.ids, strict=True):
                is_chunk = member.kind is Kind.CHUNK
                name = names.get(half(identifier), unnamed) if is_chunk else METADATA
                part = placed.length * member.length // max(entry.raw_bytes, 1)
                found[name] += part
                rest -= part
            found[name] += rest  # what rounding left
        return found


@dataclass
class _Held:
    """What the tree of a commit holds.

    Attributes:
        raw: bytes by class.
        names: the class of each chunk of the value layer, by half its id.
        originals: the same of the exact layer.
        chunks: where the chunks of the value layer lie; once for each leaf that has one.
    """

    raw: Counter[str] = field(default_factory=Counter)
    names: dict[ObjectId, str] = field(default_factory=dict)
    originals: dict[ObjectId, str] = field(default_factory=dict)
    chunks: list[Located] = field(default_factory=list)

    @classmethod
    def of(cls, store: ObjectStore, tree: Tree) -> "_Held":
        held = cls()
        for leaf, role in zip(tree.leaves, roles_of(tree), strict=True):
            held._leaf(store, leaf, role.value)
        for identifier, length in tree.blobs():
            held.raw[BLOBS] += length
            held._take(BLOBS, [*map(store.catalog.locate, _blob_chunks(store, identifier))])
        return held

    def _leaf(self, store: ObjectStore, leaf: Leaf, name: str) -> None:
        self.raw[name] += leaf.raw_bytes
        self._take(name, located_chunks(store, leaf))
        for chunk in leaf.original.chunks if leaf.original is not None else ():
            self.originals.setdefault(half(chunk), name)

    def _take(self, name: str, chunks: list[Located]) -> None:
        self.chunks += chunks
        for link in chunks:
            self.names.setdefault(half(link.id), name)

    def shared(self, own: set[str]) -> Iterator[int]:
        """Yield the bytes of chunks that the commit did not have to store, or not once more."""
        met: set[ObjectId] = set()
        for link in self.chunks:
            if link.id in met or link.pack not in own:
                yield stored_share(link)
            met.add(link.id)


def _blob_chunks(store: ObjectStore, identifier: ObjectId) -> tuple[ObjectId, ...]:
    return tuple(Blob.decode(store.read(Kind.BLOB, identifier)).chunks)
