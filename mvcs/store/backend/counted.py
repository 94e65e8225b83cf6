"""A store as it is, whose reads are counted: what looking at something, or restoring it, takes."""

from mvcs.errors import UsageError
from mvcs.store.backend.base import Backend, Names


class Counted(Backend):
    """Reads from another backend, and counts; nothing is written.

    Attributes:
        requests: ranges of packs that were read; refs and other records do not count.
        bytes: that came back.
    """

    def __init__(self, real: Backend) -> None:
        """Read from `real`; nothing is counted yet."""
        self._real = real
        self.url, self.near, self.exclusive = real.url, real.near, real.exclusive
        self.requests = self.bytes = 0

    def count(self, length: int) -> None:
        """Count one more read."""
        self.requests += 1
        self.bytes += length

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """See `Backend.read`."""
        data = self._real.read(name, offset, length)
        self._note(name, data)
        return data

    def head(self, name: str, length: int) -> bytes:
        """See `Backend.head`."""
        data = self._real.head(name, length)
        self._note(name, data)
        return data

    def _note(self, name: str, data: bytes) -> None:
        if name.endswith(".pack"):
            self.count(len(data))

    def size(self, name: str) -> int | None:
        """See `Backend.size`."""
        return self._real.size(name)

    def list(self, folder: str) -> Names:
        """See `Backend.list`."""
        return self._real.list(folder)

    def sizes(self, folder: str) -> dict[str, int]:
        """See `Backend.sizes`."""
        return self._real.sizes(folder)

    def children(self, folder: str) -> Names:
        """See `Backend.children`."""
        return self._real.children(folder)

    def newest(self, folder: str) -> str | None:
        """See `Backend.newest`."""
        return self._real.newest(folder)

    def create(self, name: str, data: bytes) -> None:  # noqa: ARG002 - as backends have it
        """Refuse to write: this is for reading.

        Raises:
            UsageError: always.
        """
        raise _refusal(name)

    def put(self, name: str, data: bytes) -> None:  # noqa: ARG002 - as backends have it
        """Refuse to write: this is for reading.

        Raises:
            UsageError: always.
        """
        raise _refusal(name)

    def delete(self, name: str) -> None:
        """Refuse to remove anything: this is for reading.

        Raises:
            UsageError: always.
        """
        raise _refusal(name)


def _refusal(name: str) -> UsageError:
    return UsageError(f"'{name}' is not changed while reads are counted")
