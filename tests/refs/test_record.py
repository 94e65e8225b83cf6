"""Ref records: bytes that come back, and damage that does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvcs.errors import CorruptionError, UnsupportedFormatError, UsageError
from mvcs.objects import MAX_NUMBER, cbor
from mvcs.objects.ids import ObjectId, checksum
from mvcs.refs.record import MAX_RECORD, RefRecord, check_note, check_tag
from tests.format import examples

RECORD = examples.RECORD
IDS = st.binary(min_size=32, max_size=32).map(ObjectId)
RECORDS = st.builds(
    RefRecord,
    number=st.integers(1, MAX_NUMBER),
    target=st.one_of(st.none(), IDS),
    previous=IDS,
    time=st.integers(-(2**62), 2**62 - 1),
    author=st.text(max_size=20),
    action=st.text(max_size=20),
    content=st.binary(max_size=50),
)


@given(RECORDS)
def test_records_come_back(record):
    assert RefRecord.decode(record.encode()) == record
    assert int(record.key) == MAX_NUMBER - record.number
    assert len(record.key) == 8


def test_every_flipped_bit_and_every_truncation_is_refused():
    data = RECORD.encode()
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises((CorruptionError, UnsupportedFormatError)):
            RefRecord.decode(bytes(flipped))
    for end in range(len(data)):
        with pytest.raises(CorruptionError):
            RefRecord.decode(data[:end])
    with pytest.raises(CorruptionError):
        RefRecord.decode(data + b"\0")


def sealed(values, magic=b"MVCSREF1"):
    body = magic + cbor.dumps(values)
    return body + checksum(body)


def values(**changes):
    fields = ("number", "target", "previous", "time", "author", "action", "content", "write_id")
    found = dict(zip(fields, cbor.loads(RECORD.encode()[8:-16]), strict=True)) | changes
    return list(found.values())


@pytest.mark.parametrize(
    "changes",
    [
        {"number": -1},
        {"number": 1},
        {"number": MAX_NUMBER + 1, "previous": bytes(32)},
        {"previous": bytes(32)},
        {"previous": b"short"},
        {"target": "text"},
        {"time": 2**62},
        {"author": None},
        {"action": b""},
        {"content": ""},
        {"write_id": bytes(15)},
        {"more": 1, "and more": 2},
    ],
    ids=str,
)
def test_malformed_records_are_corruption(changes):
    assert RefRecord.decode(sealed(values())) == RECORD
    with pytest.raises(CorruptionError):
        RefRecord.decode(sealed(values(**changes)))


def test_a_newer_record_is_unsupported():
    with pytest.raises(UnsupportedFormatError) as caught:
        RefRecord.decode(sealed(values(), b"MVCSREF2"))
    assert caught.value.hint == "upgrade mvcs"


def test_a_record_of_a_preview_says_so():
    """It has the name of a pack behind its target."""
    number, target, *rest = values()
    with pytest.raises(UnsupportedFormatError, match="written before format 1 was closed"):
        RefRecord.decode(sealed([number, target, bytes(32), *rest]))


def test_a_record_too_large_to_read_is_not_written():
    large = RefRecord(0, None, None, 0, "Ada", "x" * MAX_RECORD)
    with pytest.raises(UsageError):
        large.encode()
    with pytest.raises(CorruptionError):
        RefRecord.decode(sealed(values(action="x" * MAX_RECORD)))


def test_numbers_end_before_keys_do():
    with pytest.raises(UsageError):
        RefRecord(MAX_NUMBER + 1, None, bytes(32), 0, "", "").encode()


def test_two_records_of_the_same_change_differ():
    one, two = (RefRecord(0, None, None, 0, "Ada", "same") for _ in range(2))
    assert one.encode() != two.encode()
    assert one.digest != two.digest


def carrying(content, target):
    return RefRecord.decode(sealed(values(target=target, content=content)))


def test_a_tag_is_of_the_commit_that_its_record_names():
    tag, other = examples.TAG, bytes(32)
    check_tag("v1", carrying(tag.encode(), tag.target))
    for content, target in ((tag.encode(), other), (b"", tag.target), (examples.NOTE.encode(), tag.target)):
        with pytest.raises(CorruptionError):
            check_tag("v1", carrying(content, target))


def test_a_note_is_the_one_and_of_the_commit_that_its_record_names():
    note = examples.NOTE
    name = note.target.hex()
    check_note(name, carrying(note.encode(), note.id))
    for commit, content, target in (
        (name, note.encode(), bytes(32)),
        ("00" * 32, note.encode(), note.id),
        (name, examples.TAG.encode(), note.id),
    ):
        with pytest.raises(CorruptionError):
            check_note(commit, carrying(content, target))
