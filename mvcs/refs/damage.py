"""Refs and records that cannot be read: named beside the whole ones, so that each verb decides."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mvcs.errors import CorruptionError, MvcsError, NotFoundError, UnsupportedFormatError
from mvcs.objects import record_name
from mvcs.refs.names import decode_name, encode_name
from mvcs.refs.record import RefRecord

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


def missing_ref_error(kind: str, name: str) -> MvcsError:
    """Return the error for a name that does not exist."""
    noun = {"heads": "branch", "tags": "tag"}.get(kind, "ref")
    return NotFoundError(
        f"no {noun} named '{name}'", hint=f"'mvcs {noun}' lists them" if kind != "notes" else None
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
