"""The files of ref records: what is there, what is damaged, and what a disk does not give."""

import contextlib
import errno
from collections.abc import Iterator

from mvcs.errors import CorruptionError, NotFoundError, StorageError
from mvcs.objects import is_record_name, record_name, record_number
from mvcs.refs.damage import UNREAD, UNREADABLE, DamagedRecord, FoundRecord, mending
from mvcs.refs.names import encode_name
from mvcs.refs.record import MAX_RECORD, RefRecord, digest_of
from mvcs.store import NO_FILE, Backend

# What a disk says of one file, and not of all of them or of this process.
_OF_ONE_FILE = NO_FILE | {errno.EIO, errno.ELOOP, errno.ENXIO, errno.EBADMSG}

_GAP = 8  # records in a row that are not all lost where later ones are there
_MOST_STEPS = 64  # beyond which a listing costs less


def ref_folder(kind: str, name: str) -> str:
    """Return where the records of a ref lie."""
    return f"refs/{kind}/{encode_name(name)}"


class RecordFiles:
    """Reads the records of refs from their files."""

    def __init__(self, backend: Backend, known: dict[bytes, RefRecord] | None = None) -> None:
        """Read from `backend`; `known` has records by their hashes, and `look_below` adds to it."""
        self._backend = backend
        self._known = known

    def numbered(self, kind: str, name: str, number: int) -> RefRecord | None:
        """Return a record by its number; None where there is none."""
        try:
            return self.load(f"{ref_folder(kind, name)}/{record_name(number)}")
        except NotFoundError:
            return None

    def paths(self, kind: str, name: str) -> list[str]:
        """Return where the records of a ref lie, newest first."""
        folder = ref_folder(kind, name)
        with self.damage_of_one():
            # On a disk something may lie where a record was that is no file.
            look = self._backend.children if self._backend.near else self._backend.list
            names = sorted(name.removeprefix(f"{folder}/") for name in look(folder))
        return [f"{folder}/{name}" for name in names if is_record_name(name)]

    def above(self, folder: str, number: int | None) -> str | None:
        """Return the newest record of a folder where one of a known number is there still; else None.

        A disk lists a folder whole. Here records are asked for by name until several are missing in a row, so
        that one that was lost does not hide those behind it.
        """
        if number is None or not self._backend.near:
            return None
        with contextlib.suppress(StorageError):  # the listing will tell what is wrong with the folder
            return self._climbed(folder, number) if self._is_there(folder, number) else None
        return None

    def _climbed(self, folder: str, number: int) -> str | None:
        last = number
        while last - number < _MOST_STEPS:
            found = [each for each in range(last + 1, last + 1 + _GAP) if self._is_there(folder, each)]
            if not found:
                return f"{folder}/{record_name(last)}"
            last = found[-1]
        return None

    def _is_there(self, folder: str, number: int) -> bool:
        return self._backend.size(f"{folder}/{record_name(number)}") is not None

    def look(self, path: str) -> FoundRecord:
        """Return the record at a path, be it damaged."""
        try:
            return self.load_listed(path)
        except UNREADABLE as error:
            return DamagedRecord(record_number(path), self._digest(path), error)

    def look_below(self, path: str, above: FoundRecord | None) -> FoundRecord:
        """Return the record at a path; one that is known is not read where `above` holds its hash."""
        if self._known is None:
            return self.look(path)
        if isinstance(above, RefRecord) and above.previous is not None:
            known = self._known.get(above.previous)
            if known is not None and known.key == path.rpartition("/")[2]:
                self._known[above.previous] = self._known.pop(above.previous)  # the last to be forgotten
                return known
        found = self.look(path)
        if isinstance(found, RefRecord):
            self._known[found.digest] = found
        return found

    def _digest(self, path: str) -> bytes:
        try:
            with self.damage_of_one():
                return digest_of(self._backend.read_small(path, MAX_RECORD))
        except (CorruptionError, NotFoundError):
            return UNREAD  # no file, or longer than any record, and not worth reading

    def load_listed(self, path: str) -> RefRecord:
        """Load a record that a listing names: what is listed and not there is a broken link, or was lost."""
        try:
            return self.load(path)
        except NotFoundError as error:
            message = f"ref record '{path}' cannot be read: its name leads to no file"
            raise CorruptionError(message, hint=mending(path)) from error

    def load(self, path: str) -> RefRecord:
        """Return the record at a path.

        Raises:
            NotFoundError: there is none.
            CorruptionError: it is damaged.
            UnsupportedFormatError: another version wrote it.
        """
        try:
            with self.damage_of_one():
                data = self._backend.read_small(path, MAX_RECORD)
            record = RefRecord.decode(data)
            if record.key != path.rpartition("/")[2]:
                raise CorruptionError("it lies under the number of another record")
        except UNREADABLE as error:
            hint = error.hint or mending(path)
            raise type(error)(f"ref record '{path}' cannot be read: {error.message}", hint=hint) from error
        return record

    @contextlib.contextmanager
    def damage_of_one(self) -> Iterator[None]:
        """Where a disk lists its files, one that it does not give is damaged; a bucket may be away."""
        try:
            yield
        except StorageError as error:
            cause = error.__cause__
            if not (self._backend.near and isinstance(cause, OSError) and cause.errno in _OF_ONE_FILE):
                raise
            # What is no file lies where a record was: whoever moves it away hides that there was one.
            hint = None if cause.errno in NO_FILE else error.hint
            raise CorruptionError(error.message, hint=hint) from error
