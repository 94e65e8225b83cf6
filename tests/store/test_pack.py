"""Packs: entries and footers come back; whatever is damaged is found, and never read as something else."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvcs.delta.choose import choose_opaque
from mvcs.delta.element import ElementFormat
from mvcs.delta.encoding import Encoding, decode, encode
from mvcs.errors import CorruptionError, MvcsError, NotFoundError, StateError, UnsupportedFormatError
from mvcs.objects import cbor
from mvcs.objects.ids import Kind, ObjectId, checksum, object_id
from mvcs.progress import SILENT
from mvcs.store.backend import open_backend
from mvcs.store.packs.entry import MAX_RAW, OPAQUE, Entry, EntryBase, Member, frame_start, read_entry
from mvcs.store.packs.footer import HEADER_BYTES, TRAILER_BYTES, Footer, Placed, Tail
from mvcs.store.packs.pack import check_header, name_of, scan
from mvcs.store.packs.written_commit import LastEntry
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.reading.pack_files import pack_path, read_footer
from mvcs.store.writing.writer import ObjectWriter
from mvcs.upkeep.checking.fsck import check_store
from tests.format import examples
from tests.store.packing import PackBuilder

IDS = st.binary(min_size=32, max_size=32).map(ObjectId)
NAMES = st.binary(min_size=32, max_size=32).map(bytes.hex)
ELEMENTS = st.builds(ElementFormat, st.sampled_from([1, 2, 4, 8, 16]), st.booleans())
MEMBERS = st.builds(
    Member, st.sampled_from([Kind.CHUNK, Kind.BLOB, Kind.TREE, Kind.COMMIT]), st.integers(0, 1 << 20)
)
BASES = st.builds(EntryBase, IDS, st.one_of(st.none(), st.integers(0, 99)))
BUNDLES = st.builds(
    Entry,
    st.lists(MEMBERS, min_size=1, max_size=4).map(tuple),
    st.sampled_from([Encoding.RAW, Encoding.ZSTD]),
    ELEMENTS,
)
ALONE = MEMBERS.map(lambda member: (member,))
ONE_BASE = BASES.map(lambda base: (base,))
NEAR = st.builds(Entry, ALONE, st.sampled_from([Encoding.RANS_RESIDUAL, Encoding.DELTA]), ELEMENTS, ONE_BASE)


@st.composite
def groups(draw):
    """An entry of several chunks, alone or each with a base."""
    element = draw(ELEMENTS)
    counts = draw(st.lists(st.integers(0, 1 << 18), min_size=2, max_size=6))
    members = tuple(Member(Kind.CHUNK, count * element.width) for count in counts)
    if draw(st.booleans()):
        return Entry(members, draw(st.sampled_from([Encoding.RANS_PLANES, Encoding.CODES])), element)
    bases = tuple(draw(BASES) for _ in members)
    return Entry(members, draw(st.sampled_from([Encoding.RANS_RESIDUAL, Encoding.DELTA])), element, bases)


ENTRIES = st.one_of(BUNDLES, st.builds(Entry, ALONE, st.just(Encoding.RANS_PLANES), ELEMENTS), NEAR, groups())
SIZES = st.integers(0, 2**61)


@given(ENTRIES, st.binary(max_size=40), st.binary(max_size=10))
def test_entries_come_back(entry, payload, before):
    framed = frame_start(entry, payload) + payload
    assert read_entry(before + framed, len(before)) == (entry, payload, len(before) + len(framed))


@given(st.lists(st.tuples(ENTRIES, st.binary(max_size=40)), max_size=5), st.data())
def test_footers_come_back(items, data):
    builder = PackBuilder()
    for entry, payload in items:
        builder.add(entry, payload, tuple(data.draw(IDS) for _ in entry.members))
    last = data.draw(st.none() | st.builds(LastEntry, st.tuples(*[SIZES] * 4), st.lists(NAMES).map(tuple)))
    pack = builder.finish(last)
    tail = Tail.parse(pack)
    assert tail.pack_length == len(pack)
    assert tail.footer(pack[tail.footer_offset : -TRAILER_BYTES], name_of(pack)) == Footer(
        tuple(builder.entries)
    )
    scanned = [(offset, entry, payload) for offset, entry, payload, _ in scan(pack)]
    assert scanned[: len(items)] == [
        (placed.offset, *item) for placed, item in zip(builder.entries, items, strict=False)
    ]
    assert [payload for *_, payload in scanned[len(items) :]] == ([] if last is None else [last.content])


CONTENTS = {
    Kind.CHUNK: examples.CHUNK * 40,
    Kind.BLOB: examples.BLOB.encode(),
    Kind.TREE: examples.STATE.encode(),
    Kind.COMMIT: examples.COMMIT.encode(),
}
IDENTIFIERS = {kind: object_id(kind, content) for kind, content in CONTENTS.items()}
NEXT = struct.pack("<2f", 1.0, -2.5) * 40
NEXT_ID = object_id(Kind.CHUNK, NEXT)
LATER = [struct.pack("<2f", 1.5, -2.0) * 40, struct.pack("<2f", 1.25, -2.5) * 40]


def small_pack():
    """A pack with a plain chunk, one near it, two near both, and a bundle with a commit."""
    builder = PackBuilder()
    element = ElementFormat(4, floating=True)
    chunk = CONTENTS[Kind.CHUNK]
    payload = encode(Encoding.RANS_PLANES, chunk, element=element)
    builder.add(
        Entry((Member(Kind.CHUNK, len(chunk)),), Encoding.RANS_PLANES, element),
        payload,
        (IDENTIFIERS[Kind.CHUNK],),
    )
    near = encode(Encoding.RANS_RESIDUAL, NEXT, element=element, base=chunk)
    bases = (EntryBase(IDENTIFIERS[Kind.CHUNK]),)
    builder.add(
        Entry((Member(Kind.CHUNK, len(NEXT)),), Encoding.RANS_RESIDUAL, element, bases), near, (NEXT_ID,)
    )
    near = encode(Encoding.RANS_RESIDUAL, b"".join(LATER), element=element, base=chunk + NEXT)
    builder.add(
        Entry(
            tuple(Member(Kind.CHUNK, len(content)) for content in LATER),
            Encoding.RANS_RESIDUAL,
            element,
            (*bases, EntryBase(NEXT_ID)),
        ),
        near,
        tuple(object_id(Kind.CHUNK, content) for content in LATER),
    )
    bundle = [kind for kind in CONTENTS if kind is not Kind.CHUNK]
    encoding, packed = choose_opaque(b"".join(CONTENTS[kind] for kind in bundle))
    members = tuple(Member(kind, len(CONTENTS[kind])) for kind in bundle)
    builder.add(Entry(members, encoding), packed, tuple(IDENTIFIERS[kind] for kind in bundle))
    return builder.finish(LastEntry((320, 0, 0, 1)))


PACK = small_pack()
NAME = name_of(PACK)
OBJECTS = [
    *((kind, IDENTIFIERS[kind], content) for kind, content in CONTENTS.items()),
    (Kind.CHUNK, NEXT_ID, NEXT),
    *((Kind.CHUNK, object_id(Kind.CHUNK, content), content) for content in LATER),
]


class Shelf:
    """A store with one pack whose bytes a test exchanges, without a disk in between."""

    def __init__(self, data):
        self.backend = open_backend("memory://shelf")
        for path in self.backend.list("packs"):
            self.backend.delete(path)
        self.backend.put(pack_path(NAME), data)

    def read_all(self):
        """Read every object; return what was refused, and fail on a wrong value."""
        store = ObjectStore(self.backend)
        refused = 0
        for kind, identifier, content in OBJECTS:
            try:
                assert store.read(kind, identifier) == content
            except (CorruptionError, UnsupportedFormatError, NotFoundError):
                refused += 1
        return refused


def test_the_small_pack_is_whole():
    shelf = Shelf(PACK)
    assert shelf.read_all() == 0
    assert check_store(ObjectStore(shelf.backend), SILENT).ok


@pytest.mark.parametrize("by", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_a_truncated_pack_is_corruption(by):
    for end in range(0, len(PACK), by):
        shelf = Shelf(PACK[:end])
        with pytest.raises(CorruptionError):
            read_footer(shelf.backend, NAME)
        assert shelf.read_all() == len(OBJECTS)


A_BIT_HERE_AND_THERE = [8 * byte + byte % 8 for byte in range(0, len(PACK), 5)]


@pytest.mark.parametrize(
    "bits",
    [A_BIT_HERE_AND_THERE, pytest.param(range(8 * len(PACK)), marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_every_flipped_bit_is_found_by_fsck_and_never_read_as_a_value(bits):
    for bit in bits:
        flipped = bytearray(PACK)
        flipped[bit // 8] ^= 1 << bit % 8
        shelf = Shelf(bytes(flipped))
        shelf.read_all()
        assert not check_store(ObjectStore(shelf.backend), SILENT).ok


def test_every_flipped_bit_of_footer_and_trailer_is_refused():
    start = Tail.parse(PACK).footer_offset
    for bit in range(8 * start, 8 * len(PACK)):
        flipped = bytearray(PACK)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises((CorruptionError, UnsupportedFormatError)):
            read_footer(Shelf(bytes(flipped)).backend, NAME)


def test_bytes_behind_or_missing_inside_are_found():
    with pytest.raises(CorruptionError):
        read_footer(Shelf(PACK + b"\0").backend, NAME)
    shelf = Shelf(PACK[:100] + PACK[101:])
    assert shelf.read_all() > 0
    assert not check_store(ObjectStore(shelf.backend), SILENT).ok


@pytest.mark.parametrize("field", [8, 10, 12])
def test_a_newer_header_is_unsupported(field):
    data = bytearray(PACK)
    data[field] = 3
    with pytest.raises(UnsupportedFormatError):
        check_header(data)
    with pytest.raises(UnsupportedFormatError):
        list(scan(bytes(data)))


@pytest.mark.parametrize("features", [0, 1])
def test_a_pack_of_a_preview_says_so(features):
    header, trailer = bytearray(PACK), bytearray(PACK)
    header[10] = trailer[len(PACK) - TRAILER_BYTES + 18] = features
    with pytest.raises(UnsupportedFormatError, match="written before format 1 was closed"):
        check_header(header)
    with pytest.raises(UnsupportedFormatError, match="written before format 1 was closed"):
        read_footer(Shelf(bytes(trailer)).backend, NAME)


@pytest.mark.parametrize("field", [16, 18, 20])
def test_a_newer_trailer_is_unsupported(field):
    data = bytearray(PACK)
    data[len(PACK) - TRAILER_BYTES + field] = 3
    with pytest.raises(UnsupportedFormatError) as caught:
        read_footer(Shelf(bytes(data)).backend, NAME)
    assert caught.value.hint is not None


def test_one_newer_pack_does_not_hide_the_others():
    shelf = Shelf(PACK)
    newer = bytearray(PACK)
    newer[len(PACK) - TRAILER_BYTES + 16] = 2
    shelf.backend.put(pack_path("0" * 64), bytes(newer))
    assert ObjectStore(shelf.backend).read(Kind.TREE, IDENTIFIERS[Kind.TREE]) == CONTENTS[Kind.TREE]


def refooted(value=None, stored=None, offset=None):
    """The small pack with another footer, and a trailer that fits it."""
    start = Tail.parse(PACK).footer_offset if offset is None else offset
    raw = b"" if value is None else cbor.dumps(value)
    stored = bytes([Encoding.RAW]) + raw if stored is None else stored
    numbers = struct.pack("<QIIHHI", start, len(stored), len(raw), 1, 2, 0)
    return PACK[:start] + stored + numbers + checksum(numbers + stored) + b"MVCSTAIL"


def footer_value():
    tail = Tail.parse(PACK)
    encoding, *_ = stored = PACK[tail.footer_offset : -TRAILER_BYTES]
    return cbor.loads(decode(Encoding(encoding), stored[1:], lengths=[tail.raw_length], element=OPAQUE))


def changed(path, new):
    value = footer_value()
    if not path:
        return new
    part = value
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = new
    return value


@pytest.mark.parametrize(
    ("path", "new", "error"),
    [
        ((), [], CorruptionError),
        ((), None, CorruptionError),
        ((0, 0), 17, CorruptionError),
        ((0, 0), -1, CorruptionError),
        ((0, 1), 2**62, CorruptionError),
        ((0, 1), 0, CorruptionError),
        ((0, 3), [], CorruptionError),
        ((0, 3, 0), b"short", CorruptionError),
        ((0, 2, 0), [], CorruptionError),
        ((0, 2, 0, 0, 0), 8, UnsupportedFormatError),
        ((0, 2, 0, 0, 1), 2**27, CorruptionError),
        ((0, 2, 1), 12, UnsupportedFormatError),
        ((0, 2, 1), 2, UnsupportedFormatError),
        ((0, 2, 1), 3, UnsupportedFormatError),
        ((0, 2, 2), 5, UnsupportedFormatError),
        ((0, 2, 3), [bytes(16)], CorruptionError),
        ((1, 2, 3), None, CorruptionError),
        ((1, 2, 3), [], CorruptionError),
        ((1, 2, 3), [bytes(16), bytes(16)], CorruptionError),
        ((1, 2, 3), [bytes(32)], CorruptionError),
        ((1, 2, 3), bytes(32), CorruptionError),
        ((1, 2, 3, 0), [bytes(16), -1], CorruptionError),
        ((2, 2, 0, 0, 0), 4, CorruptionError),
        *(((2, 2, 0, 0, 0), kind, UnsupportedFormatError) for kind in (1, 2, 6, 7)),
        ((2, 2, 0, 0, 1), 319, CorruptionError),
        ((2, 2, 0, 0, 1), 2**24, CorruptionError),
        ((2, 2, 3), [bytes(16)], CorruptionError),
        ((2, 2, 1), 10, CorruptionError),
        ((3, 2, 1), 9, CorruptionError),
    ],
)
def test_malformed_footers_are_refused(path, new, error):
    assert read_footer(Shelf(refooted(footer_value())).backend, NAME).entries
    with pytest.raises(error):
        read_footer(Shelf(refooted(changed(path, new))).backend, NAME)


@pytest.mark.parametrize("encoding", range(2, 13))
def test_a_footer_is_raw_or_zstd(encoding):
    with pytest.raises((CorruptionError, UnsupportedFormatError)):
        read_footer(Shelf(refooted(stored=bytes([encoding]) + b"\x80")).backend, NAME)


@pytest.mark.parametrize("numbers", [(0, 5, 5), (2**40, 5, 5), (64, 0, 0), (64, 2**29, 5), (64, 5, 2**29)])
def test_impossible_trailers_are_refused(numbers):
    with pytest.raises(CorruptionError):
        Tail.parse(struct.pack("<QIIHHI", *numbers, 1, 2, 0) + bytes(16) + b"MVCSTAIL")


def test_a_footer_that_lies_about_an_id_costs_an_error():
    value = changed((0, 3, 0), bytes(32))
    with pytest.raises(CorruptionError, match="does not hash to its id"):
        ObjectStore(Shelf(refooted(value)).backend).read(Kind.TREE, bytes(32))


def test_a_footer_that_claims_an_object_for_one_entry_more_hides_nothing():
    value = changed((0, 3, 0), bytes(IDENTIFIERS[Kind.TREE]))
    content = next(content for kind, _, content in OBJECTS if kind is Kind.TREE)
    assert ObjectStore(Shelf(refooted(value)).backend).read(Kind.TREE, IDENTIFIERS[Kind.TREE]) == content


def test_bases_in_a_circle_are_corruption():
    """Two entries that are each other's base cannot be hashed, only claimed; a reader gives up."""
    builder = PackBuilder()
    one, two = (object_id(Kind.CHUNK, name) for name in (b"one", b"two"))
    member = (Member(Kind.CHUNK, 4),)
    for identifier, base in ((one, two), (two, one)):
        builder.add(Entry(member, Encoding.DELTA, OPAQUE, (EntryBase(base),)), b"\0", (identifier,))
    store = ObjectStore(Shelf(builder.finish()).backend)
    store.catalog.attach(NAME)
    with pytest.raises(CorruptionError):
        store.read(Kind.CHUNK, one)
    with pytest.raises(CorruptionError):
        store.catalog.chain_of(store.catalog.locate(one))


