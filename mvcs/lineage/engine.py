"""SQLAlchemy's side of the file, for reports and migrations: transactions, and its errors as SQLite's own."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool, Pool, StaticPool

from mvcs.errors import CorruptionError
from mvcs.lineage.database import Mode, connect


def reader(path: Path) -> Engine:
    """Return an engine that reads the file, never waits, and sees one state of it in each transaction.

    Connections live as long as a transaction: nothing is held between calls, across threads or across a fork.
    """
    return _engine(lambda: connect(path, Mode.READ), NullPool, "BEGIN")


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
