"""How much a pack may claim to hold: what exceeds it is refused as it is read, and no writer makes it."""

from itertools import pairwise
from pathlib import Path

import pytest

from mvcs.delta.element import ElementFormat
from mvcs.delta.encoding import Encoding, encode
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.objects import cbor
from mvcs.objects.ids import Kind, half, object_id
from mvcs.store.backend import open_backend
from mvcs.store.backend.local import LocalBackend
from mvcs.store.packs import pack as packs
from mvcs.store.packs.entry import MAX_BUNDLED, Entry, EntryBase, Member
from mvcs.store.packs.footer import MAX_ENTRIES, Footer, Tail
from mvcs.store.packs.pack import name_of
from mvcs.store.reading.chains import MAX_DECODED
from mvcs.store.reading.decoded_entries import CACHED_ENTRY
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.reading.pack_files import pack_path
from mvcs.store.writing import descriptions
from mvcs.store.writing.writer import ObjectWriter
from tests.reference import reader, reader_payloads
from tests.store.packing import PackBuilder

BYTES = ElementFormat(1, floating=False)
LARGE = CACHED_ENTRY + 1


def test_an_entry_has_no_more_members_than_may_be() -> None:
    for count in (MAX_BUNDLED, MAX_BUNDLED + 1):
        value: cbor.Value = [[[0, 0]] * count, 0, 0, None]
        if count == MAX_BUNDLED:
            assert len(Entry.from_value(value).members) == count
            continue
        with pytest.raises(CorruptionError, match="members"):
            Entry.from_value(value)


def test_a_footer_has_no_more_entries_than_may_be() -> None:
    content = cbor.dumps([None] * (MAX_ENTRIES + 1))
    with pytest.raises(CorruptionError, match="too many"):
        Footer.decode(content, Tail(16, 1, len(content), b""))


def test_a_bundle_is_placed_before_it_has_too_many_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(descriptions, "MAX_BUNDLED", 4)
    store = ObjectStore(open_backend(str(tmp_path)))
    writer = ObjectWriter(store)
    chunks = [bytes([number]) for number in range(10)]
    ids = [writer.put_chunk(chunk, BYTES) for chunk in chunks]
    writer.finish()
    assert [store.read(Kind.CHUNK, one) for one in ids] == chunks
    (footer,) = store.catalog.loaded()
    assert max(len(placed.entry.members) for placed in footer.entries) == 4


def test_a_pack_is_full_before_it_has_too_many_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = PackBuilder()
    monkeypatch.setattr(packs, "FULL", 2)
    for number in range(2):
        assert builder.fits(1)
        builder.add(Entry((Member(Kind.CHUNK, 1),), Encoding.RAW), b"x", (object_id(Kind.CHUNK, b"x"),))
        assert builder.fits(1) is (number == 0)


class CountingBackend(LocalBackend):
    """A folder that counts how often a part of a pack is read."""

    parts = 0

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        self.parts += offset >= 0
        return super().read(name, offset, length)


def put(folder: Path, builder: PackBuilder) -> ObjectStore:
    backend = CountingBackend(folder)
    data = builder.finish()
    backend.put(pack_path(name_of(data) or ""), data)
    store = ObjectStore(backend)
    store.catalog.attach_everything()
    return store


def entries_read(store: ObjectStore) -> int:
    assert isinstance(store.backend, CountingBackend)
    return store.backend.parts


def test_a_chain_that_decodes_to_too_much_is_given_up(tmp_path: Path) -> None:
    """A pack of a few kilobytes whose entries decode to more than 4 GiB, two of them at once."""
    size, builder = 64 << 20, PackBuilder()
    count = MAX_DECODED // size + 1
    names = [object_id(Kind.CHUNK, bytes([number])) for number in range(count)]
    builder.add(Entry((Member(Kind.CHUNK, size),), Encoding.ZSTD), b"\0", (names[0],))
    for base, name in pairwise(names):
        entry = Entry((Member(Kind.CHUNK, size),), Encoding.RANS_RESIDUAL, BYTES, (EntryBase(base),))
        builder.add(entry, b"", (name,))
    store = put(tmp_path, builder)
    assert store.catalog.chain_of(store.catalog.locate(names[-2])).decoded_bytes == MAX_DECODED
    with pytest.raises(CorruptionError, match="more decoding"):
        store.read(Kind.CHUNK, names[-1])


def encoded(content: bytes, base: bytes | None = None) -> bytes:
    encoding = Encoding.ZSTD if base is None else Encoding.RANS_RESIDUAL
    return bytes(encode(encoding, content, element=BYTES, base=base))


def add_near(builder: PackBuilder, content: bytes, base: bytes) -> None:
    bases = (EntryBase(object_id(Kind.CHUNK, base)),)
    entry = Entry((Member(Kind.CHUNK, len(content)),), Encoding.RANS_RESIDUAL, BYTES, bases)
    builder.add(entry, encoded(content, base), (object_id(Kind.CHUNK, content),))


def chain(count: int, length: int) -> tuple[PackBuilder, list[bytes]]:
    """Chunks that differ in their first byte, each near the one before."""
    builder, contents = PackBuilder(), [bytes(length)]
    first = Entry((Member(Kind.CHUNK, length),), Encoding.ZSTD)
    builder.add(first, encoded(contents[0]), (object_id(Kind.CHUNK, contents[0]),))
    for number in range(1, count):
        contents.append(bytes([number]) + bytes(length - 1))
        add_near(builder, contents[-1], contents[-2])
    return builder, contents


def read_all(store: ObjectStore, contents: list[bytes]) -> None:
    for content in contents:
        assert store.read(Kind.CHUNK, object_id(Kind.CHUNK, content)) == content


