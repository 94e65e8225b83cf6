"""Branches, tags and notes in a backend: compare-and-swap by creating the next number exclusively."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from mvcs.config import DAY_SECONDS, GRACE_DAYS
from mvcs.errors import (
    ConflictError,
    CorruptionError,
    MvcsError,
    StorageError,
    UnsupportedFormatError,
    not_found,
)
from mvcs.objects import Note, ObjectId, is_record_name, record_name, record_number, short_id
from mvcs.refs.names import decode_name, is_segment, refuse_ambiguous
from mvcs.refs.record import RefChange, RefRecord
from mvcs.refs.record_files import (
    KEPT_RECORDS,
    UNREAD,
    UNREADABLE,
    DamagedRecord,
    FoundRecord,
    RecordFiles,
    RefSurvey,
    following,
    gone,
    recordless_error,
    ref_folder,
)
from mvcs.refs.writer_duties import TAKEN_BACK, GoingError, Marked, Needs, WriterDuties
from mvcs.store import Backend, refuse_changes

HEADS, TAGS, NOTES, REMOTES = "heads", "tags", "notes", "remotes"
GRACE_MICROSECONDS = round(GRACE_DAYS * DAY_SECONDS * 1e6)


def now_microseconds() -> int:
    """Return the time in microseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1000


class RolledBackError(CorruptionError):
    """A ref stands at an older record than was seen before, or at another one of that number."""


class RefMemory(Protocol):
    """Remembers the newest record of each ref that was ever seen. Losing it loses no more than the check."""

    def seen(self, kind: str, name: str) -> tuple[int, str] | None:
        """Return number and mark of the newest record that was seen; None when none was."""

    def saw(self, kind: str, name: str, record: RefRecord, *, wrote: bool = False) -> None:
        """Remember a record that is newer than what was seen; at once when this process `wrote` it."""

    def missed(self, error: RolledBackError) -> None:
        """Tell a person, once, what whoever only reads goes on in spite of."""

    def how_to_forget(self) -> str:
        """Return what a person does to go on from what is there."""


