"""fsck of refs: every record and row of them, what lies beside them, HEAD, and what others know of them."""

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass

from mvcs.errors import CorruptionError, MvcsError, NotFoundError, UsageError
from mvcs.local import SeenRefs
from mvcs.objects import is_prefix, is_record_name, record_name, short_id
from mvcs.refs import (
    HEADS,
    NOTES,
    REMOTES,
    TAGS,
    DamagedRecord,
    RefRecord,
    RefStore,
    check_note,
    check_tag,
    decode_name,
    encode_name,
    is_segment,
    lost_end_error,
    record_mark,
    recordless_error,
    refuse_ambiguous,
)
from mvcs.store import Backend

KINDS = (HEADS, TAGS, REMOTES, NOTES)
LATER_KINDS = ("signatures",)  # reserved: this version looks into none of them
FOLDER = "refs"
PUSHED = "push"
_ANNOTATIONS = {TAGS: check_tag, NOTES: check_note}


@dataclass
class RefCheck:
    """One check of all refs of a store.

    Attributes:
        backend: the store.
        refs: its refs, without a memory, so that what is wrong is said once and here.
        seen: what this clone saw of them before; None for a bare store.
        report: is told what is wrong: a kind, a subject and the error.
        note: is told what was wrong and is dealt with.
    """

    backend: Backend
    refs: RefStore
    seen: SeenRefs | None
    report: Callable[[str, str, MvcsError], None]
    note: Callable[[str], None]

    def rows(self) -> dict[str, list[RefRecord]]:
        """Check all records and return the whole ones by `KIND/NAME`, newest first."""
        self._strays()
        return {
            f"{kind}/{name}": records
            for kind in KINDS
            for name in self._names(kind)
            if (records := self._row(kind, name)) is not None
        }

    def _names(self, kind: str) -> list[str]:
        try:
            return self.refs.listed(kind)
        except MvcsError as error:
            self.report("ref", kind, error)
            return []

    def _row(self, kind: str, name: str) -> list[RefRecord] | None:
        try:
            row = list(self.refs.row(kind, name))
        except MvcsError as error:
            self.report("ref", f"{kind}/{name}", error)
            return None
        if not row:
            self.note(recordless_error(kind, name).message)
        records = [found for found in row if isinstance(found, RefRecord)]
        damage = [found for found in row if isinstance(found, DamagedRecord)]
        self._damaged(kind, name, damage)
        for problem in (*_annotations(kind, name, records), lost_end_error(kind, name, row)):
            if problem is not None:
                self.report("ref", f"{kind}/{name}", problem)
        self._seen_before(kind, name, records, {found.number for found in damage})
        return records

    def _damaged(self, kind: str, name: str, damage: list[DamagedRecord]) -> None:
        """Report what is damaged; what the record after it was knowingly written on is only worth a note."""
        for found in damage:
            if found.passed_over:
                self.note(f"{found.error.message}; it was passed over by the record after it")
            else:
                self.report("ref", f"{kind}/{name}", found.error)

    def _strays(self) -> None:
        """Report what is no record: it may hide one, and nothing reads it."""
        with suppress(MvcsError):
            for path in self._foreign():
                error = CorruptionError(f"'{path}' is no ref record", hint="move it out of the store")
                self.report("ref", path, error)

    def _foreign(self) -> Iterator[str]:
        children = self.backend.children
        known = (*KINDS, *LATER_KINDS)
        yield from (f"{FOLDER}/{name}" for name in children(FOLDER) if name not in known)
        for kind in KINDS:
            for segment in children(f"{FOLDER}/{kind}"):
                folder = f"{FOLDER}/{kind}/{segment}"
                if not is_segment(segment) or not _may_be_called(kind, decode_name(segment)):
                    yield folder
                else:
                    yield from (f"{folder}/{name}" for name in children(folder) if not is_record_name(name))

    def _seen_before(
        self, kind: str, name: str, records: list[RefRecord], damaged: Collection[int] = ()
    ) -> None:
        seen = None if self.seen is None else self.seen.seen(kind, name)
        if seen is None or self.seen is None or seen[0] in damaged:
            return  # reported as damaged
        number, told = seen
        same = next((record for record in records if record.number == number), None)
        if same is None and records and records[0].number > number:
            return  # trimmed since
        if same is None or record_mark(same) != told:
            state = "is gone" if same is None else "is another one now"
            error = CorruptionError(
                f"record {number} of '{name}', which was seen here, {state}: it was set back",
                hint=f"copy '{FOLDER}/{kind}/{encode_name(name)}/{record_name(number)}' "
                "from a clone or a backup; "
                f"to continue from what is there, {self.seen.how_to_forget()}",
            )
            self.report("ref", f"{kind}/{name}", error)

    def vanished(self, rows: dict[str, list[RefRecord]]) -> None:
        """Report names that lost all their records, and commits that were pushed and are unheard of."""
        for subject in self.seen.all() if self.seen is not None else ():
            kind, _, name = subject.partition("/")
            if kind in KINDS and name not in self._names(kind):
                self._seen_before(kind, name, [])
        for subject, records in rows.items():
            kind, _, tracked = subject.partition("/")
            if kind == REMOTES:
                self._pushed(tracked, [record for record in records if record.action == PUSHED])

    def _pushed(self, tracked: str, records: list[RefRecord]) -> None:
        """What was pushed from a branch here stood in its row, which keeps all its newest records."""
        remote, _, name = tracked.partition("/")
        try:
            row = list(self.refs.history(HEADS, name))
        except MvcsError:
            return  # reported where the row was read
        if row and row[-1].number != 0:
            return
        known = {record.target for record in row}
        for record in records:
            if record.target is not None and record.target not in known:
                error = NotFoundError(
                    f"commit {short_id(record.target)} was pushed from '{name}' to '{remote}', "
                    "and no record of the branch names it: it was set back",
                    hint=f"'mvcs branch NAME {short_id(record.target)}' keeps it in sight",
                )
                self.report("ref", f"{HEADS}/{name}", error)


def _annotations(kind: str, name: str, records: list[RefRecord]) -> Iterator[MvcsError]:
    """Decode the tags and notes that records carry, and compare them with what the records name."""
    check = _ANNOTATIONS.get(kind)
    for record in records if check is not None else ():
        try:
            if record.target is not None and check is not None:
                check(name, record)
        except MvcsError as error:
            yield error


def _may_be_called(kind: str, name: str) -> bool:
    if kind == NOTES:
        return len(name) == 64 and is_prefix(name)
    try:
        refuse_ambiguous(name)
    except UsageError:
        return False
    return True
