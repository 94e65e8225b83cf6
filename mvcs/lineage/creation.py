"""A new database: all tables at once, just as the migrations would have left them.

Tests compare both ways to the letter. Alembic's import takes longer than a commit; older files alone need it.
"""

from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection

from mvcs.lineage.database import APPLICATION_ID, HEAD, Mode, connect, is_blank, prefer_wal
from mvcs.lineage.engine import engine_on, transaction
from mvcs.lineage.schema import metadata

# As Alembic makes and fills it.
_VERSION = (
    "CREATE TABLE alembic_version"
    " (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)


def create_file(path: Path) -> None:
    """Create the file in the newest schema, in one transaction; one that another process made stays.

    Raises:
        sqlite3.Error: SQLite refused something; there are no tables then.
    """
    with closing(connect(path, Mode.CREATE)) as raw:
        prefer_wal(raw)
        with transaction(engine_on(raw)) as connection:
            if is_blank(raw):
                create(connection)


def create(connection: Connection) -> None:
    """Make the tables of the newest schema in an empty database."""
    connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION_ID}")
    metadata.create_all(connection, checkfirst=False)
    connection.exec_driver_sql(_VERSION)
    connection.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (HEAD,))
