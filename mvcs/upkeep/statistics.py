"""Where the bytes of a store are, what restores of its commits cost, and what could be freed."""

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from heapq import nlargest
from itertools import pairwise

from mvcs.checkpoint import roles_of
from mvcs.config import DAY_SECONDS, GRACE_DAYS
from mvcs.delta import Encoding
from mvcs.errors import MvcsError, UsageError
from mvcs.history import Graph, Revision
from mvcs.local import Place
from mvcs.objects import Blob, Kind, Leaf, ObjectId, Tree, half, short_id
from mvcs.progress import Progress
from mvcs.refs import HEADS, REMOTES, TAGS, RefStore
from mvcs.reports import (
    Bin,
    BranchSize,
    ClassSize,
    CommitSize,
    EncodingSize,
    Freeable,
    MonthSize,
    StoreStats,
    as_utc,
)
from mvcs.restore import located_chunks, partly_needed, stored_share
from mvcs.store import (
    EXACT_FOLDER,
    MANIFEST_FOLDER,
    UNREADABLE_ERRORS,
    VALUE_FOLDER,
    Footer,
    Located,
    ObjectStore,
    Placement,
    RestoreCost,
    RestoreRates,
    links_behind,
    pack_path,
    parse_path,
)
from mvcs.upkeep.collecting.garbage import collect_garbage
from mvcs.upkeep.collecting.leftovers import held, is_pack

MOST = 10  # commits that are named
_BINS = 9
_DEPTHS = (0, 1, 2, 3, 5, 9, 17, 33, 65, 1 << 62)
_GB = 1e9
METADATA, BLOBS, ELSEWHERE = "metadata", "blobs", "elsewhere"
_FORGOTTEN = 32  # commits after which footers are let go that the last one does not need
_MESSAGE = 60


@dataclass
class CommitRow:
    """One commit.

    Attributes:
        parents: its parents.
        time: when it was made.
        step: of the run, if it has one.
        message: its first line, as far as it is shown.
        raw_bytes: as handed over; 0 where its data were dropped.
        depth: as first written, until it was looked at; None where its data were dropped.
        value_bytes: of its packs of the value layer and its manifest; as first written, until it was looked
            at.
        exact_bytes: of those of its exact layer; likewise.
        cost: of restoring it; None until it was looked at.
    """

    parents: tuple[ObjectId, ...]
    time: dt.datetime
    step: int | None
    message: str
    raw_bytes: int
    depth: int | None
    value_bytes: int
    exact_bytes: int
    cost: RestoreCost | None = None

    @property
    def bytes(self) -> int:
        """Bytes of both layers."""
        return self.value_bytes + self.exact_bytes

    @classmethod
    def of(cls, revision: Revision) -> "CommitRow":
        """Return the row of a commit that was not looked at yet."""
        commit, written = revision.commit, revision.written
        return cls(
            commit.parents,
            as_utc(commit.time),
            commit.step,
            commit.message.strip("\n").partition("\n")[0][:_MESSAGE],
            written.raw_bytes,
            written.depth,
            written.stored_bytes,
            written.exact_bytes,
        )


