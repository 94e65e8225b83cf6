"""Packs that came from outside and are not believed yet: files of their own, out of every reader's sight."""

import contextlib
import fcntl
import os
import pathlib
import re
import secrets
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from mvcs.errors import StorageError
from mvcs.local_files import read_file, unlock
from mvcs.store import MAX_FILE, Backend, DryRun, make_folder, pack_name, pack_path

_LOCK = "lock"
_FETCH = re.compile(r"[0-9a-f]{16}")


class Quarantine:
    """Where the packs of one fetch lie until they are believed.

    A fetch that stops leaves its files; the next one takes them over, so that nothing comes twice. A folder
    is in use while its lock is held, which the system lets go of when a process dies.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        """Make a folder of one's own in `folder`, and take over what others left there.

        Raises:
            StorageError: it cannot be made.
        """
        self._folder = folder / secrets.token_hex(8)
        with _translated(self._folder):
            make_folder(self._folder)
            self._lock = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            with contextlib.suppress(OSError):
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for other in folder.iterdir():
                if other != self._folder and _FETCH.fullmatch(other.name) and not other.is_symlink():
                    _take_over(other, self._folder)

    def __enter__(self) -> Self:
        """Return the quarantine."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove what is left, unless work was broken off: then the next fetch takes it over."""
        if kind is None:
            _remove(self._folder)
        unlock(self._lock)

    def put(self, name: str, data: bytes) -> None:
        """Keep the bytes of a pack, durably, so that it can be linked later.

        Raises:
            StorageError: they cannot be written.
        """
        path = self._path(name)
        with _translated(path):
            try:
                with path.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError:
                path.unlink(missing_ok=True)
                raise

    def left(self, name: str) -> bytes | None:
        """Return what an earlier fetch left of a pack: its bytes, or only some of them, or None."""
        with contextlib.suppress(StorageError):
            return read_file(self._path(name), MAX_FILE)
        return None

    def drop(self, name: str) -> None:
        """Forget a pack."""
        with contextlib.suppress(OSError):
            self._path(name).unlink(missing_ok=True)

    def link(self, name: str, target: Backend) -> None:
        """Give a pack to a store.

        Raises:
            StorageError: the store refused it.
        """
        target.adopt(self._path(name), pack_path(name))
        self.drop(name)

    def beside(self, real: Backend) -> Backend:
        """Return a view of a store with these packs in it, for reading."""
        return _Beside(real, self._folder)

    def _path(self, name: str) -> pathlib.Path:
        return self._folder / f"{name}.pack"


class _Beside(DryRun):
    """A store as it would be with the packs of a folder in it; nothing is written."""

    def __init__(self, real: Backend, folder: pathlib.Path) -> None:
        super().__init__(real)
        self._folder = folder

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        path = self._folder / f"{pack_name(name)}.pack"
        if name != pack_path(pack_name(name) or "") or not path.exists():
            return super().read(name, offset, length)
        with _translated(path), path.open("rb") as file:
            file.seek(offset if offset >= 0 else max(offset, -path.stat().st_size), 0 if offset >= 0 else 2)
            data = file.read(length)
        if length is not None and len(data) != length:
            raise StorageError(f"'{path}' ended after {len(data)} of {length} bytes")
        return data


def _take_over(other: pathlib.Path, folder: pathlib.Path) -> None:
    """Move the files of a fetch that is gone; one that still holds its lock is left alone."""
    with contextlib.suppress(OSError):
        lock = os.open(other / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for path in other.glob("*.pack"):
                if pack_name(path.name):
                    path.rename(folder / path.name)
            _remove(other)
        finally:
            unlock(lock)


def _remove(folder: pathlib.Path) -> None:
    """Remove what a fetch made in a folder, and the folder when nothing else is in it."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.name == _LOCK or pack_name(path.name):
                path.unlink()
        folder.rmdir()


@contextlib.contextmanager
def _translated(path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"cannot write '{path}': {(error.strerror or str(error)).lower()}") from error
