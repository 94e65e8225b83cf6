"""Where the bytes of a store are, what restores of its commits cost, and what could be freed."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from heapq import nlargest
from itertools import pairwise

from mvcs.config import DAY_SECONDS, GRACE_DAYS
from mvcs.errors import MvcsError, UsageError
from mvcs.history import CountingGraph, Revision
from mvcs.local import Place
from mvcs.objects import ObjectId, short_id
from mvcs.progress import Progress
from mvcs.refs import HEADS, REMOTES, TAGS, RefStore
from mvcs.reports import Bin, ClassSize, CommitSize, EncodingSize, Freeable, StoreStats
from mvcs.restore import partly_needed
from mvcs.retention import DataDrops
from mvcs.store import EXACT_FOLDER, UNREADABLE_ERRORS, VALUE_FOLDER, ObjectStore, RestoreRates, pack_path
from mvcs.upkeep.collecting.garbage import collect_garbage
from mvcs.upkeep.collecting.leftovers import held, is_pack
from mvcs.upkeep.stats.commit_rows import CommitRow, CommitRows
from mvcs.upkeep.stats.commit_sizes import CommitSizes

MOST = 10  # commits that are named
_BINS = 9
_DEPTHS = (0, 1, 2, 3, 5, 9, 17, 33, 65, 1 << 62)
_GB = 1e9


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
    def _graph(self) -> CountingGraph:
        return CountingGraph(self._store)

    def report(self) -> StoreStats:
        """Look, and say what was found."""
        backend = self.place.backend
        listed = backend.sizes(VALUE_FOLDER) | backend.sizes(EXACT_FOLDER)
        sizes = CommitSizes(self._store, {path: size for path, size in listed.items() if is_pack(path)})
        rows = CommitRows.walked(self._graph, self._starts(), self.progress)
        self._look(rows, sizes)
        every, total = rows.rows.items(), sum(sizes.sizes.values())
        value, exact = (
            sum(sizes.sizes[path] for path in sizes.packs if path.startswith(f"{folder}/"))
            for folder in (VALUE_FOLDER, EXACT_FOLDER)
        )
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
        revisions = [self._graph.load(commit, row.pack) for commit, row in rows.rows.items()]
        dropped = DataDrops.of(self.place.backend).found
        return leant, sum(each.unused for each in partly_needed(self._store, revisions, dropped))

    def _starts(self) -> list[Revision]:
        """Return where refs and HEAD stand; of a ref that cannot be read a note says so."""
        refs, starts = RefStore(self.place.backend), []
        for kind in (HEADS, TAGS, REMOTES):
            for name, record in refs.survey(kind).told(self.notes.append).items():
                if record.target is not None:
                    starts.append(self._graph.load(record.target, record.pack))
                    self._tips |= {name: record.target} if kind == HEADS else {}
        with suppress(*UNREADABLE_ERRORS):
            detached = held(self.place).commit
            starts += [] if detached is None else [self._graph.load(detached, None)]
        return starts

    def _look(self, rows: CommitRows, sizes: CommitSizes) -> None:
        self.progress.start("looking at commits", len(rows.rows), "commits")
        unread: list[str] = []
        dropped = DataDrops.of(self.place.backend)
        for commit, row in rows.rows.items():
            revision = self._graph.load(commit, row.pack)
            try:
                self._look_at(row, revision, sizes, dropped)
            except UNREADABLE_ERRORS:
                sizes.add_unread(revision)
                unread.append(short_id(commit))
            self.progress.advance(1)
        self.progress.finish()
        if unread:
            few = f"{len(unread)} commits cannot be read whole, such as {unread[0]}"
            self.notes.append(f"{few}: they count as first written; 'mvcs fsck' says more")

    @staticmethod
    def _look_at(row: CommitRow, revision: Revision, sizes: CommitSizes, dropped: DataDrops) -> None:
        # What was dropped counts as gone, be it that no collector came yet.
        if dropped.get(revision.id) is not None:
            row.value_bytes, row.exact_bytes = sizes.add_rest(revision), 0
            row.raw_bytes, row.depth = 0, None
        else:
            taken = sizes.add(revision)
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
