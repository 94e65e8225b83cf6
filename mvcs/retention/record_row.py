"""Rows of numbered records in a folder of a store: rules and pins, of which the newest counts, and drops."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from mvcs.errors import (
    ConflictError,
    CorruptionError,
    LimitError,
    MvcsError,
    NotFoundError,
    UnsupportedFormatError,
)
from mvcs.objects import is_record_name, record_name, record_number
from mvcs.store import Backend, odd_is_damage, refuse_changes

ATTEMPTS = 16
MEND_HINT = "'mvcs repair' makes it whole again, and keeps everything until rules are set again"


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
        hint: what to do about one that is damaged.
    """

    backend: Backend
    folder: str
    what: str
    decode: Callable[[bytes], Record]
    limit: int
    hint: str | None = MEND_HINT

    def newest_number(self) -> int | None:
        """Return the number of the newest record; None where there is none.

        Raises:
            CorruptionError: something else lies there.
        """
        path = self.backend.newest(self.folder)
        if path is None:
            return None
        if not is_record_name(path.rpartition("/")[2]):
            raise CorruptionError(f"'{path}' is not {self.what}", hint="move it out of the store")
        return record_number(path)

    def newest(self) -> Record | None:
        """Return the record in force; None where there is none.

        Raises:
            CorruptionError: it is damaged, or a number is missing below it.
            UnsupportedFormatError: a later version wrote it.
        """
        if self.backend.newest(self.folder) is None:
            return None
        numbers = self.numbers()
        if not numbers or numbers != list(range(len(numbers))):
            raise CorruptionError(
                f"'{self.folder}' has lost a record, or holds something else, so nothing is dropped",
                hint=MEND_HINT,
            )
        return self.load(numbers[-1])

    def numbers(self) -> list[int]:
        """Return the numbers of the records that are there, oldest first."""
        names = (path.rpartition("/")[2] for path in self.backend.list(self.folder))
        return sorted(record_number(name) for name in names if is_record_name(name))

    def path(self, number: int) -> str:
        """Return where a record lies."""
        return f"{self.folder}/{record_name(number)}"

    def faults(self) -> Iterator[tuple[str, MvcsError]]:
        """Yield what is damaged or missing, by its path; what a later version wrote is no fault."""
        whole = True
        for number in self.numbers():
            try:
                self.load(number)
            except CorruptionError as error:
                whole = False
                yield self.path(number), error
            except (NotFoundError, UnsupportedFormatError):
                whole = False
        if whole:
            try:
                self.newest()
            except MvcsError as error:
                yield self.folder, error

    def load(self, number: int) -> Record:
        """Return one of the records.

        Raises:
            NotFoundError: it is not there.
            CorruptionError: it is damaged.
            UnsupportedFormatError: a later version wrote it.
        """
        path = self.path(number)
        try:
            with odd_is_damage():
                record = self.decode(self.backend.read_small(path, self.limit))
        except NotFoundError as error:
            if number not in self.numbers():
                raise
            raise CorruptionError(f"{self.what} '{path}' leads nowhere", hint=self.hint) from error
        except (CorruptionError, UnsupportedFormatError) as error:
            message = f"{self.what} '{path}' cannot be read: {error.message}"
            hint = (self.hint or error.hint) if isinstance(error, CorruptionError) else error.hint
            raise type(error)(message, hint=hint) from error
        if record.number != number:
            raise CorruptionError(
                f"{self.what} '{path}' lies under the number of another record", hint=self.hint
            )
        return record

    def is_good(self, number: int, data: bytes) -> bool:
        """Tell whether bytes are those of the record of a number, in a form that this version knows."""
        try:
            return self.decode(data).number == number
        except (CorruptionError, UnsupportedFormatError):
            return False

    def append(self, make: Callable[[Record | None, int], Record]) -> Record:
        """Create the next record; `make` is given the newest and the number, again where others were first.

        Raises:
            UnsupportedFormatError: a newer mvcs upgraded the store.
            LimitError: it would be larger than what is read.
            ConflictError: others are always first.
        """
        for _ in range(ATTEMPTS):
            refuse_changes(self.backend)
            newest = self.newest()
            record = make(newest, 0 if newest is None else newest.number + 1)
            path, data = self.path(record.number), record.encode()
            if len(data) > self.limit:
                raise LimitError(f"{self.what} would have {len(data)} bytes; {self.limit} are allowed")
            try:
                self.backend.create(path, data)
            except ConflictError:
                if self.backend.read_small(path, self.limit) != data:
                    continue  # ours after a lost reply has our bytes
            return record
        raise ConflictError(f"others change '{self.folder}' all the time", hint="try again")
