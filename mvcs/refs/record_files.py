"""The files of ref records: what is there, what is damaged, and what a disk does not give.

What cannot be read is named beside the whole, so that each verb decides.
"""

import contextlib
import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mvcs.errors import CorruptionError, MvcsError, NotFoundError, StorageError, UnsupportedFormatError
from mvcs.objects import is_record_name, record_name, record_number
from mvcs.refs.names import decode_name, encode_name
from mvcs.refs.record import MAX_RECORD, RefRecord, digest_of
from mvcs.store import NO_FILE, Backend

# What a disk says of one file, and not of all of them or of this process.
_OF_ONE_FILE = NO_FILE | {errno.EIO, errno.ELOOP, errno.ENXIO, errno.EBADMSG}
_GAP = 8  # records in a row that are not all lost where later ones are there
_MOST_STEPS = 64  # beyond which a listing costs less
UNREAD = bytes(32)
KEPT_RECORDS = 100  # of the newest, however old; notes keep all
UNREADABLE = (CorruptionError, UnsupportedFormatError)
_MENDING = {
    "heads": "'mvcs reflog {name}' shows older ones, 'mvcs switch -c NEW {name}@{{1}}' continues there",
    "tags": "'mvcs tag -d {name}' removes it; then a fetch brings it, or tag the commit again",
    "remotes": "'mvcs fetch {remote}' writes it again",
    "notes": "'mvcs fetch' brings what a remote has of it",
}
_GIVING_UP = {
    "heads": "'mvcs branch -d {name} --force' gives it up; every commit of the store is kept then",
    "tags": "'mvcs tag -d {name}' gives it up; every commit of the store is kept then",
    "remotes": "'mvcs fetch {remote}' writes it again",
}


def ref_folder(kind: str, name: str) -> str:
    """Return where the records of a ref lie."""
    return f"refs/{kind}/{encode_name(name)}"


@dataclass(frozen=True)
class DamagedRecord:
    """A record of a ref that cannot be read.

    Attributes:
        number: as its file name tells.
        digest: BLAKE3 of the file as it is; UNREAD where nobody can read it.
        error: what is wrong with it.
        passed_over: the record after it was written on these very bytes, so somebody knew.
    """

    number: int
    digest: bytes
    error: MvcsError
    passed_over: bool = False


FoundRecord = RefRecord | DamagedRecord


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


@dataclass(frozen=True)
class RefSurvey:
    """The refs of one kind.

    Attributes:
        whole: the newest record of each name that is not deleted.
        damaged: what is wrong with the newest records of the others; these are not absent.
        empty: names that have a folder without a record, begun by a writer that was stopped, or robbed.
    """

    whole: dict[str, RefRecord]
    damaged: dict[str, MvcsError]
    empty: dict[str, MvcsError]

    def told(self, tell: Callable[[str], None]) -> dict[str, RefRecord]:
        """Return the whole ones, for looking; `tell` hears of the others."""
        for name, error in self.damaged.items():
            tell(f"'{name}' is left out: {error.message}")
        return self.whole

    def required(self) -> dict[str, RefRecord]:
        """Return all of them, for whoever deletes.

        Raises:
            CorruptionError: one is damaged, or empty.
            UnsupportedFormatError: another version wrote one.
        """
        whole = self.readable()
        for error in self.empty.values():
            raise error
        return whole

    def readable(self) -> dict[str, RefRecord]:
        """Return all that have a record: another writer may just begin the others, and nothing is deleted.

        Raises:
            CorruptionError: one is damaged.
            UnsupportedFormatError: another version wrote one.
        """
        for error in self.damaged.values():
            raise error
        return self.whole


def recordless_error(kind: str, name: str) -> MvcsError:
    """Return the error for a name whose folder holds no record."""
    return CorruptionError(
        f"'refs/{kind}/{encode_name(name)}' holds no record, so where '{name}' stood is not known",
        hint="give a commit that name again, or remove that once it is known to have held nothing",
    )


def following(path: str, found: FoundRecord, above: FoundRecord | None) -> FoundRecord:
    """Compare a record with the hash of it that the one above holds."""
    expected = above.previous if isinstance(above, RefRecord) else None
    if expected is None:
        return found
    if isinstance(found, DamagedRecord):
        return replace(found, passed_over=expected in (UNREAD, found.digest))
    if expected in (UNREAD, found.digest):
        return found
    error = CorruptionError(f"'{path}' is not the record that the one after it was written on")
    return DamagedRecord(found.number, found.digest, error)


def gone(path: str, number: int) -> DamagedRecord:
    """Return what stands for a record that is missing below the one at a path."""
    error = CorruptionError(f"record '{path.rpartition('/')[0]}/{record_name(number)}' is gone")
    return DamagedRecord(number, UNREAD, error)


def lost_end_error(kind: str, name: str, row: Sequence[FoundRecord]) -> CorruptionError | None:
    """Return the error for a row whose oldest records are gone and were not trimmed; None for a whole one.

    Args:
        kind: the kind of ref.
        name: the ref.
        row: its records, newest first.
    """
    if not row or not row[-1].number or (kind != "notes" and len(row) >= KEPT_RECORDS):
        return None
    return CorruptionError(
        f"the records of '{name}' before number {row[-1].number} are gone, and were not trimmed",
        hint="copy them from a backup, if what the branch was before matters",
    )


def mending(path: str) -> str | None:
    """Return how to go on where the record at a path is damaged."""
    _, kind, segment, _ = path.split("/")
    return _filled(_MENDING, kind, decode_name(segment))


def how_to_give_up(kind: str, name: str) -> str | None:
    """Return how somebody says that what a damaged ref named is not waited for."""
    return _filled(_GIVING_UP, kind, name)


def _filled(texts: Mapping[str, str], kind: str, name: str) -> str | None:
    found = texts.get(kind)
    return None if found is None else found.format(name=name, remote=name.partition("/")[0])
