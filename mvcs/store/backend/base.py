"""What a backend owes the store above it."""

import pathlib
from abc import ABC, abstractmethod

from mvcs.errors import CorruptionError, StorageError
from mvcs.store.backend.staged import Staged, StagedBytes

Names = list[str]

TEMPORARY_FOLDER = "tmp"  # where files lie that nobody but their maker needs; `temporary_name` names them


class Backend(ABC):
    """Named byte strings below one root.

    Names are relative paths with forward slashes. What is written is durable when the method returns.
    Every implementation passes the suite in `tests/store/backend_contract.py`.

    Attributes:
        url: where the root lies, without secrets.
        near: whether reading again costs little, as on a disk of this machine.
        exclusive: whether `create` refuses a second writer even when several race; True until a probe
            has shown otherwise.
    """

    url: str
    near: bool = False
    exclusive: bool = True

    @abstractmethod
    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return the bytes of a file, or a part: a negative offset counts from the end.

        Raises:
            NotFoundError: there is no such file.
            StorageError: it could not be read, or fewer than `length` bytes came back.
        """

    @abstractmethod
    def head(self, name: str, length: int) -> bytes:
        """Return the first `length` bytes of a file, or all of a shorter one.

        Raises:
            NotFoundError: there is no such file.
            StorageError: it could not be read.
        """

    def read_small(self, name: str, limit: int) -> bytes:
        """Return a whole file that has at most `limit` bytes; no more is ever asked for.

        Raises:
            NotFoundError: there is no such file.
            CorruptionError: it is larger.
            StorageError: it could not be read.
        """
        data = self.head(name, limit + 1)
        if len(data) > limit:
            raise CorruptionError(
                f"'{self.url}/{name}' has more than {limit} bytes", hint="no mvcs writes so many there"
            )
        return data

    @abstractmethod
    def create(self, name: str, data: bytes) -> None:
        """Write a new file; exactly one of several racing writers succeeds.

        Raises:
            ConflictError: the file exists with other bytes. Bytes equal to `data` count as our own
                write whose reply was lost.
            StorageError: it could not be written; nothing is left under the name.
        """

    @abstractmethod
    def put(self, name: str, data: bytes) -> None:
        """Write a content-named file; writing it again is harmless.

        Raises:
            StorageError: it could not be written; a reader never sees a part of it.
        """

    def replace(self, name: str, data: bytes) -> None:
        """Write a content-named file also where one of the same size lies, which is damaged.

        Raises:
            StorageError: it could not be written; a reader sees the old bytes or the new ones.
        """
        self.put(name, data)

    def adopt(self, file: pathlib.Path, name: str) -> None:
        """Take a durable file of this machine as a content-named one, in the place of what lies there.

        The file may be moved away by it, and may be there still.

        Raises:
            StorageError: it could not be read or written.
        """
        try:
            data = file.read_bytes()
        except OSError as error:
            raise StorageError(f"cannot read '{file}': {(error.strerror or str(error)).lower()}") from error
        self.replace(name, data)

    def stage(self) -> Staged:
        """Begin a content-named file whose name is known only when all of it was written."""
        return StagedBytes(self.put)

    @abstractmethod
    def size(self, name: str) -> int | None:
        """Return the bytes of a file, None when there is no such file."""

    def inside(self, name: str) -> bool:  # noqa: ARG002 - only a disk has links
        """Tell whether a path stays inside the store; what does not is never changed."""
        return True

    @abstractmethod
    def list(self, folder: str) -> Names:
        """Return the full names of all files below `folder`, sorted; empty when there is none."""

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the bytes of every file below `folder` by its full name, at the price of a listing."""
        found = ((name, self.size(name)) for name in self.list(folder))
        return {name: size for name, size in found if size is not None}

    def stamps(self, folder: str) -> dict[str, tuple[int, float]]:
        """Return the bytes of every file below `folder`, and when it was written, by its full name.

        It costs a listing where that tells; a file whose time is not known has no number (NaN) for it.
        """
        found = ((name, size, self.modified(name)) for name, size in self.sizes(folder).items())
        return {name: (size, float("nan") if time is None else time) for name, size, time in found}

    @abstractmethod
    def children(self, folder: str) -> Names:
        """Return the names of files and folders directly in `folder`, sorted; nothing deeper is listed."""

    @abstractmethod
    def newest(self, folder: str) -> str | None:
        """Return the first name directly in `folder`, in sorted order, that starts with a digit, or None."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a file; a missing one is not an error."""

    def modified(self, name: str) -> float | None:  # noqa: ARG002 - a store without a clock need say nothing
        """Return when a file was written, in seconds by the store's clock.

        Returns:
            None where there is no such file, or the store does not tell.
        """
        return None

    def sweep(self) -> None:  # noqa: B027 - most backends leave nothing behind
        """Remove what writers left behind that were killed, and no name that a writer never gives."""
