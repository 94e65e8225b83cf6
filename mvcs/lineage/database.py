"""The database file: how it is opened, what state it is in, and how a damaged one is put aside.

This module uses the standard library alone, so that looking at an index costs a millisecond.
"""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from enum import Enum, StrEnum
from pathlib import Path
from stat import S_ISREG
from threading import RLock
from typing import Any

from mvcs.errors import CorruptionError

APPLICATION_ID = 0x6D766373
HEAD = "0003"
# A write waits for at most two locks, one to begin and (without WAL) one to end: 0.2 seconds in all.
WRITE_WAIT = 0.1
BESIDE = ("-wal", "-shm", "-journal")

_REVISION = re.compile(r"[0-9]{4}")
_DAMAGE = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_LOCKED = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


class Mode(StrEnum):
    """How a connection may use the file, as SQLite's URI parameter `mode` spells it."""

    READ = "ro"
    WRITE = "rw"
    CREATE = "rwc"


class State(Enum):
    """What the file is, as far as a reader cares."""

    MISSING = "missing"
    OLDER = "older"
    CURRENT = "current"
    NEWER = "newer"


# Held by the thread that has connections: a fork waits for it. SQLite has locks of its own, which would stay
# locked in a child whose parent had another thread inside, and which nobody can free there.
_IN_USE = RLock()
os.register_at_fork(before=_IN_USE.acquire, after_in_parent=_IN_USE.release, after_in_child=_IN_USE.release)


class Connection(sqlite3.Connection):
    """A connection that no fork happens beside, from when it is opened until it is closed."""

    _is_open = False

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401  # sqlite3's own
        _IN_USE.acquire()
        try:
            super().__init__(*args, **options)
        except BaseException:
            _IN_USE.release()
            raise
        self._is_open = True

    def close(self) -> None:
        """Close it; a second time does nothing."""
        super().close()
        if self._is_open:
            self._is_open = False
            _IN_USE.release()


def connect(path: Path, mode: Mode) -> sqlite3.Connection:
    """Open the file; transactions begin only where a caller says BEGIN.

    Raises:
        sqlite3.Error: it cannot be opened.
    """
    wait = 0.0 if mode is Mode.READ else WRITE_WAIT
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=wait, isolation_level=None, factory=Connection)
    try:
        harden(connection)
        connection.execute("PRAGMA query_only=ON" if mode is Mode.READ else "PRAGMA synchronous=NORMAL")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def harden(connection: sqlite3.Connection) -> None:
    """Trust neither the schema nor the pages of the file, and keep its references whole."""
    for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


@contextmanager
def immediate(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the body in one transaction that holds the write lock from its beginning.

    Raises:
        sqlite3.Error: SQLite refused something; nothing was written.
    """
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


def look(path: Path) -> State:
    """Tell what the file is without changing it; an empty file counts as missing.

    Raises:
        CorruptionError: it is not an index of mvcs.
        sqlite3.Error: it cannot be read, or another process has locked it.
        OSError: the folder cannot be searched.
    """
    with viewed(path) as (state, _):
        return state


def look_to_write(path: Path) -> State:
    """Tell what the file is, as `look` does, after what a killed process left half written is taken back.

    A connection that only reads refuses such a file, and would for ever; one that may write takes it back.

    Raises:
        CorruptionError, sqlite3.Error, OSError: as `look`.
    """
    try:
        return look(path)
    except sqlite3.Error as error:
        if _primary(error) != sqlite3.SQLITE_READONLY:
            raise
    with closing(connect(path, Mode.WRITE)) as connection:
        is_blank(connection)
    return look(path)


@contextmanager
def viewed(path: Path) -> Iterator[tuple[State, sqlite3.Connection | None]]:
    """Give what the file is, and one state of it to be read in the body; None where there is no file.

    Raises:
        CorruptionError: it is not an index of mvcs.
        sqlite3.Error: it cannot be read, or another process has locked it.
        OSError: the folder cannot be searched.
    """
    if not _is_there(path):
        yield State.MISSING, None
        return
    with closing(connect(path, Mode.READ)) as connection:
        connection.execute("BEGIN")
        yield _state(path, connection), connection


def _is_there(path: Path) -> bool:
    try:
        regular = S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False
    # SQLite would wait for the other end of a pipe, in the place of what it keeps beside the file as well.
    if not regular or not all(map(_is_usual, (path.with_name(path.name + suffix) for suffix in BESIDE))):
        raise CorruptionError(f"'{path}', or what is kept beside it, is not a file")
    return True


def _state(path: Path, connection: sqlite3.Connection) -> State:
    if is_blank(connection):
        return State.MISSING
    if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
        raise CorruptionError(f"'{path}' is a database of another application")
    return _state_of(connection.execute("SELECT version_num FROM alembic_version LIMIT 2").fetchall())


def is_blank(connection: sqlite3.Connection) -> bool:
    """Tell whether a database has no tables yet."""
    found: tuple[int] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return found == (0,)


def _is_usual(path: Path) -> bool:
    """Tell whether a file is one or is not there."""
    with suppress(FileNotFoundError):
        return S_ISREG(path.stat().st_mode)
    return True


def _state_of(versions: list[tuple[object]]) -> State:
    revision = versions[0][0] if len(versions) == 1 else None
    if not isinstance(revision, str) or _REVISION.fullmatch(revision) is None:
        raise CorruptionError(f"the index names no schema revision but {versions!r}")
    if revision == HEAD:
        return State.CURRENT
    return State.OLDER if revision < HEAD else State.NEWER


def prefer_wal(connection: sqlite3.Connection) -> None:
    """Ask for write-ahead logging, which lasts for the file; a disk that cannot do it keeps its journal."""
    with suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA journal_mode=WAL")


def is_damage(error: Exception) -> bool:
    """Tell whether `error` means that the file's bytes or schema are wrong, not that it is busy."""
    if isinstance(error, sqlite3.Error):
        return _primary(error) in _DAMAGE
    return isinstance(error, CorruptionError | ValueError | TypeError)


def is_locked(error: Exception) -> bool:
    """Tell whether another process holds the file."""
    return isinstance(error, sqlite3.Error) and _primary(error) in _LOCKED


def _primary(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_INTERNAL) & 0xFF


def identity(path: Path) -> tuple[int, int] | None:
    """Return what tells the file from a later one of the same name; None when there is none."""
    with suppress(OSError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return None


def put_aside(path: Path, seen: tuple[int, int] | None) -> Path | None:
    """Rename the file and its journals to `*.broken*`, replacing older ones.

    Args:
        path: the database file.
        seen: its `identity` when it was found damaged; another process may have replaced it since.

    Returns:
        The new name, or None when the file was left where it is.
    """
    broken = path.with_name(f"{path.name}.broken")
    if identity(path) != seen:
        return None
    with suppress(OSError):
        path.replace(broken)
        for suffix in BESIDE:
            # A journal left behind would be replayed into the next database of this name.
            with suppress(FileNotFoundError):
                path.with_name(path.name + suffix).replace(path.with_name(broken.name + suffix))
        return broken
    return None
