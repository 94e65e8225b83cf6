"""Chunks of the last commit in memory, so that the next one need not decode its bases."""

from collections.abc import Iterable
from threading import Lock

from mvcs.delta import Buffer, as_array
from mvcs.memory import Hold
from mvcs.objects import ObjectId


class RecentContents:
    """Contents of chunks by id, each with the writer that stored it last. Threads may share it.

    A base leaves when it is taken and the new chunk comes in its place: there is about one state's worth.
    """

    def __init__(self, hold: Hold) -> None:
        """Hold chunks as long as `hold` has room for them; what comes when it is full is not held."""
        self._hold = hold
        self._held: dict[ObjectId, tuple[Buffer, object]] = {}
        self._lock = Lock()

    def hold(self, identifier: ObjectId, content: Buffer, writer: object) -> None:
        """Hold a chunk that a writer stored; nobody may write to its memory any more."""
        with self._lock:
            if identifier in self._held or self._hold.resize(self._hold.bytes + len(content)):
                self._held[identifier] = (content, writer)

    def hold_copy(self, identifier: ObjectId, content: Buffer, writer: object, spare: Buffer | None) -> None:
        """Hold a copy of a chunk, where it can be in memory of one that left: fresh pages cost more."""
        with self._lock:
            if identifier in self._held:
                self._held[identifier] = self._held[identifier][0], writer
                return
            if not self._hold.resize(self._hold.bytes + len(content)):
                return
        if not isinstance(spare, bytearray) or len(spare) != len(content):
            spare = bytearray(len(content))
        spare[:] = content
        with self._lock:
            self._held[identifier] = (spare, writer)

    def renew(self, identifiers: Iterable[ObjectId], writer: object) -> None:
        """Hold for a writer what is held, since it met the same chunks."""
        with self._lock:
            held = ((identifier, self._held.get(identifier)) for identifier in identifiers)
            self._held |= {identifier: (item[0], writer) for identifier, item in held if item}

    def take(self, identifier: ObjectId, writer: object) -> Buffer | None:
        """Return a chunk, if it is held; it leaves, unless `writer` itself stored it."""
        with self._lock:
            content, owner = self._held.get(identifier, (None, None))
            if content is None or owner is writer:
                return None if content is None else as_array(content).data.toreadonly()
            del self._held[identifier]
            self._hold.resize(self._hold.bytes - len(content))
            return content

    def look(self, identifier: ObjectId) -> Buffer | None:
        """Return a chunk, if it is held; it stays."""
        with self._lock:
            return self._held.get(identifier, (None, None))[0]

    def keep(self, writer: object) -> None:
        """Let go of all chunks but those of `writer`."""
        with self._lock:
            self._held = {name: item for name, item in self._held.items() if item[1] is writer}
            self._hold.resize(sum(len(content) for content, _ in self._held.values()))
