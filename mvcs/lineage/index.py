"""The index as other rooms see it: a cache that answers quickly or not at all, and never fails a command."""

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from mvcs.errors import (
    ConflictError,
    MvcsError,
    NotFoundError,
    StorageError,
    UnsupportedFormatError,
    UsageError,
)
from mvcs.lineage import plain_sql
from mvcs.lineage.database import (
    Mode,
    State,
    connect,
    identity,
    immediate,
    is_damage,
    is_locked,
    look,
    look_to_write,
    put_aside,
    viewed,
)
from mvcs.lineage.records import (
    CommitRecord,
    NoteRecord,
    RebuildReport,
    RefRecord,
)
from mvcs.lineage.writer import Writer
from mvcs.memory import Budget
from mvcs.objects import ObjectId

T = TypeVar("T")

_REBUILD = "`mvcs lineage rebuild` makes it from the store"
_UNREADABLE = (sqlite3.Error, MvcsError, OSError, ValueError, TypeError)
_UNWRITABLE = (sqlite3.Error, MvcsError, OSError, OverflowError)


def _nobody(_: str) -> None:
    """Hear nothing."""


class Lineage:
    """The lineage index of one repository.

    Except for `rebuild` and `query`, which a person asks for, no method raises for what the file is or who
    holds it: a query then returns nothing, a write returns False, and `problem` says why. What an index
    returns is complete only as far as it was told; `has` tells whether it knows a commit.

    Reading never creates or changes a file, but puts a damaged one aside as `NAME.broken`; writing creates
    the file and brings an older schema up to date. A write waits for another process for at most 0.2 seconds,
    reading not at all. Several threads may share an index, apart from `usable` and `problem`.

    Attributes:
        path: the database file.
        usable: whether the last call found an index it could use. False without a problem: there is none yet.
        problem: what a person should hear about the last call, once; None when all went well.
    """

    def __init__(self, path: Path, tell: Callable[[str], None] = _nobody) -> None:
        """Use the index at `path`; `tell` hears of a damaged file that was put aside, once."""
        self.path = path
        self._tell = tell
        self.usable = False
        self.problem: str | None = None

    @classmethod
    def open(cls, path: Path, tell: Callable[[str], None] = _nobody) -> "Lineage":
        """Look at the index at `path`; never raises for what is there."""
        lineage = cls(path, tell)
        lineage._guarded(None, lambda _: None)
        return lineage

    def record(
        self,
        commits: Iterable[CommitRecord],
        refs: Iterable[RefRecord] = (),
        notes: Iterable[NoteRecord] = (),
    ) -> bool:
        """Write what is new in one transaction and tell whether it was written.

        What is known is replaced by what is given, except that a ref never goes back to an older record. A
        damaged file is put aside first, and the new one holds only what is given here.
        """
        commits, refs, notes = list(commits), list(refs), list(notes)

        def work(writer: Writer) -> None:
            for commit in commits:
                writer.commit(commit)
            writer.refs(refs)
            for note in notes:
                writer.note(note)

        return self._write(work)

    def forget(self, ids: Iterable[ObjectId]) -> bool:
        """Remove commits and their notes, and tell whether it was done."""
        chosen = list(ids)
        return self._write(lambda writer: writer.forget(chosen))

    def rebuild(
        self,
        commits: Iterable[CommitRecord],
        refs: Iterable[RefRecord],
        notes: Iterable[NoteRecord],
        memory: Budget | None = None,
    ) -> RebuildReport:
        """Replace the index by one that holds exactly these records; the old one answers until then.

        Args:
            commits: all of them.
            refs: where each branch and tag stands.
            notes: what was added to commits later.
            memory: what its pages may take; by default what the machine has for it.

        Raises:
            ConflictError: another process keeps the file locked.
            StorageError: the disk refuses.
        """
        from mvcs.lineage.rebuild import rebuild

        report = rebuild(self.path, commits, refs, notes, memory or Budget.of())
        self.usable, self.problem = True, None
        return report

    def has(self, ids: Iterable[ObjectId]) -> set[ObjectId]:
        """Return those of `ids` that are recorded commits."""
        chosen = list(ids)
        return self._guarded(set(), lambda connection: plain_sql.known(connection, chosen))

    def places(self, commit: ObjectId) -> list[list[tuple[str, int]]]:
        """Return of each tensor of a commit, in order, the pack and the depth of each of its chunks."""
        return self._guarded([], lambda connection: plain_sql.places(connection, commit))

    def count(self) -> int:
        """Return how many commits are recorded."""
        return self._guarded(0, plain_sql.count)

    def refs(self) -> list[RefRecord]:
        """Return the newest record of every ref, deleted ones included, by kind and name."""
        return self._guarded([], plain_sql.refs)

    def is_whole(self) -> bool:
        """Tell whether all of the file is as SQLite wrote it; one that is damaged is put aside."""
        return self._guarded(False, plain_sql.check)

    def query(self, sql: str, limit: int) -> tuple[list[str], list[tuple[object, ...]]]:
        """Run one SELECT or WITH statement that can only read; return column names and at most `limit` rows.

        Raises:
            UsageError: the statement is of another kind or wrong, or the limit is below 1.
            NotFoundError: there is no index of this version's schema.
            UnsupportedFormatError: a newer mvcs wrote the index.
            ConflictError: another process has locked it.
            CorruptionError: it is not an index.
            StorageError: it cannot be read.
        """
        if limit < 1:
            raise UsageError(f"a limit of {limit} rows leaves nothing to show")
        try:
            state = look(self.path)
            if state is State.NEWER:
                raise self._newer()
            if state is not State.CURRENT:
                raise NotFoundError(f"there is no lineage index at '{self.path}' yet", hint=_REBUILD)
            return plain_sql.query(self.path, sql, limit)
        except (sqlite3.Error, PermissionError) as error:
            kind = ConflictError if is_locked(error) else StorageError
            raise kind(self._describe(error), hint=_REBUILD) from error

    def _guarded(self, nothing: T, answer: Callable[[sqlite3.Connection], T]) -> T:
        self.usable, self.problem = False, None
        seen = identity(self.path)
        try:
            with viewed(self.path) as (state, connection):
                if connection is None or not self._is_current(state):
                    return nothing
                found = answer(connection)
        except _UNREADABLE as error:
            self._failed(error, seen)
            return nothing
        self.usable = True
        return found

    def _is_current(self, state: State) -> bool:
        if state is State.NEWER:
            raise self._newer()
        if state is State.OLDER:
            self.problem = f"the lineage index '{self.path}' has an older schema; the next commit upgrades it"
        return state is State.CURRENT

    def _write(self, work: Callable[[Writer], None]) -> bool:
        self.usable, self.problem = False, None
        for _ in range(2):
            seen = identity(self.path)
            try:
                self._write_once(work)
            except _UNWRITABLE as error:
                if not self._failed(error, seen):
                    return False
            else:
                self.usable = True
                return True
        return False

    def _write_once(self, work: Callable[[Writer], None]) -> None:
        state = look_to_write(self.path)
        if state is State.NEWER:
            raise self._newer()
        if state is State.MISSING:
            from mvcs.lineage.creation import create_file

            create_file(self.path)
        elif state is State.OLDER:
            from mvcs.lineage.migration import upgrade

            upgrade(self.path)
        with closing(connect(self.path, Mode.WRITE)) as connection, immediate(connection):
            work(Writer(connection))

    def _failed(self, error: Exception, seen: tuple[int, int] | None) -> bool:
        """Say what went wrong, and tell whether a damaged file was put aside."""
        self.problem = self._describe(error)
        if not is_damage(error):
            return False
        broken = put_aside(self.path, seen)
        if broken is not None:
            self.problem += f"; it was put aside as '{broken.name}', and {_REBUILD} again"
            self._tell(self.problem)
        return broken is not None

    def _describe(self, error: Exception) -> str:
        if isinstance(error, UnsupportedFormatError):
            return error.message
        if is_locked(error):
            return f"the lineage index '{self.path}' is locked by another process"
        kind = "damaged" if is_damage(error) else "not usable"
        return f"the lineage index '{self.path}' is {kind}: {error}"

    def _newer(self) -> UnsupportedFormatError:
        return UnsupportedFormatError(
            f"the lineage index '{self.path}' was written by a newer mvcs",
            hint=f"upgrade mvcs, or {_REBUILD} in this version's schema",
        )
