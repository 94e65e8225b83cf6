"""A store as it is, whose reads are counted: what looking at something, or restoring it, takes."""

from mvcs.store.backend.base import Backend
from mvcs.store.backend.unchanged import Unchanged


class Counted(Unchanged):
    """Reads from another backend, and counts; nothing is written.

    Attributes:
        requests: ranges of packs that were read; refs and other records do not count.
        bytes: that came back.
    """

    why = "while reads are counted"

    def __init__(self, real: Backend) -> None:
        """Read from `real`; nothing is counted yet."""
        super().__init__(real)
        self.near, self.exclusive = real.near, real.exclusive
        self.requests = self.bytes = 0

    def count(self, length: int) -> None:
        """Count one more read."""
        self.requests += 1
        self.bytes += length

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """See `Backend.read`."""
        data = super().read(name, offset, length)
        self._note(name, data)
        return data

    def head(self, name: str, length: int) -> bytes:
        """See `Backend.head`."""
        data = super().head(name, length)
        self._note(name, data)
        return data

    def _note(self, name: str, data: bytes) -> None:
        if name.endswith(".pack"):
            self.count(len(data))
