"""Several processes at once: nobody waits for long, nothing breaks, a kill leaves what was acknowledged."""

import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest

from mvcs.lineage import Lineage
from mvcs.lineage.database import WRITE_WAIT
from tests.lineage.histories import head, run
from tests.lineage.recorded import tensors

PREAMBLE = """
import sys
from pathlib import Path
from mvcs.lineage import Lineage
from tests.lineage.histories import run
lineage = Lineage.open(Path(sys.argv[1]))
"""
RECORD = f"""{PREAMBLE}
for record in run(int(sys.argv[2]), int(sys.argv[3])):
    while not lineage.record([record]):
        assert "is locked" in lineage.problem, lineage.problem
    print(record.id.hex(), flush=True)
"""
HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2].split(";"):
    connection.execute(statement)
print("held", flush=True)
sys.stdin.read()
"""
KILLED = """
import os, signal, sqlite3, sys
from mvcs.lineage.creation import create
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode=DELETE")
connection.execute("PRAGMA cache_size=1")  # what is changed goes to the disk before it is committed
connection.execute("BEGIN IMMEDIATE")
if sys.argv[2] == "creation":
    create(connection)
names = ((number, "x" * 99 + str(number)) for number in range(99, 999))
connection.executemany("INSERT INTO packs VALUES (?, ?)", names)
os.kill(os.getpid(), signal.SIGKILL)
"""
LAZY = f"""{PREAMBLE}
def loaded():
    return sorted({{"sqlalchemy", "alembic"}} & set(sys.modules))
[first, second] = run(2)
print(lineage.record([first], notes=[]), lineage.record([second]), loaded())
print(len(lineage.has([first.id, second.id])), loaded())
print(lineage.forget([first.id]), lineage.rebuild([first], [], []).commits, loaded())
print(lineage.count(), loaded())
"""


def start(code, *arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@contextmanager
def held(path, statements):
    with start(HOLD, path, statements) as holder:
        assert holder.stdout.readline() == "held\n"
        yield
        assert holder.poll() is None
        holder.stdin.close()


def sound(path):
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def test_two_processes_create_and_write_one_index_at_once(path):
    with start(RECORD, path, 40, 0) as first, start(RECORD, path, 40, 1000) as second:
        ids = [bytes.fromhex(line) for writer in (first, second) for line in writer.stdout.read().split()]
        assert (first.wait(), second.wait()) == (0, 0)
    lineage = Lineage.open(path)
    assert len(set(ids)) == 80
    assert lineage.has(ids) == set(ids)
    history = [*run(40), *run(40, 1000)]
    assert [tuple(tensors(lineage, record.id)) for record in history] == [
        record.tensors for record in history
    ]
    sound(path)


def test_threads_share_one_index(lineage, path):
    history = list(run(40))
    lineage.record(history[:1])

    def write(record):
        while not lineage.record([record]):
            pass
        # On a busy machine a read gives up as a write does, and finds nothing.
        while not (found := tensors(lineage, record.id)):
            pass
        return found

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(write, history)) == [list(record.tensors) for record in history]
    sound(path)


def test_a_write_waits_a_fifth_of_a_second_at_most():
    assert 2 * WRITE_WAIT <= 0.2


@pytest.mark.parametrize(
    ("statements", "readable"),
    [
        ("BEGIN IMMEDIATE", True),
        ("BEGIN EXCLUSIVE", True),
        ("PRAGMA locking_mode=EXCLUSIVE;BEGIN EXCLUSIVE", False),
        ("PRAGMA journal_mode=DELETE;BEGIN EXCLUSIVE", False),
        ("PRAGMA journal_mode=DELETE;BEGIN;SELECT * FROM commits", True),
    ],
)
def test_a_locked_index_delays_nobody(lineage, path, statements, readable):
    first, second = run(2)
    lineage.record([first], [head(first.id)])
    with held(path, statements):
        opened = Lineage.open(path)
        assert opened.usable is readable
        assert opened.has([first.id]) == ({first.id} if readable else set())
        assert opened.record([second], [head(second.id, 2)]) is False
        assert opened.problem == f"the lineage index '{path}' is locked by another process"
        assert opened.forget([first.id]) is False
        assert opened.refs() == ([head(first.id)] if readable else [])
    assert opened.record([second], [head(second.id, 2)])
    assert opened.problem is None
    assert opened.refs() == [head(second.id, 2)]
    assert not path.with_name("lineage.sqlite.broken").exists()


@pytest.mark.parametrize("acknowledged", [0, 1, 2, 5, 9])
def test_a_kill_leaves_every_acknowledged_commit(path, acknowledged):
    with start(RECORD, path, 1000, 0) as writer:
        ids = [bytes.fromhex(writer.stdout.readline()) for _ in range(acknowledged)]
        writer.kill()
        ids += [bytes.fromhex(line) for line in writer.stdout.read().split()]
    lineage = Lineage.open(path)
    assert lineage.problem is None
    assert lineage.has(ids) == set(ids)
    history = list(run(len(ids) + 1))
    assert lineage.record(history)
    assert [tensors(lineage, record.id) for record in history] == [list(record.tensors) for record in history]
    sound(path)


@pytest.mark.parametrize("during", ["creation", "write"])
def test_a_kill_amid_a_transaction_without_wal_does_not_outlast_the_next_write(path, lineage, during):
    story = list(run(3))
    if during == "write":
        assert lineage.record(story[:1])
    with start(KILLED, path, during) as writer:
        assert writer.wait() == -signal.SIGKILL
    assert path.with_name("lineage.sqlite-journal").stat().st_size
    assert lineage.record(story[1:]), lineage.problem
    assert lineage.has([one.id for one in story]) == {one.id for one in story[during == "creation" :]}
    assert not path.with_name("lineage.sqlite.broken").exists()
    sound(path)


def test_what_a_commit_needs_is_made_read_and_written_without_sqlalchemy(path):
    with start(LAZY, path) as writer:
        lines = writer.stdout.read().splitlines()
    assert lines == ["True True []", "2 []", "True 1 []", "1 []"]
