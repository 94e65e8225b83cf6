"""Several chunks in one entry, each near a base of its own."""

import itertools
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mvcs.delta.element import ElementFormat
from mvcs.delta.encoding import Encoding, decode, encode
from mvcs.errors import CorruptionError, NotFoundError, UnsupportedFormatError
from mvcs.objects.ids import Kind, ObjectId, object_id
from mvcs.store.backend import open_backend
from mvcs.store.packs.entry import OPAQUE, Entry, EntryBase, Member, frame_start, read_entry
from mvcs.store.reading.chains import Chain, Weight
from mvcs.store.reading.located import Located
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.reading.pack_files import pack_path
from mvcs.store.writing.chain_limits import RestoreLimits
from mvcs.store.writing.near_bases import Near
from mvcs.store.writing.writer import ObjectWriter, StoredCodes
from tests.format import page
from tests.store.faults import FaultyBackend
from tests.store.packing import PackBuilder, last_pack

FLOAT = ElementFormat(4, floating=True)
OLD = [bytes([0, 1, 2, 3, 0, 1, 2, 3]), bytes([1, 1, 1, 1])]
NEW = [bytes([0, 1, 2, 3, 0, 1, 2, 2]), bytes([1, 1, 2, 1])]


def chunk_id(content: bytes) -> ObjectId:
    return object_id(Kind.CHUNK, content)


def entries(store: ObjectStore, name: str) -> list[Entry]:
    """Return those of a pack but the last, which makes it unlike any other."""
    return [placed.entry for placed in store.catalog.attach(name).entries[:-1]]


def test_the_group_on_the_page() -> None:
    data = page.blocks("packs.md")["group"]
    entry, payload, end = read_entry(data)
    assert end == len(data)
    members = (Member(Kind.CHUNK, 8), Member(Kind.CHUNK, 4))
    bases = tuple(EntryBase(chunk_id(content)) for content in OLD)
    assert entry == Entry(members, Encoding.DELTA, OPAQUE, bases)
    assert frame_start(entry, payload) + payload == data
    content = decode(
        entry.encoding, payload, lengths=entry.lengths, element=entry.element, base=b"".join(OLD)
    )
    assert content == b"".join(NEW)


def codes(seed: int, *counts: int, moved: float = 0.0) -> list[bytes]:
    """Chunks of codes below 16, of which a part differs from seed to seed."""
    start, later = np.random.default_rng(0), np.random.default_rng(seed)
    found = []
    for count in counts:
        content = start.integers(0, 15, count, np.uint8)
        content[later.random(count) < moved] += 1
        found.append(content.tobytes())
    return found


def put_all(writer: ObjectWriter, contents: list[bytes], bases: list[bytes] | None = None) -> str:
    for place, content in enumerate(contents):
        writer.put_codes(StoredCodes(content, 16), chunk_id(bases[place]) if bases else None)
    name = last_pack(writer)
    assert name
    return name


def test_each_exact_chunk_is_near_its_base_only_where_that_is_smaller(tmp_path: Path) -> None:
    """First moments are new at every commit and second ones are not; both are moments and small."""
    store, random = ObjectStore(open_backend(str(tmp_path))), np.random.default_rng(0)
    root = random.standard_normal((4, 5000))
    moments = []
    for _ in range(2):
        first = (root * random.standard_normal((4, 5000)) * 1e-3).astype(np.float32)
        second = (root**2 * np.exp(0.01 * random.standard_normal((4, 5000)))).astype(np.float32)
        moments.append([row.tobytes() for pair in zip(first, second, strict=True) for row in pair])
    names, old = [], [None] * 8
    for contents in moments:
        writer = ObjectWriter(store)
        for content, base in zip(contents, old, strict=True):
            near = Near(EntryBase(chunk_id(base)), lambda base=base: base) if base else None
            writer.put_chunk(content, FLOAT, near, company="moment")
        names.append(last_pack(writer))
        old = contents
    alone, near = sorted(entries(store, names[1]), key=lambda entry: len(entry.bases))
    assert (alone.encoding, len(alone.members)) == (Encoding.RANS_PLANES, 4)
    assert near.encoding is Encoding.RANS_RESIDUAL
    assert set(near.bases) == {EntryBase(chunk_id(content)) for content in moments[0][1::2]}
    for content in moments[1]:
        assert ObjectStore(open_backend(str(tmp_path))).read(Kind.CHUNK, chunk_id(content)) == content


