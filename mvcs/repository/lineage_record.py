"""What a clone remembers of lossy values that left its store, beside the index of files."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from mvcs.errors import StorageError
from mvcs.history import Revision
from mvcs.local import LocalRecords
from mvcs.objects import BOUNDED, ObjectId
from mvcs.repository.session import Session
from mvcs.store import UNREADABLE_ERRORS, Manifests

SUBJECT, GAVE, _UNBOUNDED = "lineage", "exported", "unbounded"
NOTHING, UNKNOWN = "", "unknown"


class LineageRecord:
    """Whether lossy values left the store of a clone: none ever did, some did, or nobody knows."""

    def __init__(self, session: Session) -> None:
        """Remember in the clone of `session`."""
        self._session = session
        self._records = LocalRecords(session.place.local)

    def begin(self) -> None:
        """Take note, in a clone that is being made, that nothing left its store yet."""
        self._note_first(NOTHING)

    def gave_nothing(self) -> bool:
        """Tell whether no lossy values ever left the store here, for files or for a program.

        Where nothing is on record they may have, unless the store holds nothing lossy that could leave it.
        So it is with a store that other folders may lead to: what they gave is not on record here.
        """
        if self._session.place.is_shared:
            return not self._may_give()
        gave = _gave(self._records)
        if gave is None:
            gave = UNKNOWN if self._may_give() else NOTHING
            self._note_first(gave)
        return gave == NOTHING

    def give(self, commit: ObjectId) -> None:
        """Take note that lossy values of a commit are about to leave the store, to become anything."""
        self._session.given.lossy += 1
        self._note_given(self._records, commit)
        host = self._session.place.host
        if host is not None:  # what left may come back there
            self._note_given(LocalRecords(host), commit)

    def _note_given(self, records: LocalRecords, commit: ObjectId) -> None:
        if _gave(records):
            return
        try:
            with records.change(SUBJECT) as record:
                record[GAVE] = commit.hex()
        except StorageError as error:
            # The old record would go on saying that none left.
            records.forget(SUBJECT)
            self._warn(error)

    @property
    def unbounded(self) -> ObjectId | None:
        """A commit behind which nothing is bounded."""
        try:
            return ObjectId(bytes.fromhex(str(self._records.read(SUBJECT).get(_UNBOUNDED))))
        except ValueError:
            return None

    def remember_unbounded(self, commit: ObjectId) -> None:
        """Take note of a commit behind which nothing is bounded, so that no later one looks farther back."""
        self._update(lambda record: record.__setitem__(_UNBOUNDED, commit.hex()))

    def _may_give(self) -> bool:
        """Tell whether the store holds anything lossy that could leave it."""
        session = self._session
        if session.unbounded is None:
            return True
        with suppress(*UNREADABLE_ERRORS):  # what is unread may be bounded
            if not _holds_bounded(Manifests(session.place.backend), session.unbounded):
                return False
            session.unbounded = None
        return True

    def _note_first(self, value: str) -> None:
        """Take note of what left, unless another process has."""

        def change(record: dict[str, Any]) -> None:
            if not isinstance(record.get(GAVE), str):
                record[GAVE] = value

        self._update(change)

    def _update(self, change: Callable[[dict[str, Any]], None]) -> None:
        try:
            with self._records.change(SUBJECT) as record:
                change(record)
        except StorageError as error:
            self._warn(error)

    def _warn(self, error: StorageError) -> None:
        self._session.warn(f"what is known of the lineage is not kept: {error.message}")


def _gave(records: LocalRecords) -> str | None:
    """Return the first commit whose values left, `NOTHING` or `UNKNOWN`; None where it is not on record."""
    found = records.read(SUBJECT).get(GAVE)
    return found if isinstance(found, str) else None


def _holds_bounded(manifests: Manifests, unbounded: set[ObjectId]) -> bool:
    """Tell whether any commit in a store is bounded, also one that no ref names.

    Args:
        manifests: of the store.
        unbounded: commits that are not; what is learnt is added.

    Raises:
        MvcsError: a manifest cannot be read.
    """
    for commit in manifests.listed():
        if commit not in unbounded:
            manifest = manifests.first(commit)
            rows = (manifest.written, *manifest.ancestors)
            if any(Revision(written).commit.exactness == BOUNDED for written in rows):
                return True
            unbounded.update(written.id for written in rows)
    return False