@dataclass
class CommitRows:
    """The rows of a history.

    Attributes:
        rows: by commit, children mostly before parents.
    """

    rows: dict[ObjectId, CommitRow] = field(default_factory=dict)

    @classmethod
    def walked(cls, graph: Graph, tips: Iterable[Revision], progress: Progress) -> "CommitRows":
        """Walk all that lies behind some commits.

        Raises:
            CorruptionError: a commit on the way is damaged.
            NotFoundError: one is nowhere.
        """
        found = cls()
        progress.start("walking commits", None, "commits")
        for revision in graph.walk(tips):
            found.rows[revision.id] = CommitRow.of(revision)
            progress.advance(1)
        progress.finish()
        return found

    def branches(self, tips: Mapping[str, ObjectId]) -> list[BranchSize]:
        """Return what the commits of each branch take."""
        names = sorted(tips)
        masks: Counter[ObjectId] = Counter()  # a bit for each branch that leads to a commit
        for number, name in enumerate(names):
            for commit in self._behind(tips[name]):
                masks[commit] += 1 << number
        sums = [Counter[str]() for _ in names]
        for commit, mask in masks.items():
            for number in (bit for bit in range(len(names)) if mask >> bit & 1):
                row = self.rows[commit]
                sums[number].update(commits=1, raw=row.raw_bytes, stored=row.bytes)
                sums[number]["alone"] += row.bytes if mask == 1 << number else 0
        return [
            BranchSize(name, found["commits"], found["raw"], found["stored"], found["alone"])
            for name, found in zip(names, sums, strict=True)
        ]

    def _behind(self, tip: ObjectId) -> set[ObjectId]:
        found, stack = set[ObjectId](), [tip]
        while stack:
            commit = stack.pop()
            if commit not in found and commit in self.rows:
                found.add(commit)
                stack += self.rows[commit].parents
        return found

    def months(self, price: float | None) -> list[MonthSize]:
        """Return what was added in each month, oldest first, and what it costs to keep, at a price a GB."""
        added, made = Counter[str](), Counter[str]()
        for row in self.rows.values():
            month = f"{row.time:%Y-%m}"
            added[month] += row.bytes
            made[month] += 1
        result, total = list[MonthSize](), 0
        for month in sorted(made):
            total += added[month]
            cost = None if price is None else total / _GB * price
            result.append(MonthSize(month, made[month], added[month], total, cost))
        return result