def test_small_chunks_share_an_entry_and_are_read_one_by_one(tmp_path: Path) -> None:
    store = ObjectStore(open_backend(str(tmp_path)))
    old, new = codes(0, 700, 90, 5000), codes(1, 700, 90, 5000, moved=0.1)
    names = [put_all(ObjectWriter(store), old)]
    writer = ObjectWriter(store)
    names.append(put_all(writer, new, old))
    assert writer.depth == 1
    assert writer.placement.others == (names[0],)
    [alone], [near] = (entries(store, name) for name in names)
    assert (len(alone.members), alone.bases) == (3, ())
    assert near.bases == tuple(EntryBase(chunk_id(content)) for content in old)
    for content in [*old, *new]:
        fresh = ObjectStore(open_backend(str(tmp_path)))
        fresh.catalog.attach_all(names)
        assert fresh.read(Kind.CHUNK, chunk_id(content)) == content


def test_members_may_have_bases_of_different_ages(tmp_path: Path) -> None:
    """A chunk that did not change for a while is nearest to an old entry, the others to the last one."""
    store = ObjectStore(open_backend(str(tmp_path)))
    states = [codes(step, 4000, 4000, 4000, moved=0.05 * (step > 0)) for step in range(6)]
    for step in (1, 3):
        states[step][1] = states[step - 1][1]
    states[5][2] = states[4][2]
    names = [put_all(ObjectWriter(store), states[0])]
    for old, new in pairwise(states):
        names.append(put_all(ObjectWriter(store), new, old))
    fresh = ObjectStore(open_backend(str(tmp_path)))
    fresh.catalog.attach_all(names)
    for content in {content for state in states for content in state}:
        assert fresh.read(Kind.CHUNK, chunk_id(content)) == content
        chain = fresh.catalog.chain_of(fresh.catalog.locate(chunk_id(content)))
        assert len(chain.links) == len({link.place for link in chain.links}) <= len(names)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_history_of_small_chunks_comes_back(data: st.DataObject) -> None:
    """Some chunks move, some stay, some are new, some of another length: all are read, within the limits."""
    backend = open_backend("memory://groups")
    for path in backend.list("packs"):
        backend.delete(path)
    store = ObjectStore(backend)
    limits = RestoreLimits(data.draw(st.integers(0, 4)), data.draw(st.sampled_from([1.0, 1.5, 3.0])))
    sizes = data.draw(st.lists(st.integers(0, 300), min_size=1, max_size=5))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    state = [random.integers(0, 16, size, np.uint8) for size in sizes]
    wanted: dict[ObjectId, bytes] = {}
    for _ in range(data.draw(st.integers(1, 6))):
        old, writer = [chunk.tobytes() for chunk in state], ObjectWriter(store, limits=limits)
        for chunk in state:
            if data.draw(st.booleans()):
                chunk[random.random(chunk.size) < 0.1] ^= 1
        for before, chunk in zip(old, state, strict=True):
            wanted[writer.put_codes(StoredCodes(chunk.tobytes(), 16), chunk_id(before))] = chunk.tobytes()
        writer.finish()
        assert writer.depth <= limits.max_depth
    fresh = ObjectStore(backend)
    assert fresh.catalog.attach_everything() == []
    for identifier, content in wanted.items():
        assert fresh.read(Kind.CHUNK, identifier) == content
        assert fresh.catalog.chain_of(fresh.catalog.locate(identifier)).depth <= limits.max_depth


def test_exact_chunks_share_entries_by_format(tmp_path: Path) -> None:
    store = ObjectStore(open_backend(str(tmp_path)))
    random = np.random.default_rng(0)
    floats = [random.standard_normal(count).astype(np.float32) for count in (500, 800)]
    steps = [random.integers(0, 9, count) for count in (100, 200)]
    first, second = ObjectWriter(store), ObjectWriter(store)
    for value in floats:
        first.put_chunk(value.tobytes(), FLOAT)
    for value in steps:
        first.put_chunk(value.tobytes(), ElementFormat(8, floating=False))
    names = [str(last_pack(first))]
    assert [len(entry.members) for entry in entries(store, names[0])] == [2, 2]
    for value in floats:
        base = EntryBase(chunk_id(value.tobytes()))
        second.put_chunk((value * np.float32(1.0001)).tobytes(), FLOAT, near(store, base))
    names.append(str(last_pack(second)))
    [entry] = entries(store, names[1])
    assert len(entry.bases) == len(entry.members) == 2
    fresh = ObjectStore(open_backend(str(tmp_path)))
    fresh.catalog.attach_all(names)
    for value in floats:
        content = (value * np.float32(1.0001)).tobytes()
        assert fresh.read(Kind.CHUNK, chunk_id(content)) == content


