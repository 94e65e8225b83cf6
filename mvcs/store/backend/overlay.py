"""A store as it is, with what is written kept in a folder of its own: to try something, and read it back."""

from mvcs.store.backend.base import Backend, Names
from mvcs.store.backend.staged import Staged
from mvcs.store.backend.unchanged import Unchanged


class Overlay(Unchanged):
    """Reads from another backend; content-named files that are written lie beside it, and are read as well.

    Whatever would change the other is refused.
    """

    why = "in a dry run"

    def __init__(self, real: Backend, beside: Backend) -> None:
        """Read from `real`, and keep what is written in `beside`."""
        super().__init__(real)
        self._beside = beside
        self.near = real.near

    def _of(self, name: str) -> Backend:
        return self._real if self._beside.size(name) is None else self._beside

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """See `Backend.read`."""
        return self._of(name).read(name, offset, length)

    def head(self, name: str, length: int) -> bytes:
        """See `Backend.head`."""
        return self._of(name).head(name, length)

    def put(self, name: str, data: bytes) -> None:
        """See `Backend.put`."""
        self._beside.put(name, data)

    def stage(self) -> Staged:
        """See `Backend.stage`."""
        return self._beside.stage()

    def size(self, name: str) -> int | None:
        """See `Backend.size`."""
        return self._of(name).size(name)

    def list(self, folder: str) -> Names:
        """See `Backend.list`."""
        return sorted({*self._real.list(folder), *self._beside.list(folder)})

    def sizes(self, folder: str) -> dict[str, int]:
        """See `Backend.sizes`."""
        return self._real.sizes(folder) | self._beside.sizes(folder)

    def children(self, folder: str) -> Names:
        """See `Backend.children`."""
        return sorted({*self._real.children(folder), *self._beside.children(folder)})
