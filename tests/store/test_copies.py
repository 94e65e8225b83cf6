"""An object of several packs: whichever is found first, a whole copy is read."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from mvcs.errors import CorruptionError
from mvcs.objects.ids import Kind, ObjectId, object_id
from mvcs.store.backend import open_backend
from mvcs.store.packs.written_commit import chunk_entry
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.reading.pack_files import pack_path
from mvcs.store.reading.patrol import Patrol, PatrolPosition
from mvcs.store.writing.pack_filler import SALT_BYTES, SMALL
from mvcs.store.writing.writer import ObjectWriter, StoredCodes
from tests.store.faults import FaultyBackend
from tests.store.packing import last_pack


def codes(seed: int, moved: float = 1.0) -> bytes:
    found = np.random.default_rng(0).integers(0, 8, 4000).astype(np.uint8)
    later = np.random.default_rng(seed)
    places = later.random(found.size) < moved
    found[places] = later.integers(0, 8, places.sum())
    return found.tobytes()


def put(folder: Path, content: bytes, base: ObjectId | None = None, *known: str) -> str:
    """Write codes into a pack of their own, near a base of known packs."""
    store = ObjectStore(open_backend(str(folder)))
    store.catalog.attach_all(known)
    writer = ObjectWriter(store)
    writer.put_codes(StoredCodes(content, 8), base)
    name = last_pack(writer)
    assert name
    return name


def flip(folder: Path, name: str, place: int = 100) -> None:
    path = folder / pack_path(name)
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


OLD, NEW = codes(1, 0.05), codes(2, 0.05)
OLD_ID, NEW_ID = object_id(Kind.CHUNK, OLD), object_id(Kind.CHUNK, NEW)


def two_copies(folder: Path) -> tuple[str, str]:
    """One content alone and near another one."""
    first = put(folder, NEW)
    base = put(folder, OLD)
    second = put(folder, NEW, OLD_ID, base)
    assert first != second
    return first, second


@pytest.mark.parametrize("damaged", [0, 1])
@pytest.mark.parametrize("turned", [False, True])
def test_a_damaged_copy_is_never_what_is_read(tmp_path: Path, damaged: int, *, turned: bool) -> None:
    names = two_copies(tmp_path)
    flip(tmp_path, names[damaged])
    store = ObjectStore(open_backend(str(tmp_path)))
    for name in names[:: -1 if turned else 1]:
        store.catalog.attach(name)
    assert store.read(Kind.CHUNK, NEW_ID) == NEW


def test_a_copy_in_a_pack_that_no_one_named_is_found(tmp_path: Path) -> None:
    first, second = two_copies(tmp_path)
    flip(tmp_path, first)
    store = ObjectStore(open_backend(str(tmp_path)))
    store.catalog.attach(first)
    assert store.read(Kind.CHUNK, NEW_ID) == NEW
    flip(tmp_path, second)
    with pytest.raises(CorruptionError):
        ObjectStore(open_backend(str(tmp_path))).read(Kind.CHUNK, NEW_ID)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_bases_of_a_chain_have_copies_too(tmp_path: Path, order: tuple[int, ...]) -> None:
    base = put(tmp_path, OLD)
    near = put(tmp_path, NEW, OLD_ID, base)
    third = codes(3, 0.05)
    other = put(tmp_path, OLD, object_id(Kind.CHUNK, third), put(tmp_path, third))
    flip(tmp_path, base)
    store = ObjectStore(open_backend(str(tmp_path)))
    for place in order:
        store.catalog.attach((base, near, other)[place])
    assert store.read(Kind.CHUNK, NEW_ID) == NEW


def test_a_copy_whose_base_is_damaged_gives_way_to_one_that_stands_alone(tmp_path: Path) -> None:
    base = put(tmp_path, OLD)
    near, alone = put(tmp_path, NEW, OLD_ID, base), put(tmp_path, NEW)
    flip(tmp_path, base)
    store = ObjectStore(open_backend(str(tmp_path)))
    for name in (base, near, alone):
        store.catalog.attach(name)
    assert store.read(Kind.CHUNK, NEW_ID) == NEW
    (tmp_path / pack_path(base)).unlink()
    store = ObjectStore(open_backend(str(tmp_path)))
    for name in (near, alone):
        store.catalog.attach(name)
    assert store.read(Kind.CHUNK, NEW_ID) == NEW


@pytest.mark.parametrize("length", [len(NEW), SMALL + 1])
def test_a_writer_counts_only_whole_copies_as_stored(tmp_path: Path, length: int) -> None:
    """What is small is looked at also where it is only referred to."""
    content = (NEW * (length // len(NEW) + 1))[:length]
    store = ObjectStore(open_backend(str(tmp_path)))
    first = ObjectWriter(store)
    first.put_codes(StoredCodes(content, 8), None)
    name = last_pack(first)
    flip(tmp_path, name or "")
    for leant_on, written in ((False, length <= SMALL), (True, length > SMALL)):
        store.verification.begin()
        writer = ObjectWriter(store)
        writer.put_codes(StoredCodes(content, 8), None, leant_on=leant_on)
        assert bool(last_pack(writer)) is written
    fresh = ObjectStore(open_backend(str(tmp_path)))
    assert fresh.read(Kind.CHUNK, object_id(Kind.CHUNK, content)) == content


def patrolled(folder: Path) -> tuple[ObjectStore, FaultyBackend]:
    backend = FaultyBackend(open_backend(str(folder)))
    return ObjectStore(backend), backend


def test_a_patrol_comes_by_everything_and_reads_no_more_than_it_may(tmp_path: Path) -> None:
    names = [put(tmp_path, codes(seed)) for seed in range(4)]
    total = sum((tmp_path / pack_path(name)).stat().st_size for name in names)
    position, share = PatrolPosition(), 200
    for number in range(1, 200):
        position = Patrol(patrolled(tmp_path)[0]).go_on(position, share, now=number)
        if position.before is not None:
            break
    assert (position.pack, position.before) == ("", 1)
    # All bytes but the headers of packs, and some footers twice, where a commit ended within a pack.
    assert total - 4 * 16 <= number * share <= 3 * total


def test_what_a_patrol_may_read_is_saved_up_for_an_entry_that_is_larger_but_not_for_ever(
    tmp_path: Path,
) -> None:
    put(tmp_path, codes(0))
    patrol = Patrol(patrolled(tmp_path)[0])
    waiting = patrol.go_on(PatrolPosition(), 10, now=1)
    assert patrol.go_on(waiting, 10, now=2).credit == waiting.credit + 10  # nothing was read for it
    assert 0 < patrol.go_on(waiting, 1 << 40, now=3).credit < 256 << 20


@pytest.mark.parametrize("place", range(4))
def test_a_patrol_finds_damage_that_nothing_leans_on(tmp_path: Path, place: int) -> None:
    names = [put(tmp_path, codes(seed)) for seed in range(4)]
    flip(tmp_path, names[place])
    store, _ = patrolled(tmp_path)
    Patrol(store).go_on(PatrolPosition(), 1 << 20, now=1)
    assert store.catalog.damaged == {(names[place], False, 16)}
    store.catalog.attach_all(names)
    writer = ObjectWriter(store)
    for seed in range(4):
        writer.put_codes(StoredCodes(codes(seed), 8), None)
    again, salt = store.catalog.attach(last_pack(writer) or "").entries
    assert (again.ids, salt.entry) == ((object_id(Kind.CHUNK, codes(place)),), chunk_entry(SALT_BYTES))


def test_threads_that_meet_one_damaged_copy_all_read_the_other(tmp_path: Path) -> None:
    base = put(tmp_path, OLD)
    names = put(tmp_path, NEW), base, put(tmp_path, NEW, OLD_ID, base)
    flip(tmp_path, names[0])
    for _ in range(10):
        store = ObjectStore(open_backend(str(tmp_path)))
        store.catalog.attach_all(names)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _, held=store: held.read(Kind.CHUNK, NEW_ID), range(4)))
        assert [bytes(content) for content in found] == [NEW] * 4
