"""Records of rules and pins: they come back, damage drops nothing, two who change them both succeed."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvcs.errors import ConflictError, CorruptionError, LimitError, UnsupportedFormatError
from mvcs.objects.ids import Kind, ObjectId, object_id
from mvcs.objects.sealed_records import record_name, seal
from mvcs.retention import pins
from mvcs.retention.pins import PinRecord, pinned, pins_row
from mvcs.retention.rules import FOLDER, MICROSECONDS, Keeps, Layer, Rule, RuleRecord, age_text, rules_row
from mvcs.store.backend import open_backend
from mvcs.store.backend.local import LocalBackend

DAY = 86400 * MICROSECONDS
RULES = (
    Rule(Layer.EXACT, Keeps.LAST, (2,)),
    Rule(Layer.DATA, Keeps.EVERY, (1000,)),
    Rule(Layer.DATA, Keeps.BEST, (3, "val_loss", None)),
    Rule(Layer.DATA, Keeps.NEWER, (14 * DAY,)),
    Rule(Layer.DATA, Keeps.TAGGED),
    Rule(Layer.DATA, 77, ("later",)),
)
IDS = st.binary(min_size=32, max_size=32).map(ObjectId)


@pytest.fixture
def backend(tmp_path):
    return open_backend(str(tmp_path))


@given(st.lists(st.sampled_from(RULES)).map(tuple), st.integers(0, 99_999_999))
def test_rules_come_back(rules, number):
    record = RuleRecord(number, rules, 5, "Ada")
    assert RuleRecord.decode(record.encode()) == record
    assert record.of(Layer.EXACT) + record.of(Layer.DATA) == tuple(sorted(rules, key=lambda it: it.layer))


@given(st.dictionaries(IDS, st.text(max_size=5), max_size=4))
def test_pins_come_back(found):
    record = PinRecord(3, found, 5, "Ada")
    assert PinRecord.decode(record.encode()) == record


@pytest.mark.parametrize(
    "bad",
    [
        Rule(Layer.DATA, Keeps.LAST, (0,)),
        Rule(Layer.DATA, Keeps.LAST, ()),
        Rule(Layer.DATA, Keeps.EVERY, (-1,)),
        Rule(Layer.DATA, Keeps.BEST, (1, "loss", "up")),
        Rule(Layer.DATA, Keeps.BEST, (1, 2, None)),
        Rule(Layer.DATA, Keeps.NEWER, (1.5,)),
        Rule(Layer.DATA, Keeps.TAGGED, (1,)),
        Rule(-1, Keeps.TAGGED),
    ],
)
def test_malformed_rules_are_refused(bad):
    with pytest.raises(CorruptionError):
        RuleRecord.decode(RuleRecord(0, (bad,), 0, "").encode())


@pytest.mark.parametrize("record", [RuleRecord(0, RULES[:2], 1, "Ada"), PinRecord(0, {}, 1, "Ada")])
def test_every_flipped_bit_is_refused(record):
    data = record.encode()
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises((CorruptionError, UnsupportedFormatError)):
            type(record).decode(bytes(flipped))


def test_the_newest_record_counts_and_all_are_kept(backend):
    row = rules_row(backend)
    assert row.newest() is None
    for count in range(3):
        made = row.append(lambda _, number, count=count: RuleRecord(number, RULES[:count], 0, ""))
        assert made.number == count
    assert row.newest().rules == RULES[:2]
    assert [row.load(number).rules for number in range(3)] == [RULES[:count] for count in range(3)]


def test_a_missing_number_and_a_damaged_record_decide_nothing(backend):
    row = rules_row(backend)
    for _ in range(3):
        row.append(lambda _, number: RuleRecord(number, (), 0, ""))
    path = f"{FOLDER}/{record_name(2)}"
    data = backend.read(path)
    backend.replace(path, data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(CorruptionError, match="checksum"):
        row.newest()
    backend.replace(path, data)
    backend.delete(f"{FOLDER}/{record_name(1)}")
    with pytest.raises(CorruptionError, match="lost a record"):
        row.newest()


def test_pins_of_two_who_pin_at_once_both_stay(backend):
    names = [object_id(Kind.COMMIT, b"%d" % number) for number in range(8)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: pins.pin(backend, name, "why", "Ada"), names))
    assert pinned(backend) == dict.fromkeys(names, "why")
    pins.unpin(backend, names[0], "Ada")
    assert set(pinned(backend)) == set(names[1:])
    assert pins_row(backend).newest().number == len(names)


def test_a_lost_reply_is_no_lost_race(tmp_path):
    class LosesReplies(LocalBackend):
        def create(self, name, data):
            super().create(name, data)
            raise ConflictError("taken, by what we sent ourselves")

    row = rules_row(LosesReplies(tmp_path))
    made = row.append(lambda _, number: RuleRecord(number, RULES, 0, "Ada"))
    assert row.newest() == made
    assert made.number == 0


@pytest.mark.parametrize(
    ("seconds", "text"), [(14 * 86400, "2w"), (86400, "1d"), (5400, "90m"), (7200, "2h"), (1.5, "1.5s")]
)
def test_ages_read_as_they_are_typed(seconds, text):
    assert age_text(int(seconds * MICROSECONDS)) == text


@pytest.mark.parametrize(
    ("row", "empty", "much"),
    [
        (
            pins_row,
            PinRecord(0, {}, 5, "Ada"),
            PinRecord(0, {ObjectId(bytes(32)): "x" * (1 << 22)}, 5, "Ada"),
        ),
        (rules_row, RuleRecord(0, (), 5, "Ada"), RuleRecord(0, RULES[:1] * 4000, 5, "Ada")),
    ],
)
def test_a_record_that_nobody_would_read_is_not_written(backend, row, empty, much):
    with pytest.raises(LimitError, match="are allowed"):
        row(backend).append(lambda _, __: much)
    row(backend).append(lambda _, __: empty)
    assert row(backend).newest() == empty


@pytest.mark.parametrize("row", [pins_row, rules_row])
def test_of_a_record_of_32_megabytes_no_more_is_read_than_there_may_be(backend, row):
    backend.create(row(backend).path(0), bytes(32 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptionError, match="has more than"):
            row(backend).newest()
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_record_of_nothing_but_small_values_is_refused_before_it_fills_memory(backend):
    backend.create(pins_row(backend).path(0), seal(b"MVCSPIN1", [0, [[]] * 4_000_000, 0, "eve"]))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptionError, match="more than 1004101 values"):
            pinned(backend)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
