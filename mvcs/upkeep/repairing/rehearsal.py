"""A store as a repair would leave it: what is written lies in a folder of its own, which goes afterwards."""

import pathlib

from mvcs.errors import ConflictError
from mvcs.store import Backend, LocalBackend, Overlay

Names = list[str]


class Rehearsal(Overlay):
    """Reads what was written here, and else from another backend, of which nothing is changed."""

    def __init__(self, real: Backend, folder: pathlib.Path) -> None:
        """Read from `real`, and write into `folder`."""
        super().__init__(real, LocalBackend(folder))
        self._deleted: set[str] = set()
        self.exclusive = real.exclusive

    def _of(self, name: str) -> Backend:
        return self._beside if name in self._deleted else super()._of(name)

    def _is_gone(self, name: str) -> bool:
        return name in self._deleted and self._beside.size(name) is None

    def create(self, name: str, data: bytes) -> None:
        """See `Backend.create`."""
        if self.size(name) is not None and self.read_small(name, len(data) + 1) != data:
            raise ConflictError(f"'{name}' exists already")
        self.put(name, data)

    def put(self, name: str, data: bytes) -> None:
        """See `Backend.put`."""
        self._beside.replace(name, data)

    def list(self, folder: str) -> Names:
        """See `Backend.list`."""
        return [name for name in super().list(folder) if not self._is_gone(name)]

    def sizes(self, folder: str) -> dict[str, int]:
        """See `Backend.sizes`."""
        return {name: size for name, size in sorted(super().sizes(folder).items()) if not self._is_gone(name)}

    def children(self, folder: str) -> Names:
        """See `Backend.children`."""
        return [name for name in super().children(folder) if not self._is_gone(f"{folder}/{name}")]

    def newest(self, folder: str) -> str | None:
        """See `Backend.newest`."""
        names = [name for name in self.children(folder) if name[:1].isdigit()]
        return f"{folder}/{names[0]}" if names else None

    def delete(self, name: str) -> None:
        """See `Backend.delete`."""
        self._beside.delete(name)
        self._deleted.add(name)

    def modified(self, name: str) -> float | None:
        """See `Backend.modified`."""
        return self._of(name).modified(name)
