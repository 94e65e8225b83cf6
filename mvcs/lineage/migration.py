"""Alembic's side of the database file: where the migrations lie, and bringing a file to the newest schema."""

from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection

from mvcs.errors import CorruptionError, StorageError
from mvcs.lineage.alembic_logs import warnings_only
from mvcs.lineage.database import APPLICATION_ID, Mode, connect, prefer_wal
from mvcs.lineage.engine import engine_on, transaction

with warnings_only():
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError


def location() -> Path:
    """Return the folder of the migrations: inside an installed package, or at the root of a source tree.

    Raises:
        StorageError: there is neither.
    """
    here = Path(__file__).parent
    for folder in (here / "migrations", here.parents[1] / "migrations"):
        if (folder / "env.py").is_file():
            return folder
    raise StorageError(
        f"the migrations of the lineage index are missing beside '{here}'", hint="install mvcs again"
    )


def configuration(folder: Path) -> Config:
    """Return Alembic's configuration for the migrations in `folder`, without a file of its own."""
    config = Config()
    # Alembic expands percent signs in its options, and a path may hold them.
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def upgrade(path: Path, folder: Path | None = None) -> None:
    """Bring a file to the newest schema by the migrations that are still missing, in one transaction.

    Args:
        path: the database file.
        folder: the migrations; those of this version when None.

    Raises:
        sqlite3.Error: SQLite refused something; the file is as it was.
        CorruptionError: the migrations do not apply to it.
    """
    with closing(connect(path, Mode.CREATE)) as raw:
        prefer_wal(raw)
        # Rebuilding a table drops it, which would take along every row that refers to it.
        raw.execute("PRAGMA foreign_keys=OFF")
        with transaction(engine_on(raw)) as connection:
            migrate(connection, folder)


def migrate(connection: Connection, folder: Path | None = None) -> None:
    """Run every migration that is still missing, in the transaction of `connection`.

    Raises:
        CorruptionError: the migrations do not apply.
    """
    config = configuration(folder or location())
    config.attributes["connection"] = connection
    connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION_ID}")
    try:
        with warnings_only():
            command.upgrade(config, "head")
    except CommandError as error:
        raise CorruptionError(f"the index cannot be brought to the newest schema: {error}") from error