@dataclass(frozen=True)
class Taken:
    """What one commit takes, as it lies in the store now.

    Attributes:
        value_bytes: of its packs of the value layer, and its manifest.
        exact_bytes: of the packs of its exact layer.
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
        records: bytes of every record of manifests by commit and number.
        raw: bytes handed over by class.
        value: bytes of value layers by class.
        exact: bytes of exact layers by class.
        entries: how many of each encoding there are.
        decoded: what these decode to.
        encoded: what they take.
        shared: bytes that commits refer to which an earlier one, or another tensor, has stored.
        packs: paths of the packs that were met.
        leant_on: names of all packs that value layers need.
        manifests: bytes of the records of manifests that count.
    """

    store: ObjectStore
    sizes: Mapping[str, int]
    records: Mapping[ObjectId, Mapping[int, int]]
    raw: Counter[str] = field(default_factory=Counter)
    value: Counter[str] = field(default_factory=Counter)
    exact: Counter[str] = field(default_factory=Counter)
    entries: Counter[Encoding] = field(default_factory=Counter)
    decoded: Counter[Encoding] = field(default_factory=Counter)
    encoded: Counter[Encoding] = field(default_factory=Counter)
    shared: int = 0
    packs: set[str] = field(default_factory=set)
    leant_on: set[str] = field(default_factory=set)
    manifests: int = 0
    _met: int = 0

    @classmethod
    def of(cls, store: ObjectStore) -> "CommitSizes":
        """List the packs and manifests of a store."""
        backend, records = store.backend, defaultdict[ObjectId, dict[int, int]](dict)
        listed = backend.sizes(VALUE_FOLDER) | backend.sizes(EXACT_FOLDER)
        for path, size in backend.sizes(MANIFEST_FOLDER).items():
            if (at := parse_path(path)) is not None:
                records[at[0]][at[1]] = size
        return cls(store, {path: size for path, size in listed.items() if is_pack(path)}, records)

    @property
    def total(self) -> int:
        """Bytes of all packs and manifests."""
        return sum(self.sizes.values()) + sum(sum(rows.values()) for rows in self.records.values())

    def add(self, revision: Revision, placement: Placement) -> Taken:
        """Count a commit in.

        Raises:
            NotFoundError: something that it holds is nowhere.
            CorruptionError: what describes it is damaged.
        """
        catalog = self.store.catalog
        self._attach(revision, placement)
        tree = self.store.tree(revision.commit.tree)
        held = _Held.of(self.store, tree)
        self.raw.update(held.raw)
        value = sum(self._pack(name, held.names) for name in placement.own) + self._manifest(revision)
        exact = sum(self._pack(name, held.originals, exact=True) for name in revision.written.exact_packs)
        self.shared += sum(held.shared(set(placement.own)))
        starts = [*held.chunks, catalog.locate(revision.commit.tree)]
        links = links_behind(starts, lambda name, exact: catalog.locate(name, exact=exact))
        depth = max(map(catalog.depth_of, held.chunks), default=0)
        return Taken(value, exact, RestoreCost.of_links(links, len(held.chunks), depth))

    def add_rest(self, revision: Revision, placement: Placement) -> int:
        """Count in what is left of a commit whose data were dropped, and return its bytes.

        Raises:
            NotFoundError: that is nowhere, too.
            CorruptionError: it is damaged.
        """
        if not placement.packs:
            return self._manifest(revision)
        self._attach(revision, placement)
        tree = self.store.tree(revision.commit.tree)
        # Where refs lead to its data all the same, they count as what they are.
        names = {
            half(chunk): role.value
            for leaf, role in zip(tree.leaves, roles_of(tree), strict=True)
            for chunk in leaf.tensor.chunk_ids()
        }
        return sum(self._pack(each, names) for each in placement.own) + self._manifest(revision)

    def add_unread(self, revision: Revision) -> None:
        """Count in what is there of a commit that cannot be read whole: its packs are not of no use."""
        packs = [(name, True) for name in revision.written.exact_packs]
        with suppress(*UNREADABLE_ERRORS):
            placement = self.store.manifests.placement(revision.id)
            self.leant_on.update(placement.packs)
            packs += ((name, False) for name in placement.own)
        for name, exact in packs:
            with suppress(*UNREADABLE_ERRORS):
                self._pack(name, {}, exact=exact)
        self._manifest(revision)

    def _attach(self, revision: Revision, placement: Placement) -> None:
        self.store.catalog.attach_commit(revision.id)
        self.leant_on.update(placement.packs)
        self._forget(list(placement.packs))

    def _manifest(self, revision: Revision) -> int:
        """Count the records of a commit in that count, the first and the newest, and return their bytes."""
        rows = self.records.get(revision.id, {})
        size = sum(rows[number] for number in {min(rows, default=0), max(rows, default=0)} if number in rows)
        self.manifests += size
        self.value[METADATA] += size
        return size

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
        kinds = {member.kind for placed in footer.entries for member in placed.entry.members}
        ends = footer.entries[-2 if Kind.COMMIT in kinds else -1 :]  # a salt, and what is said of a commit
        for placed in footer.entries:
            entry, rest = placed.entry, placed.length
            self.entries[entry.encoding] += 1
            self.decoded[entry.encoding] += entry.raw_bytes
            self.encoded[entry.encoding] += placed.length
            unnamed = METADATA if placed in ends else ELSEWHERE
            for member, identifier in zip(entry.members, placed.ids, strict=True):
                is_chunk = member.kind is Kind.CHUNK
                name = names.get(half(identifier), unnamed) if is_chunk else METADATA
                part = placed.length * member.length // max(entry.raw_bytes, 1)
                found[name] += part
                rest -= part
            found[name] += rest  # what rounding left
        return found


def store_stats(
    place: Place, progress: Progress, price: float | None = None, rates: RestoreRates | None = None
) -> StoreStats:
    """Look at all commits that refs lead to; nothing is changed.

    Args:
        place: the repository.
        progress: is told of commits.
        price: of a GB for a month, in whatever currency.
        rates: of this machine, where it was measured.

    Raises:
        UsageError: the price is none.
        CorruptionError: a commit that a ref leads to is damaged.
        NotFoundError: one is not in the store.
    """
    if price is not None and not 0 <= price < float("inf"):
        raise UsageError(
            "the price is not an amount", hint="give it for a GB and a month, as in --price 0.023"
        )
    return _Look(place, progress, price, rates).report()


