"""What a writer may store an object near, and what reading it back will then cost."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from mvcs.delta import Encoding
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.objects import Kind, ObjectId
from mvcs.store.packs.entry import Entry, EntryBase
from mvcs.store.reading.chains import (
    DECODING,
    HANDING_OVER,
    MAX_DECODED,
    MAX_HELD,
    MAX_LINKS,
    Chain,
    trace,
)
from mvcs.store.reading.located import ChunkPlace, Located
from mvcs.store.reading.restore_cost import RestoreCost, RestoreRates
from mvcs.store.writing.own_objects import OwnObjects

# What a writer makes stays well below what readers refuse.
_LINKS, _HELD, _DECODED = MAX_LINKS // 4, MAX_HELD // 2, MAX_DECODED // 2
_LEAST_STATE = 1_000_000  # of a smaller one only the time for each range tells, which no chain shortens
_FLOAT32 = 4  # bytes
_OF_CODES = frozenset({Encoding.DELTA, Encoding.RANS_DELTA})
_MOST_SAVING = 3.0  # beyond which chains grow no longer: jumps back keep such deltas small
# A description is few bytes, and what a copy is rounded from is restored with its commit anyway.
_UNPRICED = frozenset({Encoding.ZSTD_DELTA, Encoding.NARROWED})


@dataclass(frozen=True)
class RestoreLimits:
    """How long chains of deltas may grow before a chunk is stored on its own again.

    Attributes:
        max_depth: deltas between a chunk and its snapshot.
        max_cost: what restoring a chunk, or the chunks of one entry, may cost over what it costs as a
            snapshot, by bytes decoded a kind (`chains.DECODING`). Where the deltas of a chain save more
            bytes than they take, what it may cost on top grows by that ratio, up to three times.
        max_seconds: that restoring a chunk, or the chunks of one entry, may take for each GB (10^9 bytes) of
            their values, as estimated by `rates`; None for any. Less than a MB counts as one.
        rates: how quick the machine is; None where nobody knows, and then no time is too long.
        near_depth: deltas where a chunk is stored near one of another commit; None for as many. What is
            rounded from a chunk of its own commit may lie deeper.
    """

    max_depth: int = 64
    max_cost: float = 2.5
    max_seconds: float | None = None
    rates: RestoreRates | None = None
    near_depth: int | None = None

    def depth_of(self, encoding: Encoding) -> int:
        """Return how many deltas an entry of some encoding may have below it."""
        own = self.near_depth is None or encoding is Encoding.NARROWED
        return self.max_depth if own else min(self.max_depth, self.near_depth or 0)

    def pays(self, entry: Entry, encoding: Encoding, chain: Chain, added: int | None = None) -> bool:
        """Tell whether a delta on top of a chain costs restores no more than `max_cost` allows.

        Args:
            entry: of the delta, or of its bases: what they decode to counts.
            encoding: of the delta.
            chain: everything behind its bases.
            added: stored bytes of the delta; None for as many a byte as those of the chain take.
        """
        if encoding in _UNPRICED or entry.members[0].kind is not Kind.CHUNK:
            return True
        raw, alone, deltas = entry.raw_bytes, chain.snapshots, chain.deltas
        taken = deltas.stored + (deltas.stored * raw / max(deltas.raw, 1) if added is None else added)
        saved = alone.stored * (deltas.raw + raw) / max(alone.raw, 1) - taken
        values = HANDING_OVER * _value_bytes(entry, encoding)
        more = (self.max_cost - 1) * min(max(1.0, saved / max(taken, 1)), _MOST_SAVING)
        return deltas.cost + DECODING[encoding] * raw <= (values + alone.cost) * more

    def takes(self, entry: Entry, added: int, chain: Chain) -> bool:
        """Tell whether restoring an entry of `added` bytes with what it is stored near is quick enough."""
        if self.max_seconds is None or self.rates is None or entry.members[0].kind is not Kind.CHUNK:
            return True
        own = RestoreCost.of_entry(entry, added)
        state = max(_value_bytes(entry, entry.encoding), _LEAST_STATE)
        return (RestoreCost.of_links(chain.links) + own).seconds(
            self.rates, state
        ) <= self.max_seconds * state / 1e9


def _value_bytes(entry: Entry, encoding: Encoding) -> int:
    """Return about how many bytes of values the chunks of an entry stand for.

    Args:
        entry: what they lie in.
        encoding: of deltas of them: it tells codes, which mostly stand for float32, from integers.
    """
    values = _FLOAT32 if encoding in _OF_CODES else entry.element.width
    return entry.raw_bytes // entry.element.width * values


@dataclass
class UsableBases:
    """What one writer may use as bases, and what it has leant on so far.

    Attributes:
        objects: among which bases are.
        limits: how long chains may grow.
        reach: packs of other commits that are needed.
        depth: the longest chain behind an object that was leant on.
    """

    objects: OwnObjects
    limits: RestoreLimits
    reach: set[str] = field(default_factory=set)
    depth: int = 0

    def usable(self, base: EntryBase, encoding: Encoding, length: int) -> bool:
        """Tell whether a base suits a content of that length and has a chain that may still grow."""
        if base.chunk is not None:
            return True
        found = self._fitting(base, encoding, length)
        return found is not None and self._may_grow(*found, encoding)

    def nearest(self, base: EntryBase, encoding: Encoding, length: int) -> EntryBase | None:
        """Return what a content may be stored near: a base, or one farther back where its chain is full.

        Where deltas save more bytes than they take, a full chain is followed by a delta near one of its
        earlier links, drawn by the id of the last. Such a delta takes more bytes, and far fewer than a
        snapshot (docs/lab/2026-11-28-depth.md). None where the content is to be stored alone.
        """
        found = None if base.chunk is not None else self._fitting(base, encoding, length)
        if found is None:
            return None if base.chunk is None else base
        located, chain = found
        if self._may_grow(located, chain, encoding):
            return base
        if chain.deltas.stored * 2 * chain.snapshots.raw >= chain.snapshots.stored * chain.deltas.raw:
            return None
        way = chain.way_down(located)
        drawn = int.from_bytes(located.placed.ids[0][:4]) % max(len(way) - 1, 1)
        earlier = EntryBase(way[-1 - drawn].id)
        return earlier if self.usable(earlier, encoding, length) else None

    def _fitting(self, base: EntryBase, encoding: Encoding, length: int) -> tuple[Located, Chain] | None:
        """Return where a base of the right length lies, and what is behind it; None where one is missing."""
        located = self.objects.find(base.id)
        if located is None or not encoding.fits(located.length, length):
            return None
        try:
            return located, self._chain(located)
        except (CorruptionError, NotFoundError):
            return None

    def _may_grow(self, located: Located, chain: Chain, encoding: Encoding) -> bool:
        deep = chain.depth >= self.limits.depth_of(encoding)
        return not deep and self.limits.pays(located.placed.entry, encoding, chain)

    def affordable(self, entry: Entry, added: int) -> bool:
        """Tell whether reading an entry of `added` bytes, and its bases, stays within the limits."""
        bases = [base.id for base in entry.bases if base.chunk is None]
        if not bases:
            return True
        try:
            chain = self.behind(bases)
        except (CorruptionError, NotFoundError):
            return False
        if len(chain.links) >= _LINKS or chain.held_bytes > _HELD or chain.decoded_bytes > _DECODED:
            return False
        return self.limits.pays(entry, entry.encoding, chain, added) and self.limits.takes(
            entry, added, chain
        )

    def stored_bytes(self, bases: Iterable[EntryBase]) -> int:
        """Return the stored bytes that are read for the contents of bases."""
        return trace(
            self.objects.entries([base.id for base in bases]), self.objects.locate, runs=self.objects.runs
        ).stored_bytes

    def lean_on(self, identifiers: Sequence[ObjectId], deltas: int = 0) -> None:
        """Count the packs behind objects that this commit needs, and the depth they bring."""
        for located in self.objects.entries(identifiers):
            chain = self._chain(located)
            self.reach |= chain.packs - {""}
            self.depth = max(self.depth, chain.depth + deltas)

    def behind(self, identifiers: Sequence[ObjectId]) -> Chain:
        """Return everything that has to be decoded for objects.

        Raises:
            NotFoundError: one of them, or a base, is nowhere whole.
            CorruptionError: their bases do not end.
        """
        starts = self.objects.entries(identifiers)
        return (
            self._chain(starts[0])
            if len(starts) == 1
            else trace(starts, self.objects.locate, runs=self.objects.runs)
        )

    def _chain(self, located: Located) -> Chain:
        if not located.pack or located.exact:
            return trace([located], self.objects.locate, runs=self.objects.runs)
        catalog = self.objects.catalog
        chain = catalog.chain_of(located)
        return chain if catalog.vouches(chain.packs) else self._vouched(located)

    def _vouched(self, located: Located) -> Chain:
        """Return a chain through packs that a known commit needs, by other copies of bases if it takes that.

        Raises:
            NotFoundError: there is none. What a dead writer left goes with it: nothing new may lean on that.
            CorruptionError: copies lead back to each other.
        """
        catalog, closed = self.objects.catalog, set[ChunkPlace]()

        def locate(identifier: ObjectId, _: bool, without: Collection[ChunkPlace]) -> Located:  # noqa: FBT001 - as `trace` calls it
            unfit = {*without, *closed, *catalog.damaged}
            for copy in catalog.copies(identifier):
                if copy.place not in unfit and catalog.vouches({copy.pack}):
                    return copy
            name = located.pack[:12]
            raise NotFoundError(f"a base of an object in pack {name} is in no pack that a commit needs")

        while True:
            gaps = set[ChunkPlace]()
            try:
                return trace([located], locate, gaps=gaps)
            except (CorruptionError, NotFoundError):
                if gaps <= closed:
                    raise
                closed |= gaps
