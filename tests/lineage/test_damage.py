"""A file that cannot be used is reported once, put aside when it is damaged, and never fails a call."""

import os
import random
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from mvcs.lineage import Lineage
from tests.lineage.histories import answers, head, noted, run
from tests.lineage.recorded import tensors

WRITTEN = tuple(run(30))
IDS = [record.id for record in WRITTEN]


@pytest.fixture
def broken(path):
    return path.with_name("lineage.sqlite.broken")


@pytest.fixture
def written(lineage, path):
    assert lineage.record(WRITTEN, [head(IDS[-1])])
    return path


def other_database(path):
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE photographs (name TEXT)")


def without_revision(path):
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("DELETE FROM alembic_version")


def without_a_table(path):
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("ALTER TABLE commits RENAME TO commit_s")


def with_a_page_of_noise(path):
    noise, content = random.Random(0), bytearray(path.read_bytes())
    for start in range(4096, len(content), 4096):
        content[start : start + 512] = noise.randbytes(512)
    path.write_bytes(content)


def cut_short(path):
    os.truncate(path, 4096)


def a_folder(path):
    path.unlink()
    path.mkdir()


def a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def text(path):
    path.write_text("git for model checkpoints\n" * 100)


DAMAGE = [
    other_database,
    without_revision,
    without_a_table,
    with_a_page_of_noise,
    cut_short,
    a_folder,
    a_pipe,
    text,
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_reading_a_damaged_file_puts_it_aside_and_says_so_once(written, broken, damage):
    damage(written)
    lineage = Lineage.open(written)
    problems = {lineage.problem}
    for ask in (lambda: lineage.has(IDS), lineage.count, lineage.refs):
        ask()
        problems.add(lineage.problem)
    [problem] = problems - {None}
    assert "is damaged" in problem
    assert "put aside as 'lineage.sqlite.broken'" in problem
    assert not lineage.usable
    assert broken.exists()
    assert not written.exists()


@pytest.mark.parametrize("damage", DAMAGE)
def test_writing_over_a_damaged_file_starts_a_new_one(written, broken, damage):
    damage(written)
    lineage = Lineage(written)
    assert lineage.record(WRITTEN)
    assert lineage.usable
    assert lineage.has(IDS) == set(IDS)
    assert tensors(lineage, IDS[0]) == list(WRITTEN[0].tensors)
    assert broken.exists()


def test_a_file_that_takes_no_commits_is_damaged(written, broken):
    with closing(sqlite3.connect(written)) as other, other:
        other.execute("DELETE FROM commits")
        other.execute("CREATE TRIGGER t BEFORE INSERT ON commits BEGIN SELECT RAISE(IGNORE); END")
    lineage = Lineage(written)
    assert lineage.record(WRITTEN)
    assert "does not hold the commit that was just written" in lineage.problem
    assert lineage.has(IDS) == set(IDS)
    assert broken.exists()


def test_a_second_damaged_file_replaces_the_first(written, broken):
    for content in (b"first" * 100, b"second" * 100):
        written.write_bytes(content)
        Lineage.open(written)
        assert broken.read_bytes() == content


def test_an_empty_file_is_an_index_that_was_not_written_yet(path):
    path.touch()
    lineage = Lineage.open(path)
    assert (lineage.usable, lineage.problem) == (False, None)
    assert lineage.record(WRITTEN)


@pytest.mark.parametrize("length", range(0, 4096 * 4, 1024))
def test_a_file_cut_anywhere_never_fails_a_call(written, length):
    os.truncate(written, length)
    lineage = Lineage.open(written)
    answers(lineage, IDS[:2])
    assert lineage.record(WRITTEN[:2], notes=[noted(IDS[0], 1, accuracy=0.5)])
    assert lineage.has(IDS[:2]) == set(IDS[:2])


def test_the_index_of_a_newer_version_is_left_alone(written, broken):
    with closing(sqlite3.connect(written)) as other, other:
        other.execute("UPDATE alembic_version SET version_num = '0999'")
    before = written.read_bytes()
    lineage = Lineage.open(written)
    assert not lineage.usable
    assert "was written by a newer mvcs" in lineage.problem
    assert lineage.record(WRITTEN) is False
    assert "was written by a newer mvcs" in lineage.problem
    assert lineage.count() == 0
    assert written.read_bytes() == before
    assert not broken.exists()


def as_plain_user(code, *arguments):
    """Run Python without the right to ignore file permissions, which tests run by root have."""
    drop = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    command = [*drop, sys.executable, "-c", code, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


READ_ONLY = """
import sys
from pathlib import Path
from mvcs.lineage import Lineage
from tests.lineage.histories import run
history = list(run(31))
lineage = Lineage.open(Path(sys.argv[1]))
print(lineage.usable, len(lineage.has([history[3].id])))
print(lineage.record(history[30:]))
print(lineage.problem)
print(lineage.count())
"""


def test_a_read_only_file_is_read_and_not_written(written, broken):
    written.chmod(0o444)
    lines = as_plain_user(READ_ONLY, written)
    assert lines[:2] == ["True 1", "False"]
    assert "is not usable: attempt to write a readonly database" in lines[2]
    assert lines[3] == "30"
    assert not broken.exists()


def test_an_unreadable_file_is_reported(written, broken):
    written.chmod(0)
    lines = as_plain_user(READ_ONLY, written)
    assert lines[:2] == ["False 0", "False"]
    assert "is not usable: unable to open database file" in lines[2]
    assert not broken.exists()


def test_a_read_only_folder_without_an_index_is_reported(path):
    path.parent.chmod(0o555)
    lines = as_plain_user(READ_ONLY, path)
    path.parent.chmod(0o755)
    assert lines[:2] == ["False 0", "False"]
    assert "is not usable: unable to open database file" in lines[2]


def test_a_read_only_folder_with_an_index_fails_nothing(written):
    written.parent.chmod(0o555)
    lines = as_plain_user(READ_ONLY, written)
    written.parent.chmod(0o755)
    assert lines[1] == "False"


def test_a_missing_folder_is_reported_by_the_first_write(tmp_path):
    lineage = Lineage.open(tmp_path / "missing" / "lineage.sqlite")
    assert lineage.problem is None
    assert lineage.record(WRITTEN) is False
    assert "is not usable: unable to open database file" in lineage.problem
