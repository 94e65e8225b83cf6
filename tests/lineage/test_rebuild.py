"""A rebuilt index answers as the one it replaces, which stays whole until then."""

import random
import sqlite3
from contextlib import closing

import pytest

from mvcs.errors import ConflictError, CorruptionError, StorageError
from mvcs.lineage import Lineage, RebuildReport
from tests.lineage.histories import answers, commit, head, noted, run
from tests.lineage.recorded import metrics


@pytest.fixture
def story():
    trunk = list(run(8))
    branch = list(run(4, 100, trunk[3].id))
    merge = commit(200, trunk[-1].id, branch[-1].id, tensors=trunk[-1].tensors)
    commits = [*trunk, *branch, merge]
    refs = [head(merge.id, 9), head(branch[-1].id, 4, "try"), head(None, 2, "gone")]
    notes = [noted(trunk[2].id, 1, accuracy=0.5), noted(trunk[2].id, 2, accuracy=0.75, val_loss=0.1)]
    return commits, refs, notes


def test_rebuilding_from_the_store_in_any_order_gives_identical_answers(lineage, story):
    commits, refs, notes = story
    for record in commits:
        lineage.record([record])
    lineage.record([], refs, notes)
    ids = [record.id for record in commits]
    before = answers(lineage, ids)
    for seed in range(3):
        shuffled = random.Random(seed).sample(commits, len(commits))
        assert lineage.rebuild(shuffled, reversed(refs), reversed(notes)) == RebuildReport(
            13, 8 * 3 + 4 * 3 + 2
        )
        assert answers(lineage, ids) == before


def test_deleting_the_index_loses_nothing(lineage, path, story):
    lineage.record(*story)
    ids = [record.id for record in story[0]]
    before = answers(lineage, ids)
    for file in path.parent.iterdir():
        file.unlink()
    assert lineage.has(ids[:1]) == set()
    assert lineage.problem is None
    lineage.rebuild(*story)
    assert answers(lineage, ids) == before


def test_rebuilding_drops_what_the_store_no_longer_has(lineage, story):
    lineage.record(*story)
    lineage.rebuild(story[0][:2], [], [])
    assert lineage.count() == 2
    assert lineage.refs() == metrics(lineage, "accuracy") == []


def test_another_process_reads_the_old_index_until_the_new_one_is_there(lineage, path, story):
    lineage.record(story[0][:1])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN")
        assert other.execute("SELECT count(*) FROM commits").fetchone() == (1,)
        lineage.rebuild(*story)
        assert other.execute("SELECT count(*) FROM commits").fetchone() == (1,)
        other.execute("COMMIT")
        assert other.execute("SELECT count(*) FROM commits").fetchone() == (13,)


def test_a_store_that_fails_half_way_leaves_the_old_index(lineage, story):
    commits, refs, notes = story
    lineage.record(*story)
    ids = [record.id for record in commits]
    before = answers(lineage, ids)

    def failing():
        yield commits[0]
        raise CorruptionError("a pack is damaged")

    with pytest.raises(CorruptionError, match="a pack is damaged"):
        lineage.rebuild(failing(), refs, notes)
    assert answers(lineage, ids) == before


def test_a_rebuild_leaves_no_other_files(lineage, path, story):
    lineage.rebuild(*story)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("content", [b"", b"not a database" * 100, b"SQLite format 3\0" + bytes(5000)])
def test_rebuilding_replaces_whatever_was_there(path, story, content):
    path.write_bytes(content)
    lineage = Lineage(path)
    assert lineage.rebuild(*story).commits == 13
    assert lineage.usable
    assert lineage.count() == 13


def test_rebuilding_gives_up_on_a_lock_that_stays(lineage, path, story):
    lineage.record(story[0][:1])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ConflictError, match=r"'.*lineage\.sqlite' is locked by another process"):
            lineage.rebuild(*story)
        assert lineage.count() == 1
    assert lineage.rebuild(*story).commits == 13


def test_rebuilding_in_a_missing_folder_is_a_storage_error(tmp_path, story):
    with pytest.raises(StorageError, match=r"could not be written"):
        Lineage(tmp_path / "missing" / "lineage.sqlite").rebuild(*story)


def test_rebuilding_replaces_the_index_of_a_newer_version(lineage, path, story):
    lineage.record(*story)
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE alembic_version SET version_num = '9999'")
    assert lineage.count() == 0
    assert lineage.rebuild(*story).commits == 13
    assert lineage.count() == 13
    assert path.with_name("lineage.sqlite.broken").exists()
