"""What is recorded is what queries return."""

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mvcs.lineage import EncodingRecord, Lineage, TensorRecord
from mvcs.objects.commit import Commit
from mvcs.objects.ids import ObjectId
from tests.lineage.histories import answers, commit, committed, head, identifier, noted, run, tensor
from tests.lineage.recorded import commits, metrics, quantizers, tensors


def row_count(lineage, table):
    return lineage.query(f"SELECT count(*) FROM {table}", 1)[1][0][0]  # noqa: S608 - the tables of this file


def test_an_index_that_was_never_written_answers_nothing_and_creates_no_file(lineage, path):
    assert not lineage.usable
    assert lineage.problem is None
    assert lineage.count() == 0
    assert not path.exists()


def test_a_commit_comes_back_with_everything_log_shows(lineage):
    first, second = run(2)
    assert lineage.record([first, second], [head(second.id)])
    newest, oldest = commits(lineage)
    assert newest["id"] == second.id.hex()
    assert newest["parents"] == [first.id.hex()]
    assert newest["metrics"] == {"val_loss": 0.5, "tokens": 1.0}
    assert newest["quantizer"] == '{"name": "kmeans", "bins": 16}'
    sizes = {"raw_bytes": 8192, "stored_bytes": 512, "exact_bytes": 4096, "depth": 3}
    assert sizes.items() <= newest.items()
    assert (oldest["step"], oldest["parents"]) == (0, [])
    assert lineage.usable
    assert lineage.problem is None


def test_tensors_come_back_as_recorded_in_the_order_of_the_tree(lineage):
    history = list(run(3))
    lineage.record(history)
    assert tensors(lineage, history[1].id) == list(history[1].tensors)


def test_recording_twice_changes_nothing(lineage):
    history = list(run(4))
    ids = [record.id for record in history]
    news = ([head(ids[-1])], [noted(ids[0], 7, accuracy=0.5)])
    lineage.record(history, *news)
    before = answers(lineage, ids)
    assert lineage.record(history, *news)
    assert answers(lineage, ids) == before


def test_a_commit_recorded_again_is_replaced(lineage):
    record = next(run(1))
    lineage.record([record])
    rewritten = replace(record, depth=0, tensors=(tensor("model.0.weight", 0, pack=99),))
    lineage.record([rewritten])
    assert tensors(lineage, record.id) == list(rewritten.tensors)
    assert [row["depth"] for row in commits(lineage)] == [0]


def test_the_same_tensor_in_another_pack_is_told_apart(lineage):
    first = commit(1, tensors=(tensor("w", 0, pack=1),))
    second = commit(2, first.id, tensors=(tensor("w", 0, pack=2),))
    lineage.record([second, first])
    assert tensors(lineage, first.id) == list(first.tensors)
    assert tensors(lineage, second.id) == list(second.tensors)


def test_unchanged_tensors_add_one_short_row_a_commit(lineage):
    lineage.record(run(50, moving=1, frozen=10))
    rows = {"leaves": 11, "tensors": 50 + 10, "encodings": 2 * 50 + 10, "contents": 50 * 11}
    assert {table: row_count(lineage, table) for table in rows} == rows


def test_has_tells_the_known_from_the_unknown(lineage):
    history = list(run(500, moving=0, frozen=0))
    lineage.record(history)
    known = {record.id for record in history}
    assert lineage.has([*known, identifier("unknown")]) == known


def test_metrics_come_from_commits_and_later_notes(lineage):
    first, second = run(2)
    late, early = noted(first.id, 20, val_loss=0.25), noted(first.id, 10, val_loss=0.5, accuracy=0.9)
    lineage.record([first, second], notes=[late, early, noted(identifier("unknown"), 5, val_loss=9.0)])
    assert metrics(lineage, "val_loss") == [
        (first.id, 1.0),
        (first.id, 0.5),
        (first.id, 0.25),
        (second.id, 0.5),
    ]
    assert metrics(lineage, "accuracy") == [(first.id, 0.9)]


def test_a_note_may_arrive_before_its_commit(lineage):
    record = next(run(1))
    lineage.record([], notes=[noted(record.id, 1, accuracy=0.5)])
    assert metrics(lineage, "accuracy") == []
    lineage.record([record])
    assert metrics(lineage, "accuracy") == [(record.id, 0.5)]


