"""The log of drops: nothing recorded is lost, few files stay, damage is noticed."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.objects import cbor
from mvcs.objects.ids import Kind, ObjectId, checksum, object_id
from mvcs.objects.sealed_records import record_name, seal
from mvcs.retention.drops import FOLDED, FOLDER, Drop, DropLog, DropRecord
from mvcs.store.backend import open_backend
from mvcs.store.backend.local import LocalBackend
from tests.format import examples

IDS = st.binary(min_size=32, max_size=32).map(ObjectId)
SAID = st.dictionaries(
    st.text(max_size=3), st.one_of(st.none(), st.booleans(), st.lists(st.text(max_size=3)))
)
DROPS = st.builds(
    Drop,
    IDS,
    st.lists(IDS.map(bytes.hex), max_size=3).map(tuple),
    st.integers(-(2**62), 2**62 - 1),
    st.one_of(st.none(), SAID.map(lambda found: tuple(found.items()))),
)


def drop(number, author=""):
    return Drop(
        object_id(Kind.COMMIT, f"{author}{number}".encode()), (blake3(b"%d" % number).hexdigest(),), number
    )


@pytest.fixture
def backend(tmp_path):
    return open_backend(str(tmp_path))


@given(st.integers(0, 99_999_999), st.lists(DROPS, max_size=4).map(tuple))
def test_records_come_back(number, drops):
    record = DropRecord(number, drops)
    assert DropRecord.decode(record.encode()) == record


def test_every_flipped_bit_and_every_truncation_is_refused():
    data = examples.DROP.encode()
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises((CorruptionError, UnsupportedFormatError)):
            DropRecord.decode(bytes(flipped))
    for end in range(len(data)):
        with pytest.raises(CorruptionError):
            DropRecord.decode(data[:end])


@pytest.mark.parametrize(
    ("magic", "value", "error"),
    [
        (b"MVCSDRP2", [0, []], UnsupportedFormatError),
        (b"MVCSDRP1", [0], CorruptionError),
        (b"MVCSDRP1", [-1, []], CorruptionError),
        (b"MVCSDRP1", [10**8, []], CorruptionError),
        (b"MVCSDRP1", [0, [[bytes(32), [b""], 0]]], CorruptionError),
        (b"MVCSDRP1", [0, [[bytes(31), [], 0]]], CorruptionError),
        (b"MVCSDRP1", [0, [[bytes(32), [], None]]], CorruptionError),
        (b"MVCSDRP1", [0, [[bytes(32), []]]], CorruptionError),
        (b"MVCSDRP1", [0, [[bytes(32), [], 0, None]]], CorruptionError),
        (b"MVCSDRP1", [0, [[bytes(32), [], 0, [["rule"]]]]], CorruptionError),
        (b"MVCSDRP1", [0, [[bytes(32), [], 0, [["rule", 1], ["rule", 1]]]]], CorruptionError),
        (b"MVCSDRP1", [0, [[bytes(32), [], 0, [], 1]]], UnsupportedFormatError),
    ],
)
def test_malformed_records_are_refused(magic, value, error):
    body = magic + cbor.dumps(value)
    with pytest.raises(error):
        DropRecord.decode(body + checksum(body))


def test_drops_are_found_newest_first(backend):
    log = DropLog(backend)
    assert list(log.drops()) == []
    for number in range(3):
        assert log.append((drop(number),)).number == number
    assert list(log.drops()) == [drop(2), drop(1), drop(0)]


def test_every_64th_record_takes_over_those_before_it(backend):
    log = DropLog(backend)
    for number in range(3 * FOLDED + 5):
        log.append((drop(number),))
    assert {found.time for found in log.drops()} == set(range(3 * FOLDED + 5))
    assert len(backend.list(FOLDER)) == 3 + 5


def test_what_later_versions_say_of_a_drop_is_kept(backend):
    log, more = DropLog(backend), (("rule", "last 10"), ("later", ["a", 1]))
    log.append((replace(drop(0), more=more),))
    for number in range(1, FOLDED):
        log.append((replace(drop(number), more=()),))
    assert len(backend.list(FOLDER)) == 1
    assert {found.more for found in log.drops() if found.time} == {()}
    assert [found.more for found in log.drops() if not found.time] == [more]


def test_an_interrupted_folding_is_finished_by_the_next(backend):
    log = DropLog(backend)
    old = {}
    for number in range(FOLDED - 1):
        record = log.append((drop(number),))
        old[f"{FOLDER}/{record_name(record.number)}"] = record.encode()
    log.append((drop(FOLDED - 1),))
    for name, data in list(old.items())[5:]:
        backend.put(name, data)  # as if the writer had been stopped after deleting five
    assert {found.time for found in log.drops()} == set(range(FOLDED))
    for number in range(FOLDED, 2 * FOLDED):
        log.append((drop(number),))
    assert {found.time for found in log.drops()} == set(range(2 * FOLDED))
    assert len(backend.list(FOLDER)) == 2


def test_a_lost_record_does_not_stop_the_log(backend):
    log = DropLog(backend)
    for number in range(FOLDED - 1):
        log.append((drop(number),))
    backend.delete(f"{FOLDER}/{record_name(7)}")
    log.append((drop(FOLDED - 1),))
    assert {found.time for found in log.drops()} == set(range(FOLDED)) - {7}


@pytest.mark.parametrize("content", [b"damage", seal(b"MVCSDRP2", [7, []])], ids=["damaged", "later version"])
def test_a_record_that_cannot_be_read_does_not_stop_the_log_and_outlives_folding(backend, content):
    log = DropLog(backend)
    for number in range(FOLDED - 1):
        log.append((drop(number),))
    damaged = f"{FOLDER}/{record_name(7)}"
    backend.delete(damaged)
    backend.put(damaged, content)
    for number in range(FOLDED - 1, 2 * FOLDED):
        log.append((drop(number),))
    drops, problems = log.survey()
    assert {found.time for found in drops} == set(range(2 * FOLDED)) - {7}
    assert [damaged in problem.message for problem in problems] == [True]
    assert len(backend.list(FOLDER)) == 3


def test_a_damaged_record_is_named(backend):
    log = DropLog(backend)
    name = f"{FOLDER}/{record_name(log.append((drop(0),)).number)}"
    backend.put(f"{FOLDER}/99999998", backend.read(name))
    with pytest.raises(CorruptionError, match="number of another"):
        list(log.drops())
    backend.delete(f"{FOLDER}/99999998")
    backend.delete(name)
    backend.put(name, b"damage")
    with pytest.raises(CorruptionError, match=name):
        list(log.drops())


def test_foreign_files_are_left_alone_or_named(backend):
    log = DropLog(backend)
    log.append((drop(0),))
    backend.put(f"{FOLDER}/README", b"foreign")
    assert list(log.drops()) == [drop(0)]
    backend.put(f"{FOLDER}/0", b"foreign")
    with pytest.raises(CorruptionError, match="not a drop record"):
        log.append((drop(1),))


class Sleeper(LocalBackend):
    """A backend whose first answer about the newest record is as old as a test wants it."""

    def __init__(self, root, stale):
        super().__init__(root)
        self.stale = [stale]

    def newest(self, folder):
        """Answer from the past once."""
        return self.stale.pop() if self.stale else super().newest(folder)


@pytest.mark.parametrize("behind", [FOLDED - 2, 3, 0])
def test_a_writer_that_slept_while_others_folded_loses_nothing(backend, tmp_path, behind):
    log = DropLog(backend)
    for number in range(FOLDED + 2):
        log.append((drop(number),))
    slept = DropLog(Sleeper(tmp_path, f"{FOLDER}/{record_name(behind)}"))
    assert slept.append((drop(500),)).number == FOLDED + 2
    assert {found.time for found in log.drops()} == {*range(FOLDED + 2), 500}
    assert len(backend.list(FOLDER)) == 4


class Overtaken(LocalBackend):
    """A backend where another writer folds as soon as the last record before it is there."""

    def create(self, name, data):
        """Let the other one append."""
        super().create(name, data)
        if name == f"{FOLDER}/{record_name(FOLDED - 2)}":
            DropLog(LocalBackend(self.root)).append((drop(700),))


def test_a_record_that_another_writer_folds_at_once_counts_once(tmp_path):
    log = DropLog(Overtaken(tmp_path))
    for number in range(FOLDED - 1):
        log.append((drop(number),))
    times = [found.time for found in log.drops()]
    assert sorted(times) == [*range(FOLDED - 1), 700]


def append_many(root, author, count):
    log = DropLog(open_backend(root))
    for number in range(count):
        log.append((drop(number, author),))
        mine = {drop(old, author).commit for old in range(number + 1)}
        found = [found.commit for found in log.drops()]
        assert mine <= set(found)
        assert len(found) == len(set(found))


def authors(backend):
    return {found.commit for found in DropLog(backend).drops()}


@pytest.mark.parametrize("count", [20, pytest.param(40, marks=pytest.mark.slow)])
def test_racing_threads_fold_without_loss(tmp_path, count):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda author: append_many(str(tmp_path), author, count), "abcd"))
    backend = open_backend(str(tmp_path))
    assert authors(backend) == {drop(number, author).commit for number in range(count) for author in "abcd"}
    assert len(backend.list(FOLDER)) == sum(divmod(4 * count, FOLDED))


@pytest.mark.parametrize("count", [40, pytest.param(70, marks=pytest.mark.slow)])
def test_racing_processes_fold_without_loss(forked, tmp_path, count):
    workers = [forked.Process(target=append_many, args=(str(tmp_path), name, count)) for name in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    backend = open_backend(str(tmp_path))
    assert authors(backend) == {drop(number, author).commit for number in range(count) for author in "ab"}


def test_a_record_lies_under_its_own_number(tmp_path):
    backend = LocalBackend(tmp_path)
    log = DropLog(backend)
    log.append((examples.DROP.drops[0],))
    first = log.append((examples.DROP.drops[0],))
    path = tmp_path / FOLDER / record_name(first.number)
    path.with_name("99999997").write_bytes(path.read_bytes())
    with pytest.raises(CorruptionError, match="number of another"):
        list(log.drops())
