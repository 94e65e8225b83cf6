"""What a repair works on: stores with good copies, the store as it would be, and what is taken out of it."""

import pathlib
from dataclasses import dataclass, field

from mvcs.errors import ConflictError, NotFoundError, StorageError
from mvcs.objects import checksum
from mvcs.store import MAX_FILE, Backend, LocalBackend, Overlay

FOLDER = "damaged"
Names = list[str]


@dataclass
class SetAside:
    """Keeps the bytes of damaged files before others take their place.

    Attributes:
        local: `.mvcs`.
        backend: the store that they lie in.
        kept: where they were kept, below `.mvcs`.
    """

    local: pathlib.Path
    backend: Backend
    kept: list[str] = field(default_factory=list)

    def keep(self, path: str) -> bool:
        """Keep what lies at a path of the store, durably; the same bytes are kept once.

        Returns:
            Whether anything was kept: where nothing lies, or the disk gives no bytes of it, nothing is.

        Raises:
            CorruptionError: more lies there than any mvcs writes.
            StorageError: it cannot be written.
        """
        try:
            data = self.backend.read_small(path, MAX_FILE)
        except (NotFoundError, StorageError):
            return False
        name = f"{FOLDER}/{path}.{checksum(data).hex()}"
        aside = LocalBackend(self.local)
        if aside.size(name) != len(data):
            aside.replace(name, data)
        self.kept.append(name)
        return True


@dataclass(frozen=True)
class Source:
    """A store of the same project that may have good copies.

    Attributes:
        name: what messages call it.
        backend: the store.
    """

    name: str
    backend: Backend


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
