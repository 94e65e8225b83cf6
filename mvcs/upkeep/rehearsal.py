"""A store as a repair would leave it: what is written lies in a folder of its own, which goes afterwards."""

import pathlib

from mvcs.errors import ConflictError
from mvcs.store import Backend, LocalBackend

Names = list[str]


class Rehearsal(Backend):
    """Reads what was written here, and else from another backend, of which nothing is changed."""

    def __init__(self, real: Backend, folder: pathlib.Path) -> None:
        """Read from `real`, and write into `folder`."""
        self._real = real
        self._written = LocalBackend(folder)
        self._gone: set[str] = set()
        self.url, self.near, self.exclusive = real.url, real.near, real.exclusive

    def _holder(self, name: str) -> Backend:
        is_own = name in self._gone or self._written.size(name) is not None
        return self._written if is_own else self._real

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """See `Backend.read`."""
        return self._holder(name).read(name, offset, length)

    def head(self, name: str, length: int) -> bytes:
        """See `Backend.head`."""
        return self._holder(name).head(name, length)

    def create(self, name: str, data: bytes) -> None:
        """See `Backend.create`."""
        if self.size(name) is not None and self.read_small(name, len(data) + 1) != data:
            raise ConflictError(f"'{name}' exists already")
        self.put(name, data)

    def put(self, name: str, data: bytes) -> None:
        """See `Backend.put`."""
        self._gone.discard(name)
        self._written.replace(name, data)

    def size(self, name: str) -> int | None:
        """See `Backend.size`."""
        return self._holder(name).size(name)

    def list(self, folder: str) -> Names:
        """See `Backend.list`."""
        return sorted({*self._real.list(folder), *self._written.list(folder)} - self._gone)

    def sizes(self, folder: str) -> dict[str, int]:
        """See `Backend.sizes`."""
        found = self._real.sizes(folder) | self._written.sizes(folder)
        return {name: found[name] for name in sorted(found.keys() - self._gone)}

    def children(self, folder: str) -> Names:
        """See `Backend.children`."""
        both = {*self._real.children(folder), *self._written.children(folder)}
        return sorted(name for name in both if f"{folder}/{name}" not in self._gone)

    def newest(self, folder: str) -> str | None:
        """See `Backend.newest`."""
        names = [name for name in self.children(folder) if name[:1].isdigit()]
        return f"{folder}/{names[0]}" if names else None

    def delete(self, name: str) -> None:
        """See `Backend.delete`."""
        self._written.delete(name)
        self._gone.add(name)

    def modified(self, name: str) -> float | None:
        """See `Backend.modified`."""
        return self._holder(name).modified(name)