@dataclass
class _Look:
    """One look at a store."""

    place: Place
    progress: Progress
    price: float | None
    rates: RestoreRates | None
    notes: list[str] = field(default_factory=list)
    _tips: dict[str, ObjectId] = field(default_factory=dict)

    @cached_property
    def _store(self) -> ObjectStore:
        return ObjectStore(self.place.backend, self.place.memory)

    @cached_property
    def _graph(self) -> Graph:
        return Graph(self._store)

    def report(self) -> StoreStats:
        """Look, and say what was found."""
        sizes = CommitSizes.of(self._store)
        rows = CommitRows.walked(self._graph, self._starts(), self.progress)
        self._look(rows, sizes)
        every, total = rows.rows.items(), sizes.total
        value, exact = (
            sum(sizes.sizes[path] for path in sizes.packs if path.startswith(f"{folder}/"))
            for folder in (VALUE_FOLDER, EXACT_FOLDER)
        )
        value += sizes.manifests
        leant, unused = self._foreign(rows, sizes)
        return StoreStats(
            commits=len(rows.rows),
            dropped=sum(row.depth is None for _, row in every),
            raw_bytes=sum(row.raw_bytes for _, row in every),
            stored_bytes=total,
            value_bytes=value,
            exact_bytes=exact,
            leant_bytes=leant,
            unused_bytes=unused,
            unreached_bytes=total - value - exact - leant,
            classes=_classes(sizes),
            encodings=_encodings(sizes),
            branches=rows.branches(self._tips),
            depths=_counted((row.depth for _, row in every if row.depth is not None), _DEPTHS),
            restores=_restores([row.cost.stored_bytes for _, row in every if row.cost is not None]),
            largest=self._most(every, lambda row: row.bytes),
            dearest=self._most(every, self._dearness),
            shared_bytes=sizes.shared,
            freeable=self._freeable(),
            months=rows.months(self.price),
            price=self.price,
            monthly=None if self.price is None else total / _GB * self.price,
            notes=self.notes,
        )

    def _foreign(self, rows: CommitRows, sizes: CommitSizes) -> tuple[int, int]:
        """Return the bytes of packs of commits that are gone, on which others lean, and of no use."""
        names = {path for name in sizes.leant_on if (path := pack_path(name)) in sizes.sizes} - sizes.packs
        leant = sum(sizes.sizes[path] for path in names)
        if not leant:
            return 0, 0
        revisions = [self._graph.load(commit) for commit, row in rows.rows.items()]
        dropped = [commit for commit, row in rows.rows.items() if row.depth is None]
        return leant, sum(each.unused for each in partly_needed(self._store, revisions, dropped))

    def _starts(self) -> list[Revision]:
        """Return where refs and HEAD stand; of a ref that cannot be read a note says so."""
        refs, starts = RefStore(self.place.backend), []
        for kind in (HEADS, TAGS, REMOTES):
            for name, record in refs.survey(kind).told(self.notes.append).items():
                if record.target is not None:
                    starts.append(self._graph.load(record.target))
                    self._tips |= {name: record.target} if kind == HEADS else {}
        with suppress(*UNREADABLE_ERRORS):
            detached = held(self.place).commit
            starts += [] if detached is None else [self._graph.load(detached)]
        return starts

    def _look(self, rows: CommitRows, sizes: CommitSizes) -> None:
        self.progress.start("looking at commits", len(rows.rows), "commits")
        unread: list[str] = []
        for commit, row in rows.rows.items():
            revision = self._graph.load(commit)
            try:
                self._look_at(row, revision, sizes)
            except UNREADABLE_ERRORS:
                sizes.add_unread(revision)
                unread.append(short_id(commit))
            self.progress.advance(1)
        self.progress.finish()
        if unread:
            few = f"{len(unread)} commits cannot be read whole, such as {unread[0]}"
            self.notes.append(f"{few}: they count as first written; 'mvcs fsck' says more")

    def _look_at(self, row: CommitRow, revision: Revision, sizes: CommitSizes) -> None:
        placement = self._store.manifests.placement(revision.id)
        # What was dropped counts as gone, be it that no collector came yet.
        if placement.dropped is not None:
            row.raw_bytes, row.depth = 0, None
            row.value_bytes, row.exact_bytes = sizes.add_rest(revision, placement), 0
        else:
            taken = sizes.add(revision, placement)
            row.value_bytes, row.exact_bytes = taken.value_bytes, taken.exact_bytes
            row.cost, row.depth = taken.cost, taken.cost.depth

    def _seconds(self, row: CommitRow) -> float | None:
        if row.cost is None or self.rates is None:
            return None
        return row.cost.seconds(self.rates, row.raw_bytes)

    def _dearness(self, row: CommitRow) -> float:
        return self._seconds(row) or (0 if row.cost is None else row.cost.stored_bytes)

    def _most(
        self, every: Iterable[tuple[ObjectId, CommitRow]], key: Callable[[CommitRow], float]
    ) -> list[CommitSize]:
        return [
            CommitSize(
                commit.hex(),
                row.step,
                row.message,
                row.raw_bytes,
                row.value_bytes,
                row.exact_bytes,
                row.depth or 0,
                row.cost.requests if row.cost else 0,
                row.cost.stored_bytes if row.cost else 0,
                self._seconds(row),
            )
            for commit, row in nlargest(MOST, every, lambda item: key(item[1]))
        ]

    def _freeable(self) -> Freeable:
        """Plan a collection; what retention and compaction would free is theirs to say."""
        try:
            plan = collect_garbage(self.place, GRACE_DAYS * DAY_SECONDS, execute=False, wait=0)
        except (MvcsError, OSError) as error:
            reason = error.message if isinstance(error, MvcsError) else str(error)
            self.notes.append(f"what 'mvcs gc' would free is not known: {reason}")
            return Freeable(None, None)
        return Freeable(plan.bytes, sum(item.bytes for item in plan.waiting))


