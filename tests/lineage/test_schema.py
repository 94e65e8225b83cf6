"""Tables and migrations agree, and an older file is brought up to date with its rows."""

import re
import shutil
import sqlite3
from contextlib import closing

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from mvcs.errors import CorruptionError
from mvcs.lineage import Lineage
from mvcs.lineage.creation import create_file
from mvcs.lineage.database import APPLICATION_ID, HEAD, State, look
from mvcs.lineage.engine import engine_on, transaction
from mvcs.lineage.migration import configuration, location, upgrade
from mvcs.lineage.schema import metadata
from tests.lineage.histories import answers, run
from tests.lineage.recorded import metrics

NEXT = '''"""A column that a later version might add."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    with op.batch_alter_table("commits", recreate="always") as batch:
        batch.add_column(sa.Column("host", sa.Text(), nullable=False, server_default="unknown"))


def downgrade() -> None:
    with op.batch_alter_table("commits") as batch:
        batch.drop_column("host")
'''


@pytest.fixture
def later(tmp_path):
    """The migrations of a version that adds a column by rebuilding a table."""
    folder = shutil.copytree(
        location(), tmp_path / "100% later", ignore=shutil.ignore_patterns("__pycache__")
    )
    (folder / "versions" / "0004_host.py").write_text(NEXT)
    return folder


def statements(connection):
    """The words that made each table and index; the order of columns and quotes are nobody's business."""
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE '%alembic%'")
    return {name: sorted(filter(None, re.split(r'[\s(),"]+', sql or ""))) for name, sql in rows}


def test_the_newest_migration_is_the_one_the_code_expects():
    assert ScriptDirectory.from_config(configuration(location())).get_heads() == [HEAD]


def test_models_and_migrations_agree(path):
    upgrade(path)
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"render_as_batch": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_models_and_migrations_agree_to_the_letter(path):
    """Also in what Alembic does not compare: primary keys, cascades, tables without row ids."""
    upgrade(path)
    with (
        closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh,
        closing(sqlite3.connect(path)) as file,
    ):
        with transaction(engine_on(fresh)) as connection:
            metadata.create_all(connection)
        assert statements(file) == statements(fresh)


def test_a_new_file_is_the_one_that_the_migrations_make(path, tmp_path):
    """What Alembic keeps in it as well."""
    migrated = tmp_path / "migrated.sqlite"
    upgrade(migrated)
    create_file(path)
    create_file(path)  # as where another process was faster
    with closing(sqlite3.connect(path)) as new, closing(sqlite3.connect(migrated)) as old:
        assert statements(new) == statements(old)
        for asked in ("PRAGMA table_info(alembic_version)", "SELECT * FROM alembic_version"):
            assert new.execute(asked).fetchall() == old.execute(asked).fetchall()
    assert look(path) is State.CURRENT


def test_a_new_file_is_marked_and_logs_ahead(lineage, path):
    lineage.record([])
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def test_a_disk_without_write_ahead_logging_is_accepted(lineage, path):
    history = list(run(3))
    lineage.record(history[:1])
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
    assert lineage.record(history)
    lineage.rebuild(history, [], [])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    assert lineage.count() == 3


def test_a_later_version_upgrades_an_older_file_and_keeps_its_rows(lineage, path, later):
    history = list(run(5))
    ids = [record.id for record in history]
    lineage.record(history)
    before = answers(lineage, ids)
    upgrade(path, later)
    assert look(path) is State.NEWER
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT host, count(*) FROM commits").fetchall() == [("unknown", 5)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.execute("UPDATE alembic_version SET version_num = '0003'")
        connection.commit()
    assert answers(lineage, ids)[1:] == before[1:]


def test_an_upgrade_that_fails_leaves_the_older_file(lineage, path, later):
    history = list(run(5))
    lineage.record(history)
    revision = later / "versions" / "0004_host.py"
    revision.write_text(
        NEXT.replace("batch.add_column(sa", 'op.drop_table("metrics")\n        op.execute("oops")  # (sa')
    )
    with pytest.raises(sqlite3.OperationalError, match="oops"):
        upgrade(path, later)
    assert look(path) is State.CURRENT
    assert len(metrics(lineage, "val_loss")) == 5


def test_reading_leaves_an_older_file_and_the_next_write_upgrades_it(lineage, path, monkeypatch, later):
    history = list(run(5))
    lineage.record(history[:4])
    monkeypatch.setattr("mvcs.lineage.database.HEAD", "0004")
    monkeypatch.setattr("mvcs.lineage.migration.location", lambda: later)
    assert lineage.count() == 0
    assert not lineage.usable
    assert "has an older schema" in lineage.problem
    assert look(path) is State.OLDER
    assert lineage.record(history[4:])
    assert look(path) is State.CURRENT
    assert lineage.count() == 5


def test_migrations_that_do_not_know_the_file_are_refused(lineage, path, later):
    lineage.record([])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0777'")
    with pytest.raises(CorruptionError, match="cannot be brought to the newest schema"):
        upgrade(path, later)


def test_going_back_leaves_nothing(path):
    upgrade(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        with transaction(engine_on(raw)) as connection:
            config = configuration(location())
            config.attributes["connection"] = connection
            command.downgrade(config, "base")
        assert raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall() == [
            ("alembic_version",)
        ]


def test_a_new_migration_starts_from_the_template(later):
    command.revision(configuration(later), "Something new", rev_id="0005", head="0004")
    [written] = (later / "versions").glob("0005*.py")
    text = written.read_text()
    assert text.startswith('"""Something new."""\n')
    assert 'down_revision = "0004"' in text.replace("'", '"')


PLANS = {
    "SELECT * FROM commits WHERE id >= 'ab' AND id < 'abg'": "uq_commits_id|sqlite_autoindex_commits_1",
    "SELECT child FROM parents WHERE parent = 'ab'": "ix_parents_parent",
    "SELECT * FROM contents WHERE commit_number = 3": "PRIMARY KEY",
    "SELECT * FROM contents WHERE tensor_number = 3": "ix_contents_tensor_number",
    "SELECT * FROM encodings WHERE tensor_number = 3": "PRIMARY KEY",
    "SELECT * FROM metrics WHERE name = 'loss' ORDER BY value": "ix_metrics_name",
    "SELECT number FROM tensors WHERE (fingerprint) IN (VALUES ('a'), ('b'))": "sqlite_autoindex_tensors_1",
    "SELECT * FROM leaves WHERE (path, dtype) IN (VALUES (1, 2))": "sqlite_autoindex_leaves_1",
}


@pytest.mark.parametrize("sql", PLANS)
def test_what_is_asked_often_is_answered_from_an_index(path, sql):
    Lineage(path).record([])
    with closing(sqlite3.connect(path)) as connection:
        plan = " ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}"))
    assert any(index in plan for index in PLANS[sql].split("|")), plan