def near(store: ObjectStore, base: EntryBase) -> Near:
    return Near(base, lambda: store.read(Kind.CHUNK, base.id))


def test_the_codes_of_the_last_commit_are_not_read_again(tmp_path: Path) -> None:
    """They are in memory; only where every commit looks at what it leans on, their stored bytes are read."""
    for near in (False, True):
        backend = FaultyBackend(open_backend(str(tmp_path / str(near))))
        backend.near = near
        store, old, new = ObjectStore(backend), codes(0, 3000), codes(1, 3000, moved=0.1)
        put_all(ObjectWriter(store), old)
        backend.reads.clear()
        store.verification.begin()
        last = put_all(ObjectWriter(store), new, old)
        assert entries(store, last)[0].bases == (EntryBase(chunk_id(old[0])),)
        assert len(backend.reads) == 2 * near


def test_bases_in_memory_whose_pack_is_gone_are_not_leant_on(tmp_path: Path) -> None:
    store = ObjectStore(open_backend(str(tmp_path)))
    old, new = codes(0, 3000), codes(1, 3000, moved=0.1)
    name = put_all(ObjectWriter(store), old)
    (tmp_path / pack_path(name)).unlink()
    store.verification.begin()
    last = put_all(ObjectWriter(store), new, old)
    fresh = ObjectStore(open_backend(str(tmp_path)))
    fresh.catalog.attach(last)
    assert fresh.read(Kind.CHUNK, chunk_id(new[0])) == new[0]


def shelf(packs: dict[str, bytes]) -> ObjectStore:
    backend = open_backend("memory://hostile")
    for path in backend.list("packs"):
        backend.delete(path)
    for name, data in packs.items():
        backend.put(pack_path(name), data)
    store = ObjectStore(backend)
    store.catalog.attach_everything()
    return store


def claimed(*links: tuple[bytes, list[bytes]]) -> bytes:
    """A pack of entries that claim to be objects of these names, near others."""
    builder = PackBuilder()
    for name, bases in links:
        members = tuple(Member(Kind.CHUNK, 4) for _ in bases)
        ids = [chunk_id(name + bytes([place])) for place in range(len(bases))]
        entry = Entry(members, Encoding.DELTA, OPAQUE, tuple(EntryBase(chunk_id(base)) for base in bases))
        builder.add(entry, b"\0", tuple(ids))
    return builder.finish()


@pytest.mark.parametrize(
    "links",
    [
        [(b"a", [b"a\0"])],
        [(b"a", [b"a\1", b"a\0"])],
        [(b"a", [b"b\0", b"b\1"]), (b"b", [b"c\0", b"c\0"]), (b"c", [b"a\0"])],
    ],
)
def test_bases_in_a_circle_of_entries_are_corruption(links: list[tuple[bytes, list[bytes]]]) -> None:
    store = shelf({"0" * 64: claimed(*links)})
    with pytest.raises(CorruptionError, match="circle"):
        store.read(Kind.CHUNK, chunk_id(b"a\0"))


def pack_of(content: bytes, base: bytes | None) -> bytes:
    """A pack of one chunk, near another or alone."""
    builder, member = PackBuilder(), (Member(Kind.CHUNK, len(content)),)
    entry, payload = Entry(member, Encoding.RAW), content
    if base is not None:
        entry = Entry(member, Encoding.DELTA, OPAQUE, (EntryBase(chunk_id(base)),))
        payload = bytes(encode(Encoding.DELTA, content, element=OPAQUE, base=base, levels=4))
    builder.add(entry, payload, (chunk_id(content),))
    return builder.finish()


@pytest.mark.parametrize("order", [*itertools.permutations(range(4))], ids=str)
def test_copies_that_were_stored_the_other_way_round_make_no_circle(order: tuple[int, ...]) -> None:
    """While a chain is turned round, its old packs lie beside the new ones."""
    older, later = OLD[0], NEW[0]
    packs = [pack_of(older, None), pack_of(later, older), pack_of(older, later), pack_of(later, None)]
    store = shelf({str(place) * 64: packs[number] for place, number in enumerate(order)})
    for content in (older, later):
        assert store.read(Kind.CHUNK, chunk_id(content)) == content
        assert all(store.catalog.depth_of(each) <= 2 for each in copies_of(store, chunk_id(content)))


