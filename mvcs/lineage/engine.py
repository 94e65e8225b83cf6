"""SQLAlchemy's side of the database file: engines, transactions, and its errors as SQLite's own."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool, Pool, StaticPool

from mvcs.errors import CorruptionError
from mvcs.lineage.database import Mode, connect


class Engines:
    """A reading and a writing engine of one file.

    Connections live as long as a transaction: nothing is held between calls, across threads or across a fork.
    """

    def __init__(self, path: Path) -> None:
        self._reader = _engine(lambda: connect(path, Mode.READ), NullPool, "BEGIN")
        self._writer = _engine(lambda: connect(path, Mode.WRITE), NullPool, "BEGIN IMMEDIATE")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that sees one state of the file and never waits.

        Raises:
            sqlite3.Error: SQLite refused something.
            CorruptionError: the file does not hold what the tables say.
        """
        with transaction(self._reader) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that holds the write lock from its beginning.

        Raises:
            sqlite3.Error: SQLite refused something.
            CorruptionError: the file does not hold what the tables say.
        """
        with transaction(self._writer) as connection:
            yield connection


def engine_on(connection: sqlite3.Connection) -> Engine:
    """Return an engine whose only connection is `connection`."""
    return _engine(lambda: connection, StaticPool, "BEGIN IMMEDIATE")


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """Run the body in one transaction of `engine`.

    Raises:
        sqlite3.Error: SQLite refused something.
        CorruptionError: SQLAlchemy could not make sense of what SQLite returned.
    """
    try:
        with engine.begin() as connection:
            yield connection
    except DBAPIError as error:
        if isinstance(error.orig, sqlite3.Error):
            raise error.orig from error
        raise CorruptionError(f"the index does not hold what its tables say: {error}") from error
    except SQLAlchemyError as error:
        raise CorruptionError(f"the index does not hold what its tables say: {error}") from error


def _engine(creator: Callable[[], sqlite3.Connection], pool: type[Pool], begin: str) -> Engine:
    engine = create_engine("sqlite://", creator=creator, poolclass=pool)

    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    event.listen(engine, "begin", start)
    return engine