class RefStore:
    """The refs of one store."""

    def __init__(
        self,
        backend: Backend,
        clock: Callable[[], int] = now_microseconds,
        memory: RefMemory | None = None,
        needs: Needs | None = None,
        known: dict[bytes, RefRecord] | None = None,
    ) -> None:
        """Keep refs below `refs/` in `backend`.

        Args:
            backend: where they lie.
            clock: gives microseconds.
            memory: knows earlier looks.
            needs: tells what a target needs; without it each counts as needing all.
            known: records by their hashes, which `row` need not read again; those it reads are added.
        """
        self._backend = backend
        self._files = RecordFiles(backend, known)
        self._clock = clock
        self._memory = memory
        self.duties = WriterDuties(backend, needs, clock)
        self._last: dict[str, int] = {}  # the newest numbers that were found, by folder

    def listed(self, kind: str) -> list[str]:
        """Return every name that has records, deleted ones included, sorted; no record is read."""
        segments = self._backend.children(f"refs/{kind}")
        return sorted(decode_name(segment) for segment in segments if is_segment(segment))

    def missing(self, kind: str, name: str) -> MvcsError:
        """Return the error for a branch or tag that does not exist."""
        noun = "branch" if kind == HEADS else "tag"
        known = list(self.survey(kind).whole)
        return not_found(f"no {noun} named '{name}'", name, known, f"'mvcs {noun}' lists them")

    def survey(self, kind: str) -> RefSurvey:
        """Return the newest record of every name that is not deleted, and which of them are damaged."""
        found = RefSurvey({}, {}, {})
        for name in self.listed(kind):
            try:
                record = self.newest(kind, name)
            except UNREADABLE as error:
                found.damaged[name] = error
                continue
            if record is None:
                found.empty[name] = recordless_error(kind, name)
            elif record.target is not None:
                found.whole[name] = record
        return found

    def is_begun(self, kind: str) -> bool:
        """Tell whether there is a place for the names of a kind, which may be none."""
        return kind in self._backend.children("refs")

    def read(self, kind: str, name: str) -> RefRecord | None:
        """Return what a name points at now; None when it does not exist or was deleted.

        Raises:
            CorruptionError: the newest record is damaged; older ones may be whole.
        """
        record = self.newest(kind, name)
        return None if record is None or record.target is None else record

    def newest(self, kind: str, name: str) -> RefRecord | None:
        """Return the newest record, also when it says that the name was deleted.

        Raises:
            CorruptionError: it is damaged.
        """
        path = self._newest_path(kind, name)
        record = None if path is None else self._files.load_listed(path)
        memory = self._memory
        if memory is None or kind == NOTES:
            return record
        try:
            return self._compared(memory, kind, name, record)
        except RolledBackError as error:
            memory.missed(error)
            return record

    def _newest_path(self, kind: str, name: str) -> str | None:
        folder = ref_folder(kind, name)
        path = self._files.above(folder, self._last.get(folder)) or self._listed_newest(kind, name)
        if path is not None:
            self._last[folder] = record_number(path)
        return path

    def _listed_newest(self, kind: str, name: str) -> str | None:
        with self._files.damage_of_one():
            path = self._backend.newest(ref_folder(kind, name))
        if path is None or is_record_name(path.rpartition("/")[2]):
            return path
        return next(iter(self._files.paths(kind, name)), None)

    def top(self, kind: str, name: str) -> FoundRecord | None:
        """Return the newest record for who may write the next one whatever it says, also a damaged one."""
        try:
            return self.newest(kind, name)
        except UNREADABLE:
            path = self._newest_path(kind, name)
            return None if path is None else self._files.look(path)

    def newest_number(self, kind: str, name: str) -> int | None:
        """Return the number of the newest record, which may be damaged; None when there is none."""
        path = self._newest_path(kind, name)
        return None if path is None else record_number(path)

    def _compared(
        self, memory: RefMemory, kind: str, name: str, record: RefRecord | None
    ) -> RefRecord | None:
        """Compare a newest record with the newest that was seen, and remember what is newer.

        Raises:
            RolledBackError: it is older, or another one.
        """
        seen = memory.seen(kind, name)
        number = -1 if record is None else record.number
        if record is not None and (seen is None or number > seen[0]):
            memory.saw(kind, name, record)
        elif seen is not None and number < seen[0]:
            # A listing may lag behind; a file that is asked for by its name is there.
            listed_late = self._files.numbered(kind, name, seen[0])
            if listed_late is None:
                raise _rolled_back(memory, kind, name, f"record {seen[0]} was seen here and is gone", seen[0])
            return listed_late
        elif record is not None and seen is not None and record_mark(record) != seen[1]:
            raise _rolled_back(
                memory, kind, name, f"record {number} is not the one that was seen here", number
            )
        return record

    def history(self, kind: str, name: str) -> Iterator[RefRecord]:
        """Yield the records that are kept, newest first, checking that each holds the hash of the next.

        Raises:
            CorruptionError: a record is damaged, or was exchanged.
        """
        for found in self.row(kind, name):
            if isinstance(found, DamagedRecord):
                raise found.error
            yield found

    def row(self, kind: str, name: str) -> Iterator[FoundRecord]:
        """Yield what `history` does; a damaged, exchanged or missing record stands in its place as such."""
        above: FoundRecord | None = None
        paths = self._files.paths(kind, name)
        for place, path in enumerate(paths):
            found = self._files.look_below(path, above)
            if (
                isinstance(found, DamagedRecord)
                and above is not None
                and path not in self._files.paths(kind, name)
            ):
                return  # trimmed since it was listed, and so were all older ones
            if above is not None and found.number < above.number - 1:
                if place >= KEPT_RECORDS and self._is_no_file(paths[place:]):
                    return  # trimmed, and what lies in the place of older ones could not be
                yield gone(path, above.number - 1)
                above = None
            above = following(path, found, above)
            yield above

    def _is_no_file(self, paths: list[str]) -> bool:
        return all(
            isinstance(old := self._files.look(path), DamagedRecord) and old.digest == UNREAD
            for path in paths
        )

    def last_whole(self, kind: str, name: str) -> RefRecord | None:
        """Return the newest record that can be read; None when none can."""
        return next((found for found in self.row(kind, name) if isinstance(found, RefRecord)), None)

    def update(self, kind: str, name: str, expected: FoundRecord | None, change: RefChange) -> RefRecord:
        """Write the record after `expected`, which must still be the newest.

        After a damaged one it is written on the bytes that are there: who passes that has decided to.

        Args:
            kind: "heads", "tags", "notes" or "remotes".
            name: the ref.
            expected: the newest record the caller has seen; None when there was none.
            change: what the new record says.

        Raises:
            ConflictError: another writer was first; nothing changed.
            StorageError: the record could not be written.
            UnsupportedFormatError: a newer mvcs upgraded the store meanwhile.
            UsageError: no ref may have that name; one that has it can still be deleted.
            RolledBackError: the newest record that was seen here is gone, or is another one now.
            GoingError: packs that the target needs are being deleted; the ref is where it was.
        """
        self.refuse_rolled_back(kind, name, expected)
        leads = kind != NOTES and change.target is not None
        if leads:
            refuse_ambiguous(name)
        upgrades, read = refuse_changes(self._backend), -1
        if leads:
            before = expected if isinstance(expected, RefRecord) and expected.target else None
            read = self.duties.before(upgrades, change, Marked(before, self._led_to))
        record = self._record(expected, change)
        path = f"{ref_folder(kind, name)}/{record.key}"
        try:
            self._backend.create(path, record.encode())
        except ConflictError as error:
            raise ConflictError(
                f"'{name}' was changed by someone else", hint="look at it again and retry"
            ) from error
        self._check_still_ours(kind, name, record)
        self._look_behind(kind, name, expected, record, read if leads else None)
        if self._memory is not None and kind != NOTES:
            self._memory.saw(kind, name, record, wrote=True)
        self._trim(kind, name, record)
        return record

    def _record(self, expected: FoundRecord | None, change: RefChange) -> RefRecord:
        return RefRecord(
            0 if expected is None else expected.number + 1,
            change.target,
            None if expected is None else expected.digest,
            self._clock(),
            change.author,
            change.action,
            change.content,
        )

    def _led_to(self) -> list[RefRecord]:
        """Return what refs lead to now; those that are damaged lead nowhere."""
        kinds = (self.survey(kind) for kind in (HEADS, TAGS, REMOTES))
        return [record for found in kinds for record in found.whole.values()]

    @contextlib.contextmanager
    def naming(self, target: ObjectId, author: str, undo: Callable[[], object]) -> Iterator[None]:
        """Have collectors keep what a commit needs while a pin or HEAD, which are no refs, comes to name it.

        Args:
            target: the commit.
            author: who has it named.
            undo: takes back what was written, where that turns out to be too late.

        Raises:
            GoingError: packs that it needs are being deleted; nothing names it.
            NotFoundError: what it needs is missing, where something is going or gone.
        """
        change = RefChange(target, author, "")
        read = self.duties.before(refuse_changes(self._backend), change, Marked(None, self._led_to))
        yield
        try:
            self.duties.behind(refuse_changes(self._backend), change, read)
        except GoingError:
            undo()
            raise

    def avoided(self) -> set[str]:
        """Return the packs that nobody should lean on, since a collector wants them gone.

        Raises:
            UnsupportedFormatError: a newer mvcs upgraded the store.
            StorageError: that cannot be read.
        """
        return self.duties.look(refuse_changes(self._backend))

    def _look_behind(
        self, kind: str, name: str, expected: FoundRecord | None, record: RefRecord, read: int | None
    ) -> None:
        """Look again: what a change leads to may be given up by now, by an upgrade or by a collector.

        `read` is how far the log was read before; None for a change that leads to nothing.

        Raises:
            UnsupportedFormatError, GoingError: it is, and the ref is where it was.
        """
        change = RefChange(record.target, record.author, record.action)
        try:
            # The ref has moved: a disk that fails now must not look as if it had not.
            with contextlib.suppress(StorageError):
                upgrades = refuse_changes(self._backend)
                if read is not None:
                    self.duties.behind(upgrades, change, read)
        except (UnsupportedFormatError, GoingError) as error:
            if read is not None:
                now = self._take_back(kind, name, expected, record, error)
                if isinstance(error, GoingError):
                    error.now = now
            raise

    def _take_back(
        self, kind: str, name: str, expected: FoundRecord | None, record: RefRecord, why: MvcsError
    ) -> RefRecord | None:
        was = expected if isinstance(expected, RefRecord) else RefChange(None, "", "")
        upgraded = "taken back: the store was upgraded meanwhile"
        action = TAKEN_BACK if isinstance(why, GoingError) else upgraded
        back = self._record(record, RefChange(was.target, record.author, action, was.content))
        try:
            self._backend.create(f"{ref_folder(kind, name)}/{back.key}", back.encode())
        except ConflictError:
            return None  # who came behind us answers for what is there now
        if isinstance(why, GoingError) and self._memory is not None:
            self._memory.saw(kind, name, back, wrote=True)
        return back

    def refuse_rolled_back(self, kind: str, name: str, expected: FoundRecord | None) -> None:
        """Check what a change is based on; who is only late loses the race when the record is created.

        Raises:
            RolledBackError: the newest record that was seen here is gone, or is another one now.
        """
        if self._memory is None or kind == NOTES:
            return
        seen = self._memory.seen(kind, name)
        if seen is None or (
            isinstance(expected, RefRecord) and (expected.number, record_mark(expected)) == seen
        ):
            return
        if isinstance(expected, DamagedRecord) and expected.number >= seen[0]:
            return  # what it said is lost, and the row is as long as it was
        if expected is None or expected.number <= seen[0]:
            path = self._newest_path(kind, name)
            self._compared(self._memory, kind, name, None if path is None else self._files.load(path))

    def append(self, kind: str, name: str, change: RefChange) -> RefRecord:
        """Write the next record whatever it follows; for names whose records are merged by union."""
        while True:
            try:
                return self.update(kind, name, self.top(kind, name), change)
            except ConflictError:
                continue

    def _check_still_ours(self, kind: str, name: str, record: RefRecord) -> None:
        """A record above ours must descend from ours; a backend that only looks exclusive shows here."""
        newest = self.newest(kind, name)
        if newest == record:
            return
        mine, above = (self._files.numbered(kind, name, record.number + step) for step in (0, 1))
        trimmed = above is None and newest is not None and newest.number > record.number
        if trimmed:
            # The number was free only because it had been trimmed: our caller slept through the grace.
            self._backend.delete(f"{ref_folder(kind, name)}/{record.key}")
        if mine != record or trimmed or (above is not None and above.previous != record.digest):
            raise ConflictError(
                f"'{name}' was changed by someone else at the same moment",
                hint="this store does not refuse lost races; let one writer at a time change refs",
            )

    def _trim(self, kind: str, name: str, newest: RefRecord) -> None:
        # Notes are the records themselves; of other refs only the newest record and the reflog matter.
        if kind == NOTES or newest.number < KEPT_RECORDS or newest.number % KEPT_RECORDS:
            return
        limit = self._clock() - GRACE_MICROSECONDS
        undated: list[str] = []  # as old as the next one that can be read
        # The ref has moved: what cannot be read or removed here must not look as if it had not.
        with contextlib.suppress(MvcsError):
            for path in reversed(self._files.paths(kind, name)[KEPT_RECORDS:]):
                undated.append(path)
                found = self._files.look(path)
                if isinstance(found, DamagedRecord):
                    continue
                if found.time >= limit:
                    return
                for old in undated:
                    with contextlib.suppress(MvcsError):  # what is no file stays, and the others go
                        self._backend.delete(old)
                undated.clear()


