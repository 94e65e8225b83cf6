"""Queries in plain SQL on a connection that can only read: what commands ask, and SQL that a person wrote.

A prefix or a known commit is what a cold command line asks for, and importing SQLAlchemy costs more than all
else it does.
"""

import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from mvcs.errors import UsageError
from mvcs.lineage.database import Mode, connect
from mvcs.lineage.records import RefRecord
from mvcs.objects import ObjectId, as_id, to_hex

Rows = list[tuple[object, ...]]

_QUERY = re.compile(r"\s*(select|with)\b", re.IGNORECASE)
_ALLOWED = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_REFUSED = frozenset(
    {None, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH}
)
_PLACES = """
SELECT contents.position, packs.name, encodings.depth FROM contents
LEFT JOIN encodings ON encodings.tensor_number = contents.tensor_number
LEFT JOIN packs ON packs.number = encodings.pack_number
WHERE contents.commit_number = (SELECT number FROM commits WHERE id = ?)
ORDER BY contents.position, encodings.position
"""
_STEPS_BETWEEN_SIGNALS = 100_000


def check(connection: sqlite3.Connection) -> bool:
    """Read all of the file.

    Raises:
        sqlite3.Error: it cannot be read.
        ValueError: what its pages say does not fit together.
    """
    found = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != ("ok",):
        raise ValueError(f"its pages do not fit together: {found[0]}")
    return True


def known(connection: sqlite3.Connection, ids: Iterable[ObjectId]) -> set[ObjectId]:
    """Return those of `ids` that are recorded commits.

    Raises:
        sqlite3.Error: the file cannot be read.
    """
    wanted = "SELECT 1 FROM commits WHERE id = ?"
    return {one for one in ids if connection.execute(wanted, (to_hex(one),)).fetchone()}


def places(connection: sqlite3.Connection, commit: ObjectId) -> list[list[tuple[str, int]]]:
    """Return of each tensor of a commit, in order, the pack and the depth of its chunks; nothing if unknown.

    Raises:
        sqlite3.Error: the file cannot be read.
    """
    found: list[list[tuple[str, int]]] = []
    for position, pack, depth in connection.execute(_PLACES, (to_hex(commit),)):
        if position == len(found):
            found.append([])
        if pack is not None:
            found[-1].append((pack, depth))
    return found


def count(connection: sqlite3.Connection) -> int:
    """Return how many commits are recorded.

    Raises:
        sqlite3.Error: the file cannot be read.
    """
    return int(connection.execute("SELECT count(*) FROM commits").fetchone()[0])


def refs(connection: sqlite3.Connection) -> list[RefRecord]:
    """Return the newest record of every ref, by kind and name.

    Raises:
        sqlite3.Error: the file cannot be read.
        ValueError: it holds something that is not an id.
    """
    wanted = "SELECT kind, name, target, number FROM refs ORDER BY kind, name"
    return [
        RefRecord(kind, name, None if target is None else as_id(bytes.fromhex(target)), number)
        for kind, name, target, number in connection.execute(wanted)
    ]


def query(path: Path, sql: str, limit: int) -> tuple[list[str], Rows]:
    """Run one SELECT or WITH statement and return its column names and at most `limit` rows.

    Raises:
        UsageError: it is another kind of statement, or SQLite refuses it.
        sqlite3.Error: the file cannot be read.
        KeyboardInterrupt: the user pressed Control-C while it ran.
    """
    if _QUERY.match(sql) is None:
        raise UsageError(
            "a query begins with SELECT or WITH", hint="`SELECT * FROM commits` shows what there is"
        )
    with closing(connect(path, Mode.READ)) as connection:
        connection.set_authorizer(_authorize)
        connection.set_progress_handler(_admit_signals, _STEPS_BETWEEN_SIGNALS)
        try:
            cursor = connection.execute(sql)
            columns = [column[0] for column in cursor.description]
            return columns, cursor.fetchmany(limit)
        except (sqlite3.Error, sqlite3.Warning) as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code == sqlite3.SQLITE_INTERRUPT:
                raise KeyboardInterrupt from error
            if code not in _REFUSED:
                raise
            raise UsageError(f"the query failed: {error}") from error


def _admit_signals() -> int:
    # Python handles Control-C between its own instructions only: this must be a function in Python.
    return 0


def _authorize(action: int, _first: str | None, name: str | None, *_rest: str | None) -> int:
    harmless = action in _ALLOWED and name != "load_extension"
    return sqlite3.SQLITE_OK if harmless else sqlite3.SQLITE_DENY
