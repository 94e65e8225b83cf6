"""SQL that a person writes can read and do nothing else."""

import signal
import sqlite3
from contextlib import closing

import pytest

from mvcs.errors import ConflictError, CorruptionError, NotFoundError, UnsupportedFormatError, UsageError
from tests.lineage.histories import run


@pytest.fixture
def written(lineage):
    lineage.record(run(5))
    return lineage


def test_a_query_returns_columns_and_rows_up_to_the_limit(written):
    columns, rows = written.query("SELECT step, exactness FROM commits ORDER BY step", 3)
    assert columns == ["step", "exactness"]
    assert rows == [(0, "bounded"), (1, "bounded"), (2, "bounded")]


def test_a_query_may_recurse_and_join(written):
    sql = """
        with recursive line(id) as (
            select id from commits where step = 3
            union select parent from parents join line on child = line.id
        ) select count(*) as commits, max(value) as worst
          from line join metrics on commit_id = line.id where name = 'val_loss';
    """
    assert written.query(sql, 10) == (["commits", "worst"], [(4, 1.0)])


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM commits",
        "WITH gone AS (SELECT 1) DELETE FROM commits",
        "WITH x AS (SELECT 1) INSERT INTO packs VALUES (1, 'a')",
        "SELECT 1; DELETE FROM commits",
        "PRAGMA journal_mode=DELETE",
        "SELECT * FROM pragma_query_only(0)",
        "ATTACH 'other.sqlite' AS other",
        "VACUUM INTO 'copy.sqlite'",
        "EXPLAIN SELECT 1",
        "SELECT load_extension('evil')",
        "CREATE TABLE t (a)",
        "SELECT nothing FROM commits",
        "SELECT * FROM commits WHERE step = ?",
        "SELECT",
        "",
        "-- SELECT 1",
        "\0SELECT 1",
        "SELECT 1\0; DELETE FROM commits",
    ],
)
def test_anything_else_is_a_usage_error(written, sql):
    with pytest.raises(UsageError, match=r"a query begins with SELECT or WITH|the query failed: "):
        written.query(sql, 10)
    assert written.count() == 5


def test_a_limit_leaves_something(written):
    with pytest.raises(UsageError, match="a limit of 0 rows"):
        written.query("SELECT 1", 0)


def test_a_query_without_an_index_says_how_to_make_one(lineage):
    with pytest.raises(NotFoundError, match="there is no lineage index") as caught:
        lineage.query("SELECT 1", 1)
    assert "mvcs lineage rebuild" in caught.value.hint


def test_a_query_of_a_newer_index_is_refused(written, path):
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE alembic_version SET version_num = '0999'")
    with pytest.raises(UnsupportedFormatError, match="written by a newer mvcs"):
        written.query("SELECT 1", 1)


def test_a_query_of_a_locked_index_is_a_conflict(written, path):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ConflictError, match="is locked by another process"):
            written.query("SELECT 1", 1)


def test_a_query_of_something_else_is_corruption(lineage, path):
    path.mkdir()
    with pytest.raises(CorruptionError, match="is not a file"):
        lineage.query("SELECT 1", 1)


def test_a_query_that_never_ends_can_be_interrupted(written):
    def interrupt(_number, _frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            written.query(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n", 1
            )
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