@pytest.mark.parametrize("order", [*itertools.permutations(range(4))], ids=str)
def test_another_copy_is_taken_where_the_first_leads_back_farther_down(order: tuple[int, ...]) -> None:
    """Of the last and the first there is one copy each, so that the one between has to be read elsewhere."""
    first, between, last = OLD[0], NEW[0], bytes(reversed(OLD[0]))
    packs = [pack_of(first, between), pack_of(between, last), pack_of(last, first), pack_of(between, None)]
    store = shelf({str(place) * 64: packs[number] for place, number in enumerate(order)})
    for content in (first, between, last):
        assert store.read(Kind.CHUNK, chunk_id(content)) == content


def copies_of(store: ObjectStore, identifier: ObjectId) -> list[Located]:
    return store.catalog._index._strays.of(identifier)


def test_bases_that_fan_out_are_followed_once_each() -> None:
    """Twenty levels of two members that both need both members below: a million ways, twenty entries."""
    links = [(bytes([level]), [bytes([level + 1, 0]), bytes([level + 1, 1])]) for level in range(20)]
    store = shelf({"0" * 64: claimed(*links)})
    with pytest.raises(NotFoundError):
        store.catalog.chain_of(store.catalog.locate(chunk_id(b"\0\0")))
    ends = PackBuilder()
    members = (Member(Kind.CHUNK, 4), Member(Kind.CHUNK, 4))
    ids = (chunk_id(bytes([20, 0])), chunk_id(bytes([20, 1])))
    ends.add(Entry(members, Encoding.RAW), bytes(8), ids)
    store = shelf({"0" * 64: claimed(*links), "1" * 64: ends.finish()})
    chain = store.catalog.chain_of(store.catalog.locate(chunk_id(b"\0\0")))
    assert (len(chain.links), chain.depth) == (21, 20)


def test_chains_without_end_are_given_up() -> None:
    links = [(level.to_bytes(2, "big"), [(level + 1).to_bytes(2, "big") + b"\0"]) for level in range(5000)]
    store = shelf({"0" * 64: claimed(*links)})
    with pytest.raises(CorruptionError, match="do not end"):
        store.read(Kind.CHUNK, chunk_id(b"\0\0\0"))