@pytest.mark.parametrize(
    "base",
    [
        EntryBase(IDENTIFIERS[Kind.CHUNK]),
        EntryBase(examples.TENSOR.id, 0),
        EntryBase(examples.QUANTIZED.id, 0),
    ],
)
def test_bases_that_do_not_fit_are_refused(base):
    builder = PackBuilder()
    # Where the object has another copy, that one is read.
    name = object_id(Kind.CHUNK, b"lies")
    builder.add(Entry((Member(Kind.CHUNK, 4),), Encoding.DELTA, OPAQUE, (base,)), b"\0", (name,))
    shelf = Shelf(PACK)
    data = builder.finish()
    shelf.backend.put(pack_path(name_of(data)), data)
    store = ObjectStore(shelf.backend)
    store.catalog.attach(name_of(data))
    with pytest.raises((CorruptionError, NotFoundError)):
        store.read(Kind.CHUNK, name)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(data):
    with pytest.raises(MvcsError):
        Tail.parse(data)
    with pytest.raises(MvcsError):
        read_entry(data)
    with suppress(CorruptionError, UnsupportedFormatError):
        assert list(scan(PACK[:HEADER_BYTES] + data)) == []


@given(st.binary(max_size=60))
def test_arbitrary_footers_are_refused(raw):
    tail = Tail(Tail.parse(PACK).footer_offset, len(raw) + 1, len(raw), b"")
    with suppress(CorruptionError, UnsupportedFormatError):
        assert Footer.decode(raw, tail).entries