def _rolled_back(memory: RefMemory, kind: str, name: str, what: str, number: int) -> RolledBackError:
    return RolledBackError(
        f"'{name}' was set back: {what}",
        hint=f"copy '{ref_folder(kind, name)}/{record_name(number)}' from a clone or a backup; "
        f"to continue from what is there, {memory.how_to_forget()}",
    )


def notes_of(refs: RefStore, commit: ObjectId, tell: Callable[[str], None] = lambda _: None) -> list[Note]:
    """Return the notes of a commit, oldest first; `tell` hears of those that are damaged."""
    notes = []
    for found in refs.row(NOTES, commit.hex()):
        if isinstance(found, RefRecord):
            notes.append(Note.decode(found.content))
        elif not found.passed_over:
            tell(f"a note on {short_id(commit)} is left out: {found.error.message}")
    return notes[::-1]


def later_metrics(
    refs: RefStore, commit: ObjectId, tell: Callable[[str], None] = lambda _: None
) -> dict[str, float]:
    """Return the metrics that notes add to a commit; a later note wins, `tell` hears of damaged ones."""
    return {name: value for note in notes_of(refs, commit, tell) for name, value in note.metrics}


def record_mark(record: RefRecord) -> str:
    """Return what tells a record from another one of its number."""
    return record.digest.hex()[:16]
