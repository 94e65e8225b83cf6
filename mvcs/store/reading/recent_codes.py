"""The codes of the last commit in memory, so that the next one need not decode its bases."""

from threading import Lock

from mvcs.delta import Buffer
from mvcs.memory import Hold
from mvcs.objects import ObjectId


class RecentCodes:
    """Contents of code chunks by id, each with the writer that stored it last. Threads may share it.

    A base leaves when it is taken and the new codes come in its place: there is about one state's worth.
    """

    def __init__(self, hold: Hold) -> None:
        """Hold codes as long as `hold` has room for them; what comes when it is full is not held."""
        self._hold = hold
        self._held: dict[ObjectId, tuple[Buffer, object]] = {}
        self._lock = Lock()

    def hold(self, identifier: ObjectId, content: Buffer, writer: object) -> None:
        """Hold the codes that a writer stored, or met again."""
        with self._lock:
            if identifier in self._held or self._hold.resize(self._hold.bytes + len(content)):
                self._held[identifier] = (content, writer)

    def take(self, identifier: ObjectId, writer: object) -> Buffer | None:
        """Return codes, if they are held; they leave, unless `writer` itself stored them."""
        with self._lock:
            content, owner = self._held.get(identifier, (None, None))
            if content is not None and owner is not writer:
                del self._held[identifier]
                self._hold.resize(self._hold.bytes - len(content))
            return content

    def look(self, identifier: ObjectId) -> Buffer | None:
        """Return codes, if they are held; they stay."""
        with self._lock:
            return self._held.get(identifier, (None, None))[0]

    def keep(self, writer: object) -> None:
        """Let go of all codes but those of `writer`; of none when it has none here."""
        with self._lock:
            kept = {name: item for name, item in self._held.items() if item[1] is writer}
            if kept:
                self._held = kept
                self._hold.resize(sum(len(content) for content, _ in kept.values()))
