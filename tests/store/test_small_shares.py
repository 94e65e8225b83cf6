"""Where memory has hardly any room, less is kept and the same comes back."""

from collections.abc import Iterator

import numpy as np
import pytest

from mvcs import memory
from mvcs.delta import ElementFormat
from mvcs.memory import NOTHING, Budget, Use, held
from mvcs.objects import Kind, NodeTag, Tree
from mvcs.store.backend import open_backend
from mvcs.store.reading.decoded_entries import LEAST, MAX_BYTES, EntryCache
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.writing.writer import ObjectWriter, StoredCodes
from tests.store.packing import last_pack

ROOMY = Budget(96 << 30)


@pytest.fixture(autouse=True, scope="module")
def _nothing_held() -> Iterator[None]:
    """What other tests of this process still hold is not counted here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "_HOLDERS", {use: memory.Holders() for use in Use})
        yield


def place(number, pack="pack"):
    return pack, False, number


def held_of(cache, count):
    return [number for number in range(count) if cache.find(place(number)) is not None]


def test_a_few_entries_stay_whatever_the_share():
    cache = EntryCache(NOTHING)
    for number in range(10):
        cache.add(place(number), b"content")
    assert held_of(cache, 10) == list(range(10))[-LEAST:]


def test_the_entry_that_was_not_used_for_longest_goes_first():
    cache = EntryCache(Budget(96 * 4 * 100 // 8))  # a store may have 100 bytes
    for number in range(10):
        cache.add(place(number), bytes(10))
    assert cache.find(place(0))
    cache.add(place(10), bytes(15))
    assert held_of(cache, 11) == [0, 3, 4, 5, 6, 7, 8, 9, 10]
    assert held(Use.CACHES) == 95


def test_no_store_takes_the_room_of_another():
    caches = [EntryCache(ROOMY) for _ in range(5)]
    for cache in caches:
        for number in range(9):
            cache.add(place(number), bytes(MAX_BYTES // 8))
    assert [len(held_of(cache, 9)) for cache in caches] == [8, 8, 8, 8, LEAST]
    assert held(Use.CACHES) <= ROOMY.limit(Use.CACHES)


def test_what_is_let_go_of_makes_room():
    cache = EntryCache(ROOMY)
    cache.add(place(0, "one"), b"1")
    cache.add(place(0, "other"), b"22")
    cache.keep({"other"})
    assert cache.find(place(0, "one")) is None
    assert cache.find(place(0, "other")) == b"22"
    assert held(Use.CACHES) == 2
    cache.clear()
    assert held(Use.CACHES) == 0


@pytest.mark.parametrize(("budget", "entries"), [(ROOMY, 2), (Budget(96 * 4000 // 3), 30), (NOTHING, 100)])
def test_chunks_that_find_no_room_to_wait_share_entries_with_fewer(tmp_path, budget, entries):
    store, random = ObjectStore(open_backend(str(tmp_path)), budget), np.random.default_rng(0)
    writer = ObjectWriter(store)
    codes = [random.integers(0, 9, 1000, np.uint8).tobytes() for _ in range(50)]
    floats = [random.standard_normal(300, np.float32).tobytes() for _ in range(50)]
    for code, content in zip(codes, floats, strict=True):
        writer.put_codes(StoredCodes(code), None)
        writer.put_chunk(content, ElementFormat(4, floating=True))
    pack = last_pack(writer)
    assert held(Use.GATHERED) == 0
    fresh = ObjectStore(open_backend(str(tmp_path)), budget)
    *written, _ = fresh.catalog.attach(pack).entries  # the last one makes the pack unlike any other
    assert len(written) >= entries
    assert (len(written) == 2) == (budget is ROOMY)
    found = {bytes(fresh.read(Kind.CHUNK, name)) for entry in written for name in entry.ids}
    assert found == {*codes, *floats}


@pytest.mark.parametrize("memory", [ROOMY, NOTHING])
def test_a_tree_is_decoded_once_where_there_is_room(tmp_path, memory):
    backend = open_backend(str(tmp_path))
    writer = ObjectWriter(ObjectStore(backend))
    kept = Tree((), root=[int(NodeTag.DICT), [["a", 1]]])
    writer.put(Kind.TREE, kept.encode())
    writer.finish()
    store = ObjectStore(backend, memory)
    first, again = store.tree(kept.id), store.tree(kept.id)
    assert first == again == kept
    assert (first is again) == (memory is ROOMY)
    store.culprit(Kind.TREE, store.catalog.locate(kept.id))  # as where something turned out to be damaged
    assert store.tree(kept.id) is not again


def test_a_tree_that_was_written_is_not_decoded(tmp_path):
    store = ObjectStore(open_backend(str(tmp_path)), ROOMY)
    tree = Tree((), root=[int(NodeTag.LIST)])
    store.last_tree.note(tree.id, tree, len(tree.encode()))
    assert store.tree(tree.id) is tree
