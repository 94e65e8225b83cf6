"""SQLAlchemy's side of the file, for migrations: transactions, and its errors as SQLite's own."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from mvcs.errors import CorruptionError


def engine_on(connection: sqlite3.Connection) -> Engine:
    """Return an engine whose only connection is `connection`."""
    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)

    def start(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "begin", start)
    return engine


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
