"""Rebuilding the index: written to a private database, then copied over the old one in one transaction.

A rename would be simpler and wrong: the write-ahead log of the old file would be replayed into the new one.
"""

import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from mvcs.errors import ConflictError, MvcsError, StorageError
from mvcs.lineage.creation import create
from mvcs.lineage.database import (
    Connection,
    Mode,
    State,
    connect,
    harden,
    identity,
    immediate,
    is_damage,
    is_locked,
    look,
    prefer_wal,
    put_aside,
)
from mvcs.lineage.records import CommitRecord, NoteRecord, RebuildReport, RefRecord
from mvcs.lineage.writer import Writer
from mvcs.memory import Budget, Use

PATIENCE = 2.0  # seconds; somebody asked for this rebuild, so it may wait a little


def rebuild(
    path: Path,
    commits: Iterable[CommitRecord],
    refs: Iterable[RefRecord],
    notes: Iterable[NoteRecord],
    memory: Budget,
) -> RebuildReport:
    """Replace the index at `path` by one that holds exactly these records.

    Raises:
        ConflictError: another process keeps the old one locked.
        StorageError: the disk refuses.
    """
    pages = memory.hold(Use.LINEAGE)
    try:
        # SQLite keeps a database without a name in an unlinked temporary file: a kill leaves nothing behind.
        with closing(sqlite3.connect("", isolation_level=None, factory=Connection)) as fresh:
            harden(fresh)
            fresh.execute(f"PRAGMA cache_size=-{pages.take_rest() >> 10}")
            with immediate(fresh):
                create(fresh)
                report = _fill(fresh, commits, refs, notes)
            _replace(path, fresh)
            return report
    except sqlite3.Error as error:
        raise _refusal(path, error) from error


def _fill(
    connection: sqlite3.Connection,
    commits: Iterable[CommitRecord],
    refs: Iterable[RefRecord],
    notes: Iterable[NoteRecord],
) -> RebuildReport:
    writer = Writer(connection)
    for commit in commits:
        writer.commit(commit)
    writer.refs(refs)
    for note in notes:
        writer.note(note)
    [(written, tensors)] = connection.execute(
        "SELECT (SELECT count(*) FROM commits), (SELECT count(*) FROM tensors)"
    )
    return RebuildReport(written, tensors)


def _replace(path: Path, fresh: sqlite3.Connection) -> None:
    seen = identity(path)
    try:
        unfit = look(path) is State.NEWER
    except (sqlite3.Error, MvcsError, OSError) as error:
        unfit = is_damage(error)
    if unfit:
        put_aside(path, seen)
    until = time.monotonic() + PATIENCE

    def wait(status: int, _remaining: int, _total: int) -> None:
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() > until:
            raise _locked(path)

    with closing(connect(path, Mode.CREATE)) as target:
        prefer_wal(target)
        fresh.backup(target, progress=wait, sleep=0.01)


def _refusal(path: Path, error: sqlite3.Error) -> MvcsError:
    if is_locked(error):
        return _locked(path)
    return StorageError(f"the lineage index '{path}' could not be written: {error}")


def _locked(path: Path) -> ConflictError:
    return ConflictError(
        f"the lineage index '{path}' is locked by another process",
        hint="run the command again when it is done",
    )