@pytest.mark.parametrize("length", [64, LARGE])
def test_a_chain_is_not_decoded_again_for_each_of_its_chunks(tmp_path: Path, length: int) -> None:
    builder, contents = chain(40, length)
    store = put(tmp_path, builder)
    read_all(store, contents)
    assert entries_read(store) <= 2 * len(contents)


def test_many_chunks_near_one_long_chain_have_it_decoded_twice_at_most(tmp_path: Path) -> None:
    builder, contents = chain(20, LARGE)
    tops = [bytes([1, number]) + bytes(LARGE - 2) for number in range(20)]
    for top in tops:
        add_near(builder, top, contents[-1])
    store = put(tmp_path, builder)
    read_all(store, tops)
    assert entries_read(store) <= 2 * len(contents) + len(tops)


def test_the_depths_of_a_chain_are_told(tmp_path: Path) -> None:
    builder, contents = chain(200, 8)
    store = put(tmp_path, builder)
    found = [store.catalog.depth_of(store.catalog.locate(object_id(Kind.CHUNK, one))) for one in contents]
    assert found == list(range(200))


def id_of(name: bytes) -> bytes:
    return half(object_id(Kind.CHUNK, name))


FOUR = ElementFormat(4, floating=True).to_number()
BASES: list[cbor.Value] = [id_of(b"a"), id_of(b"b")]


@pytest.mark.parametrize(
    "header",
    [
        pytest.param([[], 0, 0, None], id="no member"),
        pytest.param([[[0, (64 << 20) + 1]], 0, 0, None], id="more than 64 MiB"),
        pytest.param([[[0, 32 << 20], [0, (32 << 20) + 1]], 0, 0, None], id="more than 64 MiB together"),
        pytest.param([[[0, 4], [3, 4]], 4, 0, None], id="a blob among codes"),
        pytest.param([[[0, 4], [0, 3]], 9, FOUR, None], id="no whole elements"),
        pytest.param([[[0, 1]] * 4097, 4, 0, None], id="too many members"),
        pytest.param([[[0, 1 << 22], [0, 1]], 4, 0, None], id="too many elements"),
        pytest.param([[[3, 4], [3, 4]], 10, 0, BASES], id="ZSTD_DELTA of several"),
        pytest.param([[[0, 4], [0, 4]], 8, 0, None], id="no bases"),
        pytest.param([[[0, 4], [0, 4]], 8, 0, BASES[:1]], id="a member without a base"),
        pytest.param([[[0, 4], [0, 4]], 9, 0, BASES], id="bases of what needs none"),
        pytest.param([[[0, 4], [0, 4]], 8, 0, [BASES[0], b"short"]], id="no half of an id"),
        pytest.param([[[0, 4], [0, 4]], 8, 0, [BASES[0], [BASES[1], -1]]], id="no number of a chunk"),
        pytest.param([[[[0], 4]], 0, 0, None], id="a kind that is no number"),
        pytest.param([[[0, -1]], 0, 0, None], id="a length below nothing"),
    ],
)
def test_headers_of_entries_that_no_reader_takes(header: cbor.Value) -> None:
    with pytest.raises(CorruptionError):
        Entry.from_value(header)
    with pytest.raises(reader_payloads.CorruptionError):
        reader.Entry(header, b"", 32)


def test_headers_of_several_members_that_readers_take() -> None:
    for header in (
        [[[0, 4], [3, 4]], 1, 0, None],
        [[[0, 1]] * 4096, 4, 0, None],
        [[[0, 1 << 22], [0, 0]], 4, 0, None],
        [[[0, 4], [0, 8]], 8, FOUR, BASES],
    ):
        assert len(Entry.from_value(header).members) == len(header[0])
        reader.Entry(header, b"", 32)


def test_a_value_pack_needs_no_exact_one(tmp_path: Path) -> None:
    """What an entry of `packs/` is near lies in `exact/` alone: dropping a layer would take values away."""
    values, exact = PackBuilder(), PackBuilder()
    exact.add(Entry((Member(Kind.CHUNK, 4),), Encoding.RAW), b"base", (object_id(Kind.CHUNK, b"base"),))
    add_near(values, b"next", b"base")
    store = put(tmp_path, values)
    data = exact.finish()
    store.backend.put(pack_path(name_of(data) or "", exact=True), data)
    store.catalog.attach_everything(exact=True)
    assert store.read(Kind.CHUNK, object_id(Kind.CHUNK, b"base"), exact=True) == b"base"
    for also_exact in (False, True):
        with pytest.raises(NotFoundError):
            store.read(Kind.CHUNK, object_id(Kind.CHUNK, b"next"), exact=also_exact)


def test_restored_values_are_bases_in_exact_packs_alone(tmp_path: Path) -> None:
    builder, name = PackBuilder(), object_id(Kind.CHUNK, b"next")
    entry = Entry((Member(Kind.CHUNK, 4),), Encoding.RANS_RESIDUAL, BYTES, (EntryBase(id_of(b"tensor"), 0),))
    builder.add(entry, b"", (name,))
    with pytest.raises(CorruptionError, match="outside an exact layer"):
        put(tmp_path, builder).read(Kind.CHUNK, name)


def test_a_blob_is_as_long_as_its_tree_says(tmp_path: Path) -> None:
    store = ObjectStore(open_backend(str(tmp_path)))
    writer = ObjectWriter(store)
    blob = writer.put_blob([b"content"])
    writer.finish()
    assert b"".join(store.blob(blob, 7)) == b"content"
    for length in (6, 8):
        with pytest.raises(CorruptionError, match=f"its tree says {length}"):
            list(store.blob(blob, length))
