"""Bases that are found many at a time are those that are found one by one."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvcs.delta import Encoding
from mvcs.errors import CorruptionError
from mvcs.objects import Kind, ObjectId, half, object_id
from mvcs.store.packs.entry import OPAQUE, Entry, Member, frame_start, read_payload
from mvcs.store.packs.footer import Footer, Placed
from mvcs.store.reading.copies import Copies
from mvcs.store.reading.located import ChunkPlace, Located, Run

IDS = [object_id(Kind.CHUNK, bytes([number])) for number in range(12)]
# Entries of a pack by the numbers of their objects, which may lie in several, or in one twice.
NUMBERS = st.lists(st.integers(0, 9), min_size=1, max_size=6)
PACKS = st.lists(st.lists(NUMBERS, min_size=1, max_size=4), min_size=1, max_size=4)


def placed(numbers: list[int], offset: int = 16) -> Placed:
    """Return an entry whose members have as many bytes as their numbers tell."""
    entry = Entry(tuple(Member(Kind.CHUNK, number) for number in numbers), Encoding.RAW, OPAQUE)
    return Placed(offset, 100, entry, tuple(IDS[number] for number in numbers))


def entered(packs: list[list[list[int]]], damaged: set[ChunkPlace]) -> Copies:
    copies = Copies(damaged)
    for name, pack in enumerate(packs):
        entries = (placed(numbers, 16 + 100 * place) for place, numbers in enumerate(pack))
        copies.enter(str(name), Footer(tuple(entries)), exact=False)
    return copies


def members(runs: list[Run]) -> list[Located]:
    """Return the objects of runs one by one."""
    return [
        Located(run.first.pack, run.first.exact, run.first.placed, run.first.member + number)
        for run in runs
        for number in range(run.count)
    ]


@given(
    PACKS, st.lists(st.integers(0, 10), max_size=12), st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)))
)
def test_runs_are_what_is_found_one_by_one(
    packs: list[list[list[int]]], wanted: list[int], rotten: set[tuple[int, int]]
) -> None:
    damaged: set[ChunkPlace] = {(str(pack), False, 16 + 100 * place) for pack, place in rotten}
    copies = entered(packs, damaged)
    names = [IDS[number] for number in wanted]
    firsts = [next(iter(copies.of(name)), None) for name in names]
    runs = copies.runs([half(name) for name in names])
    if any(first is None or first.place in damaged for first in firsts):
        assert runs is None
    else:
        assert runs is not None
        assert members(runs) == [copies.whole(name) for name in names] == firsts


@given(st.lists(NUMBERS, min_size=1, max_size=3))
def test_whole_entries_are_one_run_each(entries: list[list[int]]) -> None:
    distinct = list(dict.fromkeys(chain.from_iterable(entries)))
    copies = entered([[distinct, [10, 11]]], set())
    runs = copies.runs([half(IDS[number]) for number in [*distinct, 10, 11]])
    assert runs is not None
    assert [run.count for run in runs] == [len(distinct), 2]
    assert [length for run in runs for length in run.lengths] == [*distinct, 10, 11]


@given(NUMBERS, st.data())
def test_a_run_has_the_contents_of_its_members(numbers: list[int], data: st.DataObject) -> None:
    parts = [bytes([number]) * number for number in numbers]
    first = data.draw(st.integers(0, len(numbers) - 1))
    count = data.draw(st.integers(1, len(numbers) - first))
    run = Run(Located("pack", False, placed(numbers), first), count)
    content = b"".join(parts)
    assert list(map(bytes, run.singly(content))) == parts[first : first + count]
    assert bytes(run.part(content)) == b"".join(parts[first : first + count])
    assert (run.part(content) is content) == (count == len(numbers))


@pytest.mark.parametrize("name", [IDS[0][:16], IDS[0]])
def test_an_object_is_found_by_its_id_and_by_half_of_it(name: bytes) -> None:
    found = entered([[[0]]], set()).whole(ObjectId(name))
    assert found is not None
    assert found.id == IDS[0]


def test_an_entry_is_taken_only_where_it_is_the_one_that_was_named() -> None:
    named, other = placed([3]).entry, placed([4]).entry
    whole = frame_start(other, b"abcd") + b"abcd"
    assert bytes(read_payload(whole, other)) == b"abcd"
    for data, entry in ((whole, named), (whole + b"\0", other)):
        with pytest.raises(CorruptionError, match="not the one"):
            read_payload(data, entry)
    with pytest.raises(CorruptionError, match="truncated"):
        read_payload(whole[:20], other)
