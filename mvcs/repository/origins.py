"""Which layer of which commit a state continued from, as far as anything tells."""

from dataclasses import dataclass, replace

from mvcs.checkpoint.captured import Captured
from mvcs.errors import CorruptionError, NotFoundError, StorageError, UnsupportedFormatError, UsageError
from mvcs.history.graph import Revision
from mvcs.objects.commit import BOUNDED
from mvcs.objects.ids import ObjectId
from mvcs.repository.describing import CommitRequest
from mvcs.repository.handed_out import HANDED_OUT
from mvcs.repository.local_records import LocalRecords
from mvcs.repository.session import Session
from mvcs.repository.traces import traced
from mvcs.repository.working import Index

SUBJECT, _EXPORTED, _UNBOUNDED = "lineage", "exported", "unbounded"
_UNREADABLE = (CorruptionError, NotFoundError, UnsupportedFormatError)


@dataclass(frozen=True)
class Origin:
    """What a state continued from.

    Attributes:
        lossy: whether that was restored lossily; None where nothing tells.
        restored_from: the bounded commit it was restored from, where that is known and here.
    """

    lossy: bool | None = False
    restored_from: Revision | None = None

    def asked(self, request: CommitRequest) -> CommitRequest:
        """Return a request for a commit that says so."""
        return replace(request, lossy=self.lossy, restored_from=self.restored_from)


EXACT, UNTOLD = Origin(), Origin(None)


class LineageRecord:
    """What a clone remembers of the lineage of its states beside the index of files."""

    def __init__(self, session: Session) -> None:
        """Remember in the clone of `session`."""
        self._session = session
        self._records = LocalRecords(session.place.local)

    @property
    def keeps_values(self) -> bool:
        """Whether no lossy values ever left the store here; without a record nothing tells."""
        return self._records.read(SUBJECT).get(_EXPORTED) == ""

    @property
    def gave_values(self) -> bool:
        """Whether it is on record that lossy values left the store here, for files or for a program."""
        return bool(self._records.read(SUBJECT).get(_EXPORTED))

    @property
    def unbounded(self) -> ObjectId | None:
        """A commit behind which nothing is bounded."""
        try:
            return ObjectId(bytes.fromhex(str(self._records.read(SUBJECT).get(_UNBOUNDED))))
        except ValueError:
            return None

    def watch(self) -> None:
        """Take note that from now on this clone knows whether lossy values leave its store."""
        if _EXPORTED not in self._records.read(SUBJECT):
            self._update(_EXPORTED, "")

    def give(self, commit: ObjectId) -> None:
        """Take note that lossy values of a commit are about to leave the store, to become anything."""
        self._session.given.note(lossy=True)
        if not self.gave_values:
            self._update(_EXPORTED, commit.hex())

    def remember_unbounded(self, commit: ObjectId) -> None:
        """Take note of a commit behind which nothing is bounded, so that no later one looks farther back."""
        self._update(_UNBOUNDED, commit.hex())

    def _update(self, name: str, value: str) -> None:
        try:
            self._records.update(SUBJECT, lambda record: record.__setitem__(name, value))
        except StorageError as error:
            self._session.warnings.append(f"what is known of the lineage is not kept: {error.message}")


class Origins:
    """Finds out where states come from, for the commits of one open repository."""

    def __init__(self, session: Session) -> None:
        """Ask what `session` and this process know."""
        self._session = session
        self._record = LineageRecord(session)

    def of_state(
        self, state: object, captured: Captured, told: str | None, parent: Revision | None
    ) -> Origin:
        """Return where a state comes from.

        Args:
            state: as it was handed over.
            captured: the same.
            told: the bounded commit it was restored from, as its owner says; "" for none, None for no word.
            parent: what the commit continues.

        Raises:
            NotFoundError: there is no such commit.
        """
        if told is not None:
            return Origin(True, self._session.resolve(told)) if told else EXACT
        marked = HANDED_OUT.find(state)
        if marked is not None:
            return self._lossy(marked)
        given = self._session.given
        known = not given.lossy and (given.exact or (parent is not None and parent.id in given.made))
        return EXACT if known else self._by_values(captured, parent) or UNTOLD

    def of_files(self, captured: Captured, index: Index, parent: Revision | None) -> Origin:
        """Return where files come from: by what is known of their paths, their marks, and their values."""
        paths = [entry.path for entry in captured.files or ()]
        seen = [index.files.get(path) for path in paths]
        lossy = [found.commit for found in seen if found is not None and found.lossy]
        lossy += [captured.restored[path] for path in paths if path in captured.restored]
        if lossy:
            return self._lossy(lossy[0])
        known = None not in seen and self._record.keeps_values
        return self._by_values(captured, parent) or (EXACT if known else UNTOLD)

    def _by_values(self, captured: Captured, parent: Revision | None) -> Origin | None:
        """Return what the history, or at last the values themselves, tell; None where that is nothing."""
        gave = self._session.given.lossy or self._record.gave_values
        if not gave and (parent is None or not self._is_behind_bounded(parent)):
            return EXACT
        if parent is None:
            return None
        found = traced(self._session.store, self._session.graph, parent, captured)
        return None if found is None else Origin(True, found)

    def _lossy(self, commit: str) -> Origin:
        try:
            return Origin(True, self._session.resolve(commit))
        except (*_UNREADABLE, UsageError):
            return Origin(True)  # such as a commit of another clone that was never fetched

    def _is_behind_bounded(self, parent: Revision) -> bool:
        """Tell whether a commit or an ancestor is bounded; taken to be so where history cannot be read."""
        known = self._record.unbounded
        try:
            line = self._session.graph.walk([parent], without={known} if known else set())
            if any(revision.commit.exactness == BOUNDED for revision in line):
                return True
        except _UNREADABLE:
            return True
        if parent.id != known:
            self._record.remember_unbounded(parent.id)
        return False
