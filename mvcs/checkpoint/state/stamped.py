"""Files read a part at a time, into memory of their own, and only while they are what they were."""

import os
import pathlib
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

import numpy as np

from mvcs.checkpoint.state.captured import Source
from mvcs.errors import ConflictError, NotFoundError, StorageError, UsageError

TICK_NS = 20_000_000  # clocks of systems go on in steps of up to 10 ms
COARSE_TICK_NS = 2_000_000_000 + TICK_NS  # what knows seconds alone may count in twos
_SECOND_NS = 1_000_000_000


def storage_error(action: str, path: pathlib.Path, error: OSError) -> StorageError:
    """Return the error for an operation on `path` that the system refused."""
    return StorageError(f"cannot {action} '{path}': {error.strerror or error}")


@dataclass(frozen=True)
class Stamp:
    """What tells whether a file is still the one that was looked at.

    Attributes:
        size: bytes.
        mtime_ns: when its content was last written, as writers may set it.
        ctime_ns: when anything of it was last changed, as the system has it.
        inode: its number; another file of the same name has another.
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> "Stamp":
        """Take it from what the system says of a file."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)

    @classmethod
    def of_none(cls, size: int = 0, mtime_ns: int = 0) -> "Stamp":
        """Return a stamp that no file has."""
        return cls(size, mtime_ns, 0, -1)

    def settled(self, moment_ns: int) -> "Stamp":
        """Return what tells of every change after a moment: the stamp, or one that no file has.

        A change within the tick of a clock in which the file was changed before may leave the stamp as it is.
        """
        times = (self.mtime_ns, self.ctime_ns)
        is_told = all(time + _tick_ns(time) < moment_ns for time in times)
        return self if is_told else self.of_none(self.size, self.mtime_ns)

    def renamed(self, found: "Stamp", moment_ns: int) -> "Stamp":
        """Return what tells of every change since a file of this stamp, that nobody knew, got its name.

        Renaming counts as a change. Who changes the file within the same tick would have to put the time of
        writing back as well: that is ruled out only where a tick is long enough for a person.

        Args:
            found: the stamp of what has that name.
            moment_ns: when that was looked at.
        """
        is_same = replace(found, ctime_ns=self.ctime_ns) == self
        judged = self if _tick_ns(found.ctime_ns) == TICK_NS else found
        is_told = is_same and judged.settled(moment_ns) == judged
        return found if is_told else self.of_none(found.size, found.mtime_ns)

    def tells_renamed(self, moment_ns: int) -> bool:
        """Tell whether `renamed` will know a file that nobody else knew up to a moment."""
        return _tick_ns(self.ctime_ns) == TICK_NS and self.settled(moment_ns) == self


@dataclass(frozen=True)
class StampedFile:
    """A file as it was when it was first looked at.

    Nothing of it is mapped: what is mapped follows its writer, and is gone when the file is cut short.

    Attributes:
        path: where it lies.
        stamp: what it was, taken before anything of it was read.
    """

    path: pathlib.Path
    stamp: Stamp

    @classmethod
    def at(cls, path: pathlib.Path) -> "StampedFile":
        """Look at a file.

        Raises:
            NotFoundError: there is none.
            UsageError: it is a pipe, a socket or a device, which is never opened.
            StorageError: it cannot be read.
        """
        try:
            found = path.stat()
        except FileNotFoundError as error:
            raise NotFoundError(f"no such file: '{path}'") from error
        except OSError as error:
            raise storage_error("read", path, error) from error
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"'{path}' is {file_kind(found)}, not a file")
        return cls(path, Stamp.of(found))

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.stamp.size

    def span(self, offset: int = 0, length: int | None = None) -> "FileSpan":
        """Return a source for `length` bytes from `offset`; to the end without a length."""
        return FileSpan(self, offset, self.size - offset if length is None else length)

    def open(self) -> BinaryIO:
        """Open it; what is read may still be of a later content, which `check` tells.

        Raises:
            ConflictError: the file changed since it was looked at.
            StorageError: it cannot be read.
        """
        try:
            # A pipe that took the file's place would wait for a writer.
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise self.changed() from error
        except OSError as error:
            raise storage_error("read", self.path, error) from error
        file = open(descriptor, "rb")  # noqa: SIM115, PTH123 - the caller closes what it gets
        if Stamp.of(os.fstat(descriptor)) != self.stamp:
            file.close()
            raise self.changed()
        return file

    def read(self, offset: int, length: int) -> memoryview:
        """Return a part of the content, in memory that nobody else writes.

        Raises:
            ConflictError: the file changed since it was looked at.
            StorageError: it cannot be read.
        """
        with self.open() as file:
            return self.part(file, offset, length)

    def part(self, file: BinaryIO, offset: int, length: int) -> memoryview:
        """Return the same from the open file.

        Raises:
            ConflictError: the file ends before the part does.
            StorageError: it cannot be read.
        """
        found = np.empty(length, np.uint8).data
        done = 0
        try:
            while done < length:
                count = os.preadv(file.fileno(), [found[done:]], offset + done)
                if not count:
                    raise self.changed()
                done += count
        except OSError as error:
            raise storage_error("read", self.path, error) from error
        return found.toreadonly()

    def check(self) -> None:
        """Look at the file again, after everything of it was read.

        Raises:
            ConflictError: it is not the file it was.
        """
        try:
            found = Stamp.of(self.path.stat())
        except OSError as error:
            raise self.changed() from error
        if found != self.stamp:
            raise self.changed()

    def changed(self) -> ConflictError:
        """Return the error for a file that is not the one that was looked at."""
        return ConflictError(
            f"'{self.path}' changed while it was read", hint="try again when nobody writes to it"
        )


def file_kind(status: os.stat_result) -> str:
    """Return what something is that is neither a file nor a folder, with its article."""
    kinds = {
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFDIR: "a folder",
    }
    return kinds.get(stat.S_IFMT(status.st_mode), "something else")


@dataclass(frozen=True)
class FileSpan(Source):
    """A run of bytes of a file, as the source of a leaf or a blob."""

    file: StampedFile
    offset: int
    length: int

    def read(self) -> memoryview:
        """Return the bytes."""
        return self.file.read(self.offset, self.length)

    def part(self, start: int, length: int) -> memoryview:
        """Return some of the bytes."""
        return self.file.read(self.offset + start, min(length, self.length - start))

    def parts(self, length: int, *, own: bool = True) -> Iterator[memoryview]:  # noqa: ARG002 - it always is
        """Yield the bytes in runs."""
        for start in range(0, self.length, length):
            yield self.part(start, length)


def _tick_ns(time_ns: int) -> int:
    """Return how far apart two times may be that a file system tells as one, judged by one of them."""
    return TICK_NS if time_ns % _SECOND_NS else COARSE_TICK_NS
