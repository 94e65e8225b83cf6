"""Entries read and decoded, bases first; some stay in memory, since their other members are read next."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from threading import Lock

from mvcs.delta import Buffer, Content, decode, joined_bytes
from mvcs.errors import CorruptionError, MvcsError
from mvcs.memory import Budget, Use
from mvcs.objects import ObjectId
from mvcs.store.backend import Backend
from mvcs.store.packs.entry import Entry, read_payload
from mvcs.store.reading.catalog import Catalog
from mvcs.store.reading.chains import Chain
from mvcs.store.reading.located import ChunkPlace, Located, Run
from mvcs.store.reading.pack_files import pack_path, read_part
from mvcs.store.reading.verification import Verification

MAX_BYTES = 64 << 20
_STORES = 4  # that are read at a time: each takes its part of the share at most
CACHED_ENTRY = 1 << 20
_AHEAD = 1 << 18  # bytes of a chain that are read before they are decoded
LEAST = 4  # entries that stay whatever the share: readers take turns between codes, exceptions and moments


class DamagedEntryError(CorruptionError):
    """An entry is damaged where it lies: it may be one that others are stored near."""

    def __init__(self, located: Located, message: str) -> None:
        super().__init__(message)
        self.located = located


class EntryCache:
    """Contents of entries; the one that was not used for longest leaves first. Threads may share it."""

    def __init__(self, memory: Budget) -> None:
        """Hold what the budget has for caches."""
        self._most = min(MAX_BYTES, memory.limit(Use.CACHES) // _STORES)
        self._hold = memory.hold(Use.CACHES)
        self._entries: OrderedDict[ChunkPlace, Content] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def find(self, place: ChunkPlace) -> Content | None:
        """Return the content of an entry, if it is held."""
        with self._lock:
            if place in self._entries:
                self._entries.move_to_end(place)
            return self._entries.get(place)

    def add(self, place: ChunkPlace, content: Content) -> None:
        """Hold an entry, and let go of others as far as there is no room for all."""
        with self._lock:
            if place not in self._entries:
                self._entries[place] = content
                self._bytes += len(content)
            while not self._fits() and len(self._entries) > LEAST:
                self._bytes -= len(self._entries.popitem(last=False)[1])

    def keep(self, packs: Collection[str]) -> None:
        """Let go of the entries of all packs but these."""
        with self._lock:
            for place in [place for place in self._entries if place[0] not in packs]:
                self._bytes -= len(self._entries.pop(place))
            self._hold.resize(self._bytes)

    def clear(self) -> None:
        """Let go of everything."""
        self.keep(())

    def _fits(self) -> bool:
        return self._bytes <= self._most and self._hold.resize(self._bytes)


@dataclass(frozen=True)
class DecodedEntries:
    """What entries decode to, none of it hashed yet. Threads may share it.

    Attributes:
        backend: where packs lie.
        catalog: finds bases.
        verification: is told of entries that matched their checksum.
        restored: gives the restored values that an entry of an exact pack is stored near, by half a tensor's
            id, a chunk's number and the pack.
        memory: what may be kept.
    """

    backend: Backend
    catalog: Catalog
    verification: Verification
    restored: Callable[[ObjectId, int, str], Buffer]
    memory: Budget

    @cached_property
    def _cache(self) -> EntryCache:
        return EntryCache(self.memory)

    @cached_property
    def _met(self) -> set[ChunkPlace]:
        """Entries that were decoded before."""
        return set()

    def keep(self, packs: Collection[str]) -> None:
        """Let go of the entries of all packs but these."""
        self._cache.keep(packs)
        self._met.clear()

    def clear(self) -> None:
        """Let go of everything."""
        self.keep(())

    def member(self, located: Located) -> Content:
        """Return the content of an object, not yet hashed.

        Raises:
            NotFoundError: its pack or a base is not there.
            CorruptionError: it is damaged, or what it needs is.
        """
        return _member(self.content(located), located)

    def content(self, located: Located) -> Content:
        """Return what an entry decodes to: all its members, not yet hashed.

        Raises:
            NotFoundError: its pack or a base is not there.
            CorruptionError: it is damaged, or what it needs is.
        """
        cached = self._cache.find(located.place)
        if cached is not None:
            return cached
        held: dict[ChunkPlace, Content] = {}
        chain = self.catalog.chain_above(located, lambda place: self._is_held(place, held))
        for _ in self.decode(chain, held):
            pass
        content = held[located.place]
        # The other members are likely to be read next.
        if len(located.placed.entry.members) > 1 or len(content) <= CACHED_ENTRY:
            self._cache.add(located.place, content)
        return content

    def decode(self, chain: Chain, held: dict[ChunkPlace, Content]) -> Iterator[None]:
        """Decode links one by one into `held`, from which what no later one needs is removed.

        What one link alone needs, and no cache has, is overwritten by it.
        """
        uses = Counter(base for link in chain.bases for base in chain.needs(link))
        own: set[ChunkPlace] = set()
        ahead: dict[ChunkPlace, memoryview] = {}
        for number, link in enumerate(chain.links):
            place = link.place
            payload = partial(self._payload_ahead, chain.links, number, ahead)
            needed = chain.needs(place)
            overwrite = len(needed) == 1 and needed <= own and all(uses[base] == 1 for base in needed)
            held[place] = self._decoded(link, chain.bases[place], held, payload, overwrite=overwrite)
            if not self._met_again(place, held[place]):
                own.add(place)
            yield
            for base in needed:
                uses[base] -= 1
                if not uses[base]:
                    del held[base]

    def _is_held(self, place: ChunkPlace, held: dict[ChunkPlace, Content]) -> bool:
        """Tell whether the cache has an entry, which is put in `held` before others drive it out."""
        cached = self._cache.find(place)
        if cached is not None:
            held[place] = cached
        return cached is not None

    def _met_again(self, place: ChunkPlace, content: Content) -> bool:
        """Keep what is decoded twice: a few stored bytes may have many chunks lean on one long chain."""
        met = place in self._met
        if met:
            self._cache.add(place, content)
        self._met.add(place)
        return met

    def _decoded(
        self,
        located: Located,
        runs: Sequence[Run],
        held: Mapping[ChunkPlace, Content],
        payload: Callable[[], memoryview],
        *,
        overwrite: bool,
    ) -> Content:
        entry, stored = located.placed.entry, payload()
        near = self._near(located, runs, held) if entry.bases else None
        return decode(
            entry.encoding,
            stored,
            lengths=entry.lengths,
            element=entry.element,
            base=near,
            overwrite=overwrite,
        )

    def _near(self, located: Located, runs: Sequence[Run], held: Mapping[ChunkPlace, Content]) -> Buffer:
        """Return the contents of an entry's bases, one behind the other."""
        entry = located.placed.entry
        if len(entry.near) != len(entry.bases):
            return self._near_values(located, runs, held)
        _check_lengths(entry, [length for run in runs for length in run.lengths])
        # They may be some of a bundle: a small blob and a chunk of a tensor can be the same bytes.
        return joined_bytes(run.part(held[run.place]) for run in runs)

    def _near_values(
        self, located: Located, runs: Sequence[Run], held: Mapping[ChunkPlace, Content]
    ) -> Buffer:
        """Do the same where some of them are restored values."""
        if not located.exact:
            raise CorruptionError("it is based on restored values outside an exact layer")
        entry, found = located.placed.entry, (one for run in runs for one in run.singly(held[run.place]))
        bases = [
            next(found) if base.chunk is None else self.restored(base.id, base.chunk, located.pack)
            for base in entry.bases
        ]
        _check_lengths(entry, list(map(len, bases)))
        return joined_bytes(bases)

    def _payload_ahead(
        self, links: Sequence[Located], number: int, ahead: dict[ChunkPlace, memoryview]
    ) -> memoryview:
        """Return the payload of a link, and read the next ones: kernels drive Python out of the caches."""
        found = ahead.pop(links[number].place, None)
        if found is not None:
            return found
        room = _AHEAD
        with suppress(MvcsError):  # of another link, and met again in its turn
            for link in islice(links, number + 1, None):
                room -= link.placed.length
                if room < 0:
                    break
                ahead[link.place] = self._payload(link)
        return self._payload(links[number])

    def _payload(self, located: Located) -> memoryview:
        path = pack_path(located.pack, exact=located.exact)
        data = read_part(self.backend, path, located.placed.offset, located.placed.length)
        try:
            payload = read_payload(data, located.placed.entry, located.placed.offset)
        except CorruptionError as error:
            raise DamagedEntryError(located, error.message) from None
        self.verification.saw(located.place)
        return payload


def _check_lengths(entry: Entry, bases: Sequence[int]) -> None:
    """Refuse bases whose lengths do not suit the contents of an entry's members."""
    if tuple(bases) != entry.lengths and not all(map(entry.encoding.fits, bases, entry.lengths)):
        raise CorruptionError("its base has another length")


def _member(content: Content, located: Located) -> Content:
    members = located.placed.entry.members
    if len(members) == 1:
        return content
    end = located.placed.entry.ends[located.member]
    part = content[end - located.length : end]
    return bytes(part) if isinstance(part, memoryview) else part  # a view would keep the others in memory
