"""Files on their way: written piece by piece, without a name until they are published."""

import contextlib
import errno
import fcntl
import mmap
import os
import pathlib
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable

from mvcs.delta import Buffer, as_array

BLOCK_BYTES = 1 << 20
# Writing past the page cache neither costs its copies nor evicts what training reads.
_DIRECT: int = getattr(os, "O_DIRECT", 0)


class Staged(ABC):
    """A content-named file that is being written; nobody sees it before it is published."""

    @abstractmethod
    def write(self, data: Buffer) -> None:
        """Append bytes.

        Raises:
            StorageError: they could not be written; nothing is left of the file.
        """

    @abstractmethod
    def publish(self, name: str) -> None:
        """End the file and give it its name; it is durable then, as after `Backend.put`.

        Raises:
            StorageError: it could not be written; a reader never sees a part of it.
        """

    @abstractmethod
    def discard(self) -> None:
        """Leave nothing behind of a file that was not published; one that was stays."""


class StagedBytes(Staged):
    """A file that is held in memory and put at once."""

    def __init__(self, put: Callable[[str, bytes], None]) -> None:
        """Publish with `put`."""
        self._put = put
        self._parts: list[Buffer] = []

    def write(self, data: Buffer) -> None:
        """See `Staged.write`."""
        self._parts.append(data)

    def publish(self, name: str) -> None:
        """See `Staged.publish`."""
        self._put(name, b"".join(as_array(part).data for part in self._parts))

    def discard(self) -> None:
        """See `Staged.discard`."""
        self._parts.clear()


class TemporaryFile:
    """A new file on a local disk, written in aligned blocks past the page cache where the file system can.

    It is deleted when it is let go of, unless it was moved away.

    Attributes:
        path: where it lies.
        length: bytes so far.
    """

    def __init__(self, path: pathlib.Path) -> None:
        """Make the file.

        Raises:
            OSError: it cannot be made.
        """
        self.path = path
        self.length = 0
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
        self._direct = bool(_DIRECT)
        self._block: mmap.mmap | None = None
        self._filled = 0
        self._remove = weakref.finalize(self, _remove, self._file, path, os.getpid())

    def write(self, data: Buffer) -> None:
        """Append bytes.

        Raises:
            OSError: the disk refused them, or the file was discarded.
        """
        self._check_open()
        rest = as_array(data).data
        self.length += len(rest)
        if self._block is None:
            self._block = mmap.mmap(-1, BLOCK_BYTES)
        while rest:
            part = rest[: BLOCK_BYTES - self._filled]
            self._block[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            rest = rest[len(part) :]
            if self._filled == BLOCK_BYTES:
                self._flush(self._block)

    def sync(self) -> None:
        """Write what is left, and return when a power cut cannot undo it.

        Raises:
            OSError: the disk refused it, or the file was discarded.
        """
        self._check_open()
        if self._block is not None:
            self._leave_direct()
            self._flush(self._block)
        os.fsync(self._file)

    def discard(self) -> None:
        """Close the file and delete it, if it still lies where it was made."""
        self._remove()

    def _check_open(self) -> None:
        # The number of a closed file may be another file's by now.
        if not self._remove.alive:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), str(self.path))

    def _flush(self, block: mmap.mmap) -> None:
        if self._filled == BLOCK_BYTES and self._direct:
            self._enter_direct()
        with memoryview(block) as view:
            done = 0
            while done < self._filled:
                done += self._written(view[done : self._filled])
        self._filled = 0

    def _written(self, view: memoryview) -> int:
        with view:
            try:
                return os.write(self._file, view)
            except OSError as error:
                if error.errno != errno.EINVAL or not self._direct:
                    raise
            self._leave_direct()
            return os.write(self._file, view)

    def _enter_direct(self) -> None:
        try:
            fcntl.fcntl(self._file, fcntl.F_SETFL, fcntl.fcntl(self._file, fcntl.F_GETFL) | _DIRECT)
        except OSError:
            self._direct = False  # not every file system can

    def _leave_direct(self) -> None:
        if self._direct:
            fcntl.fcntl(self._file, fcntl.F_SETFL, fcntl.fcntl(self._file, fcntl.F_GETFL) & ~_DIRECT)
            self._direct = False


def _remove(file: int, path: pathlib.Path, owner: int) -> None:
    os.close(file)
    if os.getpid() != owner:
        return  # a forked child ends with copies of what its parent still writes
    with contextlib.suppress(OSError):  # `Backend.sweep` finds it later
        path.unlink(missing_ok=True)
