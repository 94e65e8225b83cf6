"""A store in memory, which is copied at once and grows old when told to."""

import time
from typing import Self

from mvcs.errors import ConflictError, NotFoundError, StorageError
from mvcs.store.backend import Backend
from mvcs.store.backend.base import Names


class MemoryBackend(Backend):
    """Named byte strings in a dictionary, each with the time when it was written."""

    url = "memory"
    near = True

    def __init__(self, files: dict[str, tuple[bytes, float]] | None = None) -> None:
        self.files = dict(files or {})

    def copy(self) -> Self:
        return type(self)(self.files)

    def grow_old(self, days: float, folder: str = "") -> None:
        """Let everything below a folder be written so long before."""
        for name, (data, written) in self.files.items():
            if name.startswith(folder):
                self.files[name] = data, written - days * 24 * 3600

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        data = self._data(name)
        start = offset if offset >= 0 else max(0, len(data) + offset)
        part = data[start:] if length is None else data[start : start + length]
        if length is not None and len(part) < length:
            raise StorageError(f"'{name}' ended after {len(part)} of {length} bytes")
        return part

    def head(self, name: str, length: int) -> bytes:
        return self._data(name)[:length]

    def _data(self, name: str) -> bytes:
        try:
            return self.files[name][0]
        except KeyError:
            raise NotFoundError(f"cannot read '{name}': no such file") from None

    def create(self, name: str, data: bytes) -> None:
        found = self.files.setdefault(name, (bytes(data), time.time()))[0]
        if found != data:
            raise ConflictError(f"'{name}' exists already")

    def put(self, name: str, data: bytes) -> None:
        self.files[name] = bytes(data), time.time()

    def size(self, name: str) -> int | None:
        return len(self.files[name][0]) if name in self.files else None

    def list(self, folder: str) -> Names:
        start = f"{folder}/" if folder else ""
        return sorted(name for name in self.files if name.startswith(start))

    def children(self, folder: str) -> Names:
        start = f"{folder}/" if folder else ""
        return sorted({name.removeprefix(start).partition("/")[0] for name in self.list(folder)})

    def newest(self, folder: str) -> str | None:
        names = (name for name in self.children(folder) if name[:1].isdigit())
        return next((f"{folder}/{name}" for name in names), None)

    def delete(self, name: str) -> None:
        self.files.pop(name, None)

    def modified(self, name: str) -> float | None:
        return self.files[name][1] if name in self.files else None
