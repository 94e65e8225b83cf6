"""Files read through a memory map, a part at a time, and only while they are what they were."""

import mmap
import os
import pathlib
from dataclasses import dataclass

from mvcs.errors import ConflictError, NotFoundError, StorageError


def storage_error(action: str, path: pathlib.Path, error: OSError) -> StorageError:
    """Return the error for an operation on `path` that the system refused."""
    return StorageError(f"cannot {action} '{path}': {error.strerror or error}")


@dataclass(frozen=True)
class MappedFile:
    """A file as it was when it was first looked at.

    Attributes:
        path: where it lies.
        size: bytes.
        stamp: inode and modification time in nanoseconds, which tell whether it changed since.
    """

    path: pathlib.Path
    size: int
    stamp: tuple[int, int]

    @classmethod
    def at(cls, path: pathlib.Path) -> "MappedFile":
        """Look at a file.

        Raises:
            NotFoundError: there is none.
            StorageError: it cannot be read.
        """
        try:
            found = path.stat()
        except FileNotFoundError as error:
            raise NotFoundError(f"no such file: '{path}'") from error
        except OSError as error:
            raise storage_error("read", path, error) from error
        return cls(path, found.st_size, (found.st_ino, found.st_mtime_ns))

    def span(self, offset: int = 0, length: int | None = None) -> "FileSpan":
        """Return a source for `length` bytes from `offset`; to the end without a length."""
        return FileSpan(self, offset, self.size - offset if length is None else length)

    def view(self) -> memoryview:
        """Map the whole file; the map lives as long as the view.

        Raises:
            ConflictError: the file changed since it was looked at.
            StorageError: it cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                found = os.fstat(file.fileno())
                if (found.st_size, found.st_ino, found.st_mtime_ns) != (self.size, *self.stamp):
                    raise ConflictError(
                        f"'{self.path}' changed while it was read", hint="try again when nobody writes to it"
                    )
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self.size else b"")
        except OSError as error:
            raise storage_error("read", self.path, error) from error


@dataclass(frozen=True)
class FileSpan:
    """A run of bytes of a file, as the source of a leaf or a blob."""

    file: MappedFile
    offset: int
    length: int

    def read(self) -> memoryview:
        """Return the bytes, without a copy."""
        return self.file.view()[self.offset : self.offset + self.length]