def test_metrics_that_are_not_finite_survive(lineage):
    content = replace(commit(1).commit, metrics=(("loss", math.nan), ("peak", math.inf)))
    record = committed(content)
    lineage.record([record])
    [(_, loss)], [(_, peak)] = metrics(lineage, "loss"), metrics(lineage, "peak")
    assert math.isnan(loss)
    assert peak == math.inf


def test_refs_only_move_forward_and_remember_deletion(lineage):
    one, two = identifier(1), identifier(2)
    lineage.record([], [head(one, 1), head(two, 2), head(two, 4, "gone")])
    lineage.record([], [head(one, 1), head(None, 5, "gone")])
    assert lineage.refs() == [head(None, 5, "gone"), head(two, 2)]


def test_forgetting_takes_along_what_no_other_commit_holds(lineage):
    history = list(run(300, moving=1, frozen=1))
    lineage.record(history, notes=[noted(history[0].id, 1, accuracy=0.5)])
    assert lineage.forget(record.id for record in history[:299])
    assert [row["id"] for row in commits(lineage)] == [history[-1].id.hex()]
    assert tensors(lineage, history[-1].id) == list(history[-1].tensors)
    assert metrics(lineage, "accuracy") == []
    rows = {"tensors": 2, "encodings": 3, "contents": 2, "notes": 0, "parents": 1}
    assert {table: row_count(lineage, table) for table in rows} == rows
    assert lineage.forget([]) is True


def test_quantizers_are_counted_by_their_text(lineage):
    plain = replace(commit(9).commit, quantizer=None)
    odd = replace(commit(8).commit, quantizer=(("table", b"\x01\xff"), ("big", 1 << 80), ("name", "\ud800")))
    lineage.record([*run(3), committed(plain), committed(odd)])
    assert quantizers(lineage) == [
        ('{"name": "kmeans", "bins": 16}', 3),
        ('{"table": "0x01ff", "big": 1208925819614629174706176, "name": "\\ud800"}', 1),
    ]


def test_text_that_is_not_unicode_is_shown_escaped(lineage):
    content = replace(commit(1).commit, message="half \ud83d of a pair", author="nul \0 inside")
    record = committed(content, (replace(tensor("w", 1), path="key.\udc80"),))
    assert lineage.record([record], [head(record.id, name="caf\xe9")])
    [row] = commits(lineage)
    assert (row["message"], row["author"]) == ("half \\ud83d of a pair", "nul \0 inside")
    assert [one.path for one in tensors(lineage, record.id)] == ["key.\\udc80"]


def test_a_number_too_large_for_sqlite_is_reported_and_the_index_stays(lineage, path):
    history = list(run(2))
    lineage.record(history[:1])
    assert lineage.record([replace(history[1], raw_bytes=1 << 63)]) is False
    assert "too large" in lineage.problem
    assert lineage.has([record.id for record in history]) == {history[0].id}
    assert not path.with_name("lineage.sqlite.broken").exists()


ids = st.binary(min_size=32, max_size=32).map(ObjectId)
sizes = st.integers(0, (1 << 63) - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
chunks = st.builds(EncodingRecord, ids, text, sizes, sizes, sizes, text)
any_tensors = st.builds(
    TensorRecord,
    path=text,
    dtype=text,
    shape=st.lists(sizes, max_size=4).map(tuple),
    role=st.none() | text.filter(bool),
    value=ids,
    exact=st.none() | ids,
    chunks=st.lists(chunks, max_size=3).map(tuple),
)


@given(st.lists(st.lists(any_tensors, max_size=4).map(tuple), min_size=1, max_size=4))
def test_any_tensors_come_back_as_recorded(tmp_path_factory, lists):
    lineage = Lineage.open(tmp_path_factory.mktemp("any") / "lineage.sqlite")
    records = [commit(step, tensors=each) for step, each in enumerate(lists)]
    assert lineage.record(records)
    assert [tuple(tensors(lineage, record.id)) for record in records] == lists


@given(st.lists(st.tuples(text, st.floats(allow_nan=False)), unique_by=lambda pair: pair[0], max_size=6))
def test_any_metrics_come_back_as_recorded(tmp_path_factory, metrics):
    lineage = Lineage.open(tmp_path_factory.mktemp("any") / "lineage.sqlite")
    base = commit(0).commit
    record = committed(Commit(base.tree, (), "a", base.time, "m", metrics=tuple(metrics)))
    assert lineage.record([record])
    [row] = commits(lineage)
    assert list(row["metrics"].items()) == metrics