def _classes(sizes: CommitSizes) -> list[ClassSize]:
    names = dict.fromkeys([*sizes.raw, *sizes.value, *sizes.exact])
    found = [ClassSize(name, sizes.raw[name], sizes.value[name], sizes.exact[name]) for name in names]
    return sorted(found, key=lambda item: (-item.raw_bytes, -item.stored_bytes - item.exact_bytes, item.name))


def _encodings(sizes: CommitSizes) -> list[EncodingSize]:
    return [
        EncodingSize(encoding.name.lower(), count, sizes.decoded[encoding], sizes.encoded[encoding])
        for encoding, count in sorted(sizes.entries.items(), key=lambda item: -sizes.encoded[item[0]])
    ]


def _restores(amounts: list[int]) -> list[Bin]:
    """Count commits by bytes read, in bins that double, or grow faster where that makes too many."""
    low, high = max(min(amounts, default=1), 1), max(amounts, default=1)
    start, grown = 1 << (low.bit_length() - 1), 1
    while start << (_BINS * grown) <= high:
        grown += 1
    edges = [start << (grown * number) for number in range(_BINS + 1)]
    last = next(number for number, edge in enumerate(edges) if edge > high)
    return _counted(amounts, [0 if low < start else start, *edges[1 : last + 1]])


def _counted(amounts: Iterable[int], edges: Iterable[int]) -> list[Bin]:
    """Count amounts between edges; empty bins at the end are left out."""
    found, values = list(amounts), list(edges)
    bins = [Bin(low, high, sum(low <= amount < high for amount in found)) for low, high in pairwise(values)]
    while bins and not bins[-1].commits:
        bins.pop()
    return bins


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