def test_entries_that_need_too_much_memory_at_once_are_given_up() -> None:
    """A pack of a few hundred bytes that claims to need thirty decoded entries of 64 MiB."""
    size, builder = 64 << 20, PackBuilder()
    names = [bytes([number]) for number in range(30)]
    for name in names:
        builder.add(Entry((Member(Kind.CHUNK, size),), Encoding.ZSTD), b"\0", (chunk_id(name),))
    members = tuple(Member(Kind.CHUNK, size // 32) for _ in names)
    bases = tuple(EntryBase(chunk_id(name)) for name in names)
    top = Entry(members, Encoding.DELTA, ElementFormat(16, floating=False), bases)
    builder.add(top, b"\0", tuple(chunk_id(name + b"top") for name in names))
    store = shelf({"0" * 64: builder.finish()})
    with pytest.raises(CorruptionError, match="memory"):
        store.read(Kind.CHUNK, chunk_id(names[0] + b"top"))


def test_a_base_of_another_length_is_corruption() -> None:
    ends = PackBuilder()
    ends.add(Entry((Member(Kind.CHUNK, 5),), Encoding.RAW), bytes(5), (chunk_id(b"base"),))
    store = shelf({"0" * 64: claimed((b"a", [b"base"])), "1" * 64: ends.finish()})
    with pytest.raises(CorruptionError, match="another length"):
        store.read(Kind.CHUNK, chunk_id(b"a\0"))


def test_a_tree_is_stored_near_its_parents(tmp_path: Path) -> None:
    store = ObjectStore(open_backend(str(tmp_path)))
    random = np.random.default_rng(0)
    content = b"".join(b"layer %d: " % number + random.bytes(32) for number in range(100))
    wanted, names, before = [], [], None
    for number in range(8):
        content = content.replace(b"layer %d: " % number, b"layer %d, moved: " % number)
        writer = ObjectWriter(store, limits=RestoreLimits(max_depth=5))
        before = writer.put(Kind.TREE, content, before)
        wanted.append((before, content))
        names.append(str(last_pack(writer)))
        assert writer.depth == number % 6
    encodings = [entries(store, name)[0].encoding for name in names]
    assert encodings.count(Encoding.ZSTD_DELTA) == 6
    fresh = ObjectStore(open_backend(str(tmp_path)))
    fresh.catalog.attach_all(names)
    for identifier, tree in wanted:
        assert fresh.read(Kind.TREE, identifier) == tree


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("count", [40, 3000, 100_000])
def test_half_precision_weights_are_nothing_beside_their_masters(
    tmp_path: Path, count: int, *, exact: bool
) -> None:
    store = ObjectStore(open_backend(str(tmp_path)))
    masters = [np.random.default_rng(seed).standard_normal(count).astype(np.float32) for seed in range(3)]
    writer, half = ObjectWriter(store, exact=exact), ElementFormat(2, floating=True)
    wanted = {}
    for place, master in enumerate(masters):
        wide = writer.put_chunk(master.tobytes(), FLOAT)
        narrow = master.astype(np.float16)
        narrow[0] += np.float16(place == 2)  # one that was rounded in some other way
        source = Near(EntryBase(wide), master.tobytes)
        wanted[wide] = master.tobytes()
        wanted[writer.put_chunk(narrow.tobytes(), half, None, source)] = narrow.tobytes()
    stranger = Near(EntryBase(chunk_id(b"elsewhere")), masters[0].tobytes)
    lost = masters[0].astype(np.float16)[::-1].tobytes()
    wanted[writer.put_chunk(lost, half, None, stranger)] = lost
    writer.finish()
    fresh = ObjectStore(open_backend(str(tmp_path)))
    fresh.catalog.attach_all(writer.packs, exact=exact)
    found = {name: fresh.catalog.locate(name, exact=exact).placed.entry for name in wanted}
    assert sum(entry.encoding is Encoding.NARROWED for entry in found.values()) == 2
    for name, content in wanted.items():
        assert fresh.read(Kind.CHUNK, name, exact=exact) == content


def test_no_value_needs_an_exact_layer(tmp_path: Path) -> None:
    """Exact layers are dropped, so what they hold is no base for others."""
    store = ObjectStore(open_backend(str(tmp_path)))
    old, new = codes(0, 5000), codes(1, 5000, moved=0.1)
    layer = ObjectWriter(store, exact=True)
    put_all(layer, old)
    for writer in (ObjectWriter(store), ObjectWriter(store, exact=True)):
        put_all(writer, new, old)
        entry = store.catalog.locate(chunk_id(new[0]), exact=True).placed.entry
        assert entry.bases == ()


@pytest.mark.parametrize("by", [13, pytest.param(3, marks=pytest.mark.slow)])
def test_damaged_packs_of_groups_are_never_read_as_something_else(tmp_path: Path, by: int) -> None:
    store = ObjectStore(open_backend(str(tmp_path)))
    old, new = codes(0, 80, 90), codes(1, 80, 90, moved=0.1)
    names = [put_all(ObjectWriter(store), old), put_all(ObjectWriter(store), new, old)]
    packs = {name: store.backend.read(pack_path(name)) for name in names}
    for name in names:
        for bit in range(0, 8 * len(packs[name]), by):
            data = bytearray(packs[name])
            data[bit // 8] ^= 1 << bit % 8
            damaged = shelf({**packs, name: bytes(data)})
            for content in [*old, *new]:
                with suppress(CorruptionError, NotFoundError, UnsupportedFormatError):
                    assert damaged.read(Kind.CHUNK, chunk_id(content)) == content


@pytest.mark.parametrize("floating", [False, True])
def test_integers_of_two_bytes_are_priced_as_what_they_are(*, floating: bool) -> None:
    entry = Entry((Member(Kind.CHUNK, 1000),), Encoding.RANS_PLANES, ElementFormat(2, floating=floating))
    chain = Chain((), {}, 1)
    weight = Weight(stored=100, raw=1000, cost=1000)
    vars(chain).update(snapshots=weight, deltas=weight)
    assert not RestoreLimits(max_cost=1.75).pays(entry, Encoding.RANS_RESIDUAL, chain)
    assert RestoreLimits(max_cost=2.25).pays(entry, Encoding.RANS_RESIDUAL, chain)
