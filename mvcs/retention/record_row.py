"""Rows of numbered records of which the newest counts: rules, and pins."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from mvcs.errors import ConflictError, CorruptionError, UnsupportedFormatError
from mvcs.objects import is_record_name, record_name, record_number
from mvcs.store import Backend, refuse_changes

ATTEMPTS = 16


class Numbered(Protocol):
    """A record that knows its number."""

    @property
    def number(self) -> int:
        """0 for the first; never reused."""

    def encode(self) -> bytes:
        """Return the bytes of the file."""


Record = TypeVar("Record", bound=Numbered)


@dataclass(frozen=True)
class RecordRow(Generic[Record]):
    """The records of one folder.

    Attributes:
        backend: the store.
        folder: where they lie.
        what: names one of them in messages.
        decode: reads the bytes of one.
        limit: bytes of the largest that is read.
    """

    backend: Backend
    folder: str
    what: str
    decode: Callable[[bytes], Record]
    limit: int

    def newest(self) -> Record | None:
        """Return the record in force; None where there is none.

        Raises:
            CorruptionError: it is damaged, or a number is missing below it.
            UnsupportedFormatError: a later version wrote it.
        """
        if self.backend.newest(self.folder) is None:
            return None
        names = (path.rpartition("/")[2] for path in self.backend.list(self.folder))
        numbers = sorted(record_number(name) for name in names if is_record_name(name))
        if not numbers or numbers != list(range(len(numbers))):
            raise CorruptionError(
                f"'{self.folder}' has lost a record, or holds something else, so nothing is dropped",
                hint="bring it back from another clone or a backup of the store",
            )
        return self.load(numbers[-1])

    def load(self, number: int) -> Record:
        """Return one of the records.

        Raises:
            NotFoundError: it is not there.
            CorruptionError: it is damaged.
            UnsupportedFormatError: a later version wrote it.
        """
        path = f"{self.folder}/{record_name(number)}"
        try:
            record = self.decode(self.backend.read_small(path, self.limit))
        except (CorruptionError, UnsupportedFormatError) as error:
            message = f"{self.what} '{path}' cannot be read: {error.message}"
            raise type(error)(message, hint=error.hint) from error
        if record.number != number:
            raise CorruptionError(f"{self.what} '{path}' lies under the number of another record")
        return record

    def append(self, make: Callable[[Record | None, int], Record]) -> Record:
        """Create the next record; `make` is given the newest and the number, again where others were first.

        Raises:
            UnsupportedFormatError: a newer mvcs upgraded the store.
            ConflictError: others are always first.
        """
        for _ in range(ATTEMPTS):
            refuse_changes(self.backend)
            newest = self.newest()
            record = make(newest, 0 if newest is None else newest.number + 1)
            path, data = f"{self.folder}/{record_name(record.number)}", record.encode()
            try:
                self.backend.create(path, data)
            except ConflictError:
                if self.backend.read_small(path, self.limit) != data:
                    continue  # ours after a lost reply has our bytes
            return record
        raise ConflictError(f"others change '{self.folder}' all the time", hint="try again")
