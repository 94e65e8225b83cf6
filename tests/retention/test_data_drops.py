"""Drops of data: the newest of each commit counts, also through foldings, and the upgrade comes first."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mvcs import Repository
from mvcs.objects.ids import Kind, ObjectId, object_id
from mvcs.objects.sealed_records import record_name
from mvcs.retention import Keeps, Layer, Rule, carry_drops, set_rules
from mvcs.retention.drops import DATA, FOLDED, FOLDER, DataDrop, DataDrops, Drop, DropLog, record_drops
from mvcs.store.backend import open_backend
from mvcs.store.backend.local import LocalBackend
from mvcs.store.upgrades import DROPPED_DATA, has_upgrade
from tests.repository.states import state

NAMES = [object_id(Kind.COMMIT, b"%d" % number) for number in range(4)]


def came_back(commit: ObjectId) -> Drop:
    return Drop(commit, (), 0, ((DATA, False),))


@pytest.fixture
def backend(tmp_path):
    return open_backend(str(tmp_path))


def test_what_is_said_comes_back(backend):
    said = [DataDrop(NAMES[0], 5, 3, "too old"), DataDrop(NAMES[1], 6), DataDrop(NAMES[2], 7, 0)]
    record_drops(backend, said, "Ada")
    assert DataDrops.of(backend).found == {drop.commit: drop for drop in said}
    assert DataDrops.of(backend).get(NAMES[3]) is None


def test_a_store_without_the_upgrade_has_none(backend):
    DropLog(backend).append((DataDrop(NAMES[0], 5).drop,))
    assert DataDrops.of(backend).found == {}
    record_drops(backend, [], "Ada")
    assert not has_upgrade(backend, DROPPED_DATA)


def test_the_upgrade_stands_before_the_first_drop(tmp_path):
    class Stops(LocalBackend):
        def create(self, name, data):
            if name.startswith(FOLDER):
                raise KeyboardInterrupt
            super().create(name, data)

    with pytest.raises(KeyboardInterrupt):
        record_drops(Stops(tmp_path), [DataDrop(NAMES[0], 5)], "Ada")
    assert has_upgrade(open_backend(str(tmp_path)), DROPPED_DATA)


def test_drops_of_layers_say_nothing_of_data(backend):
    record_drops(backend, [DataDrop(NAMES[0], 5)], "Ada")
    DropLog(backend).append((Drop(NAMES[0], ("ab" * 32,), 6),))
    assert DataDrops.of(backend).found.keys() == {NAMES[0]}


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=FOLDED + 9))
def test_the_newest_counts_through_foldings(tmp_path_factory, said):
    backend = open_backend(str(tmp_path_factory.mktemp("store")))
    expected = {}
    for time, (number, gone) in enumerate(said):
        if gone:
            record_drops(backend, [DataDrop(NAMES[number], time)], "Ada")
        else:
            DropLog(backend).append((came_back(NAMES[number]),))
        expected[NAMES[number]] = time if gone else None
    found = {key: drop.time for key, drop in DataDrops.of(backend).found.items()}
    if any(gone for _, gone in said):
        assert found == {key: time for key, time in expected.items() if time is not None}


def test_a_damaged_record_is_told(backend):
    record_drops(backend, [DataDrop(NAMES[0], 5)], "Ada")
    record_drops(backend, [DataDrop(NAMES[1], 5)], "Ada")
    path = f"{FOLDER}/{record_name(0)}"
    backend.replace(path, backend.read(path)[:-1])
    drops = DataDrops.of(backend)
    assert drops.found.keys() == {NAMES[1]}
    assert len(drops.damaged) == 1


@pytest.mark.parametrize("odd", [1, None, "yes", [True]])
def test_odd_values_say_nothing(backend, odd):
    record_drops(backend, [DataDrop(NAMES[0], 5)], "Ada")
    DropLog(backend).append((Drop(NAMES[1], (), 0, ((DATA, odd),)),))
    DropLog(backend).append((Drop(NAMES[2], (), 0, ((DATA, True), ("rules", "x"), ("why", 3))),))
    found = DataDrops.of(backend).found
    assert found == {NAMES[0]: DataDrop(NAMES[0], 5), NAMES[2]: DataDrop(NAMES[2], 0)}


def test_what_came_with_commits_is_on_record(tmp_path):
    here, there = open_backend(str(tmp_path / "here")), open_backend(str(tmp_path / "there"))
    set_rules(there, Layer.DATA, [Rule(Layer.DATA, Keeps.LAST, (3,))], 0, "Ada")
    record_drops(there, [DataDrop(NAMES[0], 5, 0), DataDrop(NAMES[1], 6, 0)], "Ada")
    record_drops(here, [DataDrop(NAMES[2], 7)], "Ada")
    why = "no rule kept it (the rules then, record 0: the last 3 of each branch)"
    carry_drops(there, here, [NAMES[0], NAMES[2], NAMES[3]], "Ada")
    assert DataDrops.of(here).found == {NAMES[0]: DataDrop(NAMES[0], 5, None, why)}


def test_push_and_fetch_carry_drops(tmp_path):
    with Repository.init(tmp_path / "a") as one:
        for number in range(3):
            one.commit(state(number), step=number)
        gone = ObjectId(bytes.fromhex(one.resolve("HEAD~1").id))
        backend = open_backend(str(tmp_path / "a/.mvcs"))
        record_drops(backend, [DataDrop(gone, 5, None, "no room")], "Ada")
        one.add_remote("far", str(tmp_path / "far"))
        one.push("far")
    far = open_backend(str(tmp_path / "far"))
    assert DataDrops.of(far).found == {gone: DataDrop(gone, 5, None, "no room")}
    with Repository.clone(str(tmp_path / "far"), tmp_path / "b") as two:
        assert [info.data_dropped for info in two.log()] == [False, True, False]
        assert DataDrops.of(open_backend(str(tmp_path / "b/.mvcs"))).found.keys() == {gone}
        assert two.fsck().ok


def test_a_commit_is_named_by_its_branch_and_step(tmp_path):
    with Repository.init(tmp_path) as repo:
        made = [repo.commit(state(number), step=10 * number).id for number in range(3)]
        repo.create_branch("side", "HEAD~1")
        assert repo.resolve("main@20").id == made[2]
        assert repo.resolve("side@10").id == repo.resolve("HEAD@10~0").id == made[1]
        assert repo.resolve("main@20~2").id == made[0]
        with pytest.raises(LookupError, match="no commit behind side has step 20"):
            repo.resolve("side@20")
        with pytest.raises(LookupError, match="no revision named 'nobody@20'"):
            repo.resolve("nobody@20")
