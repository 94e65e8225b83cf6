"""Faults: a disk that stops or fills up at the n-th change, and a backend whose answers go wrong."""

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from mvcs.errors import StorageError
from mvcs.store.backend import Backend

# Each change with where in its arguments the folder stands that its path is relative to.
CHANGES = {"os.mkdir": 2, "os.rename": 2, "os.link": 2, "os.remove": 1, "os.rmdir": 1, "os.truncate": None}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Stopped(BaseException):
    """The process would be dead here; nothing catches it but what catches everything."""


def full_disk() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Disk:
    """Counts what changes below a folder, and from the n-th change on refuses it.

    It listens to the interpreter's audit events, which come before each change, so it sees every file that
    is opened for writing, linked, renamed or removed, whoever does it. What is refused does not happen.

    Args:
        root: the folder.
        allowed: how many changes go through; None lets all.
        error: makes what is raised for a refused change.
        once: refuse one change only.
    """

    def __init__(
        self,
        root: Path,
        allowed: int | None = None,
        error: Callable[[], BaseException] = Stopped,
        *,
        once: bool = False,
    ) -> None:
        self.root = str(root)
        self.allowed = allowed
        self.error = error
        self.once = once
        self.changes = 0
        self.refused = 0

    def __enter__(self) -> Self:
        _WATCHING.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _WATCHING.remove(self)

    def change(self, path: str) -> None:
        if not path.startswith(self.root):
            return
        if self.allowed is not None and self.changes >= self.allowed and not (self.once and self.refused):
            self.refused += 1
            raise self.error()
        self.changes += 1


_WATCHING: list[Disk] = []


def _listen(event: str, arguments: tuple[object, ...]) -> None:
    if not _WATCHING or (event != "open" and event not in CHANGES):
        return
    path = arguments[0]
    if event == "open" and (not isinstance(arguments[2], int) or not arguments[2] & WRITING):
        return
    if isinstance(path, str | bytes | os.PathLike):
        for disk in tuple(_WATCHING):
            disk.change(_in_full(os.fsdecode(path), event, arguments))


def _in_full(path: str, event: str, arguments: tuple[object, ...]) -> str:
    """Return a path as it is, or with the open folder it is relative to."""
    place = CHANGES.get(event)
    folder = -1 if place is None else arguments[place]
    return path if folder == -1 else str(Path(f"/proc/self/fd/{folder}").readlink() / path)


sys.addaudithook(_listen)


Names = list[str]


class FaultyBackend(Backend):
    """A backend around a real one, whose answers go wrong as told.

    Attributes:
        inner: the real one.
        flip: names whose bytes come back with one bit flipped, wherever `bit` says.
        short: names of which reads lose their last byte.
        fails_after: the read or write after so many is refused, once; None lets all through.
        reads: name, offset and bytes of every read.
        writes: every name put or created.
    """

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self.url = inner.url
        self.near = inner.near
        self.exclusive = inner.exclusive
        self.flip: dict[str, int] = {}
        self.short: set[str] = set()
        self.fails_after: int | None = None
        self.reads: list[tuple[str, int, int]] = []
        self.writes: list[str] = []

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        self._fail(name)
        data = self.inner.read(name, offset, length)
        self.reads.append((name, offset, len(data)))
        if name in self.short:
            if length is not None:
                raise StorageError(f"'{name}' ended after {len(data) - 1} of {length} bytes")
            data = data[:-1]
        if name in self.flip:
            data = self._flipped(name, data, offset)
        return data

    def head(self, name: str, length: int) -> bytes:
        return self.read(name)[:length]

    def create(self, name: str, data: bytes) -> None:
        self._fail(name)
        self.inner.create(name, data)
        self.writes.append(name)

    def put(self, name: str, data: bytes) -> None:
        self._fail(name)
        self.inner.put(name, data)
        self.writes.append(name)

    def replace(self, name: str, data: bytes) -> None:
        self._fail(name)
        self.inner.replace(name, data)
        self.writes.append(name)

    def adopt(self, file: Path, name: str) -> None:
        self._fail(name)
        self.inner.adopt(file, name)
        self.writes.append(name)

    def size(self, name: str) -> int | None:
        return self.inner.size(name)

    def list(self, folder: str) -> Names:
        return self.inner.list(folder)

    def sizes(self, folder: str) -> dict[str, int]:
        return self.inner.sizes(folder)

    def children(self, folder: str) -> Names:
        return self.inner.children(folder)

    def newest(self, folder: str) -> str | None:
        return self.inner.newest(folder)

    def delete(self, name: str) -> None:
        self._fail(name)
        self.inner.delete(name)

    def _fail(self, name: str) -> None:
        if self.fails_after is None:
            return
        self.fails_after -= 1
        if self.fails_after < 0:
            self.fails_after = None
            raise StorageError(f"'{name}': the network is gone", hint="try again")

    def _flipped(self, name: str, data: bytes, offset: int) -> bytes:
        size = self.inner.size(name) or 0
        start = offset if offset >= 0 else max(0, size + offset)
        place = self.flip[name] // 8 - start
        if not 0 <= place < len(data):
            return data
        return data[:place] + bytes([data[place] ^ 1 << self.flip[name] % 8]) + data[place + 1 :]
