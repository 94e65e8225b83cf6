"""A store as it is, of which what is written is forgotten: to learn what a commit would take."""

from mvcs.delta import Buffer
from mvcs.errors import UsageError
from mvcs.store.backend.base import Backend, Names
from mvcs.store.backend.staged import Staged


class DryRun(Backend):
    """Reads from another backend; content-named files that are written are kept nowhere.

    It is for one writer that reads back nothing of its own. Whatever would change the other is refused.
    """

    def __init__(self, real: Backend) -> None:
        """Read from `real`."""
        self._real = real
        self.url = real.url

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """See `Backend.read`."""
        return self._real.read(name, offset, length)

    def head(self, name: str, length: int) -> bytes:
        """See `Backend.head`."""
        return self._real.head(name, length)

    def create(self, name: str, data: bytes) -> None:
        """Refuse to write a name that others may want.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"'{name}' of {len(data)} bytes is not written in a dry run")

    def put(self, name: str, data: bytes) -> None:
        """Forget a content-named file."""

    def stage(self) -> Staged:
        """Begin a file that is forgotten as it is written."""
        return _Forgotten()

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

    def delete(self, name: str) -> None:
        """Refuse to remove anything.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"'{name}' is not removed in a dry run")


class _Forgotten(Staged):
    def write(self, data: Buffer) -> None:
        """Forget some bytes."""

    def publish(self, name: str) -> None:
        """Forget the file."""

    def discard(self) -> None:
        """There is nothing to leave behind."""
