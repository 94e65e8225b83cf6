"""A store that is read as it is, and in which nothing is changed."""

from typing import ClassVar

from mvcs.errors import UsageError
from mvcs.store.backend.base import Backend, Names


class Unchanged(Backend):
    """Reads from another backend; whatever would change the other is refused.

    Attributes:
        why: when that is so, as a refusal says it.
    """

    why: ClassVar[str]

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
        """Refuse to write.

        Raises:
            UsageError: always.
        """
        raise self._refusal(name)

    def put(self, name: str, data: bytes) -> None:  # noqa: ARG002 - as backends have it
        """Refuse to write.

        Raises:
            UsageError: always.
        """
        raise self._refusal(name)

    def delete(self, name: str) -> None:
        """Refuse to remove anything.

        Raises:
            UsageError: always.
        """
        raise self._refusal(name)

    def _refusal(self, name: str) -> UsageError:
        return UsageError(f"'{name}' is not changed {self.why}")