def test_a_pack_is_found_under_its_name_alone(tmp_path):
    backend = open_backend(str(tmp_path))
    with pytest.raises(NotFoundError):
        read_footer(backend, NAME)
    assert pack_path(NAME) == f"packs/{NAME[:2]}/{NAME}.pack"
    assert pack_path(NAME, exact=True) == f"exact/{NAME[:2]}/{NAME}.pack"


def test_a_builder_fills_packs_up_to_their_limit():
    builder = PackBuilder()
    assert builder.fits(1 << 30)  # alone in its pack
    builder.add(Entry((Member(Kind.CHUNK, 1),), Encoding.RAW), b"x", (NEXT_ID,))
    assert builder.fits(1 << 20)
    assert not builder.fits(64 << 20)
    assert isinstance(builder.entries[0], Placed)


def test_what_is_larger_than_an_entry_may_be_is_refused_when_written(tmp_path):
    writer = ObjectWriter(ObjectStore(open_backend(str(tmp_path))))
    with pytest.raises(StateError, match="67108865 bytes"):
        writer.put(Kind.TREE, bytes(MAX_RAW + 1))


@pytest.mark.parametrize("bit", [0, 7])
def test_every_byte_of_a_pack_is_covered_by_its_name(bit):
    for place in range(len(PACK)):
        data = bytearray(PACK)
        data[place] ^= 1 << bit
        assert name_of(bytes(data)) != NAME
    for end in range(len(PACK)):
        assert name_of(PACK[:end]) != NAME
    assert name_of(PACK + b"\0") != NAME
    assert name_of(PACK) == NAME
