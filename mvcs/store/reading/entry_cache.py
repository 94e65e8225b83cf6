"""Decoded entries in memory, so that the next member of one is read without decoding it again."""

from collections import OrderedDict
from collections.abc import Collection
from threading import Lock

from mvcs.memory import Budget, Use
from mvcs.store.reading.located import ChunkPlace

MAX_BYTES = 64 << 20
_STORES = 4  # that are read at a time: each takes its part of the share at most
LEAST = 4  # entries that stay whatever the share: readers take turns between codes, exceptions and moments


class EntryCache:
    """Contents of entries; the one that was not used for longest leaves first. Threads may share it."""

    def __init__(self, memory: Budget) -> None:
        """Hold what the budget has for caches."""
        self._most = min(MAX_BYTES, memory.limit(Use.CACHES) // _STORES)
        self._hold = memory.hold(Use.CACHES)
        self._entries: OrderedDict[ChunkPlace, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def find(self, place: ChunkPlace) -> bytes | None:
        """Return the content of an entry, if it is held."""
        with self._lock:
            if place in self._entries:
                self._entries.move_to_end(place)
            return self._entries.get(place)

    def add(self, place: ChunkPlace, content: bytes) -> None:
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
