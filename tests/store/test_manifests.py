"""Manifests: records come back, damage is refused, and of racing writers one wins each number."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvcs.delta.choose import choose_opaque
from mvcs.delta.encoding import Encoding
from mvcs.errors import ConflictError, CorruptionError, MvcsError, NotFoundError, UnsupportedFormatError
from mvcs.objects import MAX_NUMBER, cbor, seal, unseal
from mvcs.objects.commit import Commit
from mvcs.objects.ids import Kind, ObjectId, object_id
from mvcs.store.manifests import (
    MAX_ANCESTORS,
    MAX_RECORD,
    DataDrop,
    KnownManifests,
    ListedManifests,
    Manifest,
    Manifests,
    Placement,
    WrittenCommit,
    decode_placement,
    encode_placement,
    manifest_path,
    parse_path,
)
from mvcs.store.packs.expansion_limit import FREE_FOOTER_BYTES
from mvcs.store.upgrades import DROPPED_DATA, has_upgrade
from tests.format import examples
from tests.reference import reader, reader_payloads
from tests.store.in_memory import MemoryBackend

MAGIC = b"MVCSMAN1"
COMMIT, MANIFEST = examples.CHILD.id, examples.MANIFEST
PACKS = tuple(bytes([number] * 32).hex() for number in range(8))
MOVED = Placement(PACKS[:2], PACKS[2:4])

NAMES = st.lists(st.binary(min_size=32, max_size=32).map(bytes.hex), max_size=3).map(tuple)
SIZES = st.tuples(*[st.integers(0, 2**62 - 1)] * 4)
DROPS = st.builds(
    DataDrop,
    st.integers(-(2**62), 2**62 - 1),
    st.one_of(st.none(), st.integers(0, MAX_NUMBER)),
    st.text(max_size=20),
)
PLACEMENTS = st.builds(Placement, NAMES, NAMES, st.one_of(st.none(), DROPS))


def commit(message: str = "", *parents: ObjectId) -> Commit:
    return replace(examples.COMMIT, message=message, parents=parents)


def written(made: Commit, *sizes: int, exact_packs: tuple[str, ...] = ()) -> WrittenCommit:
    return WrittenCommit(made.id, made.encode(), *(sizes or (0, 0, 0, 0)), exact_packs)


def line(count: int) -> list[Commit]:
    """Return commits, each the parent of the one before it."""
    found: list[Commit] = []
    for number in range(count):
        found.insert(0, commit(str(number), *(one.id for one in found[:1])))
    return found


@st.composite
def manifests(draw: Callable[[Any], Any]) -> Manifest:
    """A commit and ancestors of it, of which some are left out."""
    kept = [one for one in line(draw(st.integers(1, 6))) if draw(st.booleans())] or [commit()]
    first, *ancestors = [written(one, *draw(SIZES), exact_packs=draw(NAMES)) for one in kept]
    return Manifest(first, draw(PLACEMENTS), tuple(ancestors))


@pytest.fixture
def backend() -> MemoryBackend:
    return MemoryBackend()


@pytest.fixture
def store(backend: MemoryBackend) -> Manifests:
    """A store that has the commit of the pages."""
    found = Manifests(backend)
    found.write(MANIFEST)
    return found


# Bytes.


@given(manifests())
def test_first_records_come_back(manifest: Manifest) -> None:
    data, identifier = manifest.encode(), manifest.written.id
    assert Manifest.decode(data, identifier) == manifest
    rows = [(one.id, one.content) for one in (manifest.written, *manifest.ancestors)]
    assert [row[:2] for row in reader.manifest(identifier, data)[3]] == rows
    assert decode_placement(data, identifier) == manifest.placement


@given(PLACEMENTS, st.integers(1, MAX_NUMBER))
def test_later_records_come_back(placement: Placement, number: int) -> None:
    found = decode_placement(encode_placement(COMMIT, replace(placement, number=number)), COMMIT)
    assert (found, found.number) == (placement, number)


def test_an_id_that_the_next_row_tells_is_left_out() -> None:
    first, *ancestors = map(written, line(1 + MAX_ANCESTORS))
    whole = sum(len(one.content) for one in (first, *ancestors))
    data = Manifest(first, Placement(), (*ancestors,)).encode()
    assert len(data) < whole - 32 * MAX_ANCESTORS


def test_what_a_commit_adds_has_its_manifest_in_it() -> None:
    counted = MANIFEST.counted()
    grown = counted.written.stored_bytes - MANIFEST.written.stored_bytes
    assert abs(grown - len(counted.encode())) < 16


@pytest.mark.parametrize("data", [MANIFEST.encode(), encode_placement(COMMIT, replace(MOVED, number=1))])
def test_every_flipped_bit_and_every_truncation_is_refused(data: bytes) -> None:
    damaged = [data[:end] for end in range(len(data))] + [data + b"\0"]
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        damaged.append(bytes(flipped))
    for one in damaged:
        with pytest.raises((CorruptionError, UnsupportedFormatError)):
            decode_placement(one, COMMIT)


def test_a_record_of_another_commit_is_refused() -> None:
    for data in (MANIFEST.encode(), encode_placement(COMMIT, replace(MOVED, number=1))):
        with pytest.raises(CorruptionError, match="that of commit"):
            decode_placement(data, examples.COMMIT.id)


def described(rows: cbor.Value, **changes: Any) -> bytes:
    """The bytes of number 0 whose description is what a test makes it."""
    raw = rows if isinstance(rows, bytes) else cbor.dumps(rows)
    stored = changes.get("stored", bytes([Encoding.RAW]) + raw)
    return seal(MAGIC, [changes.get("number", 0), [], [], None, [changes.get("length", len(raw)), stored]])


def row(
    made: Commit, cut: cbor.Value = None, sizes: cbor.Value = None, exact: cbor.Value = None
) -> cbor.Value:
    return [made.encode(), cut, sizes or [0, 0, 0, 0], exact or []]


CONTENT = examples.CHILD.encode()
CUT = CONTENT.index(examples.COMMIT.id)
WITHOUT = CONTENT[:CUT] + CONTENT[CUT + 32 :]
ZEROS = choose_opaque(bytes(FREE_FOOTER_BYTES + 1))


def test_these_bytes_are_taken() -> None:
    """So that what is refused below is refused for what is said there."""
    rows = [[WITHOUT, CUT, [0, 0, 0, 0], []], row(examples.COMMIT)]
    assert Manifest.decode(described(rows), COMMIT).ancestors[0].id == examples.COMMIT.id


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(described([]), id="no commit"),
        pytest.param(described([row(examples.CHILD)] * (2 + MAX_ANCESTORS)), id="too many commits"),
        pytest.param(described([[WITHOUT, CUT, [0, 0, 0, 0], []]]), id="a parent that is not told"),
        pytest.param(
            described([[WITHOUT, CUT + 1, [0, 0, 0, 0], []], row(examples.COMMIT)]), id="cut elsewhere"
        ),
        pytest.param(
            described([[WITHOUT, len(CONTENT), [0, 0, 0, 0], []], row(examples.COMMIT)]), id="cut behind"
        ),
        pytest.param(
            described([[WITHOUT, CUT, [0, 0, 0, 0], []], row(commit("other"))]), id="another parent"
        ),
        pytest.param(described([[*row(examples.CHILD), 0]]), id="a row of five"),
        pytest.param(described([row(examples.CHILD, sizes=[0, 0, 0])]), id="three sizes"),
        pytest.param(described([row(examples.CHILD, sizes=[0, 0, 0, 2**62])]), id="a size too large"),
        pytest.param(described([row(examples.CHILD, exact=[b"short"])]), id="no name of a pack"),
        pytest.param(described([row(examples.CHILD)], length=1), id="another length"),
        pytest.param(described([row(examples.CHILD)], length=2**60), id="a huge length"),
        pytest.param(described([row(examples.CHILD)], length=0), id="no length"),
        pytest.param(described([row(examples.CHILD)], stored=b""), id="nothing stored"),
        pytest.param(
            described([], length=FREE_FOOTER_BYTES + 1, stored=bytes([1]) + bytes(ZEROS[1])), id="zeros"
        ),
        pytest.param(described([row(examples.CHILD)], stored=b"\4" + bytes(9)), id="an encoding of codes"),
        pytest.param(described([row(examples.CHILD)], number=1), id="under a later number"),
        pytest.param(seal(MAGIC, [0, [], [], None, COMMIT]), id="number 0 without the commit"),
        pytest.param(seal(MAGIC, [1, [], [], None, b"short"]), id="no id"),
        pytest.param(seal(MAGIC, [MAX_NUMBER + 1, [], [], None, COMMIT]), id="a number too large"),
        pytest.param(seal(MAGIC, [1, [b"short"], [], None, COMMIT]), id="no pack"),
        pytest.param(seal(MAGIC, [1, [], [], [0, 0], COMMIT]), id="half a drop"),
        pytest.param(seal(MAGIC, [1, [], [], [2**62, 0, ""], COMMIT]), id="a drop at no time"),
        pytest.param(seal(b"MVCSREF1", [1, [], [], None, COMMIT]), id="another record"),
    ],
)
def test_malformed_records_are_corruption(data: bytes) -> None:
    with pytest.raises(CorruptionError):
        decode_placement(data, COMMIT)
    with pytest.raises((reader_payloads.CorruptionError, reader_payloads.UnsupportedError)):
        reader.manifest(COMMIT, data)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(seal(MAGIC, [1, [], [], None, COMMIT, 0]), id="one item more"),
        pytest.param(seal(b"MVCSMAN2", [1, [], [], None, COMMIT]), id="another version"),
        pytest.param(described([row(examples.CHILD)], stored=b"\xff" + bytes(9)), id="an unknown encoding"),
    ],
)
def test_what_a_newer_version_writes_is_unsupported(data: bytes) -> None:
    with pytest.raises(UnsupportedFormatError):
        decode_placement(data, COMMIT)
    with pytest.raises(reader_payloads.UnsupportedError):
        reader.manifest(COMMIT, data)


def test_a_million_packs_are_more_than_a_record_holds() -> None:
    with pytest.raises(CorruptionError):
        decode_placement(encode_placement(COMMIT, Placement(PACKS[:1] * 1_000_000, number=1)), COMMIT)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    for sealed in (data, MAGIC + data, seal(MAGIC, data), described(data)):
        with pytest.raises(MvcsError):
            decode_placement(sealed, COMMIT)


@given(st.binary(min_size=32, max_size=32).map(ObjectId), st.integers(0, MAX_NUMBER))
def test_a_path_tells_commit_and_number(identifier: ObjectId, number: int) -> None:
    assert parse_path(manifest_path(identifier, number)) == (identifier, number)


@pytest.mark.parametrize(
    "path",
    [
        f"manifests/00/{COMMIT.hex()}.99999999",
        f"manifests/7c/{COMMIT.hex()}",
        f"manifests/7c/{COMMIT.hex()}.9999999",
        f"manifests/7c/{COMMIT.hex().upper()}.99999999",
        f"manifests/7c/{COMMIT.hex()[:-1]}g.99999999",
        f"packs/7c/{COMMIT.hex()}.99999999",
        f"manifests/7c/below/{COMMIT.hex()}.99999999",
    ],
)
def test_other_paths_are_those_of_no_record(path: str) -> None:
    assert parse_path(path) is None


# A store.


@pytest.mark.usefixtures("store")
def test_what_was_written_is_found(backend: MemoryBackend) -> None:
    again = Manifests(backend)
    assert again.first(COMMIT) == MANIFEST
    assert again.placement(COMMIT) == MANIFEST.placement
    assert again.listed() == {COMMIT: [0]}


def test_the_newest_number_counts(store: Manifests, backend: MemoryBackend) -> None:
    now = store.append(COMMIT, MOVED, store.placement(COMMIT))
    assert now.number == 1
    for one in (store, Manifests(backend)):
        assert one.placement(COMMIT) == MOVED
        assert one.first(COMMIT) == MANIFEST
    assert store.numbers(COMMIT) == [1, 0]
    assert store.numbered(COMMIT, 0) == MANIFEST.placement


def test_a_commit_without_a_first_record_is_not_there(store: Manifests) -> None:
    for ask in (store.first, store.placement, lambda one: store.numbered(one, 0)):
        with pytest.raises(NotFoundError, match="is not in the store"):
            ask(examples.COMMIT.id)


def test_a_newest_record_that_is_damaged_is_not_passed_over(store: Manifests, backend: MemoryBackend) -> None:
    store.append(COMMIT, MOVED, store.placement(COMMIT))
    path = manifest_path(COMMIT, 1)
    backend.put(path, backend.read(path)[:-1])
    with pytest.raises(CorruptionError, match=path):
        store.placement(COMMIT)


def test_a_record_under_another_number_is_damaged(store: Manifests, backend: MemoryBackend) -> None:
    backend.put(manifest_path(COMMIT, 2), encode_placement(COMMIT, replace(MOVED, number=1)))
    with pytest.raises(CorruptionError, match="number of another"):
        store.placement(COMMIT)


def test_a_file_larger_than_a_record_is_damaged(store: Manifests, backend: MemoryBackend) -> None:
    backend.put(manifest_path(COMMIT, 1), bytes(MAX_RECORD + 1))
    with pytest.raises(CorruptionError):
        store.placement(COMMIT)


def test_the_loser_of_a_race_reads_again(store: Manifests) -> None:
    read, other = store.placement(COMMIT), Placement(PACKS[4:5])
    store.append(COMMIT, other, read)
    with pytest.raises(ConflictError):
        store.append(COMMIT, MOVED, read)
    assert store.append(COMMIT, MOVED, store.placement(COMMIT)).number == 2


def test_the_same_placement_of_two_writers_is_one_record(store: Manifests) -> None:
    read = store.placement(COMMIT)
    assert store.append(COMMIT, MOVED, read) == store.append(COMMIT, MOVED, read)
    assert store.numbers(COMMIT) == [1, 0]


def test_a_number_that_a_collector_freed_is_not_taken_again(store: Manifests, backend: MemoryBackend) -> None:
    """Two others wrote while its writer slept, and the first of them is gone."""
    read = store.placement(COMMIT)
    for packs in (PACKS[4:5], PACKS[5:6]):
        store.append(COMMIT, Placement(packs), store.placement(COMMIT))
    backend.delete(manifest_path(COMMIT, 1))
    with pytest.raises(ConflictError):
        store.append(COMMIT, MOVED, read)
    assert store.numbers(COMMIT) == [2, 0]
    assert store.placement(COMMIT) == Placement(PACKS[5:6])


class LateBackend(MemoryBackend):
    """A store whose listings do not show the newest records yet."""

    def children(self, folder: str) -> list[str]:
        return [name for name in super().children(folder) if not name.endswith(".99999998")]


def test_a_listing_that_is_late_takes_no_record_back() -> None:
    backend = LateBackend()
    store = Manifests(backend)
    store.write(MANIFEST)
    now = store.append(COMMIT, MOVED, store.placement(COMMIT))
    assert store.numbered(COMMIT, now.number) == MOVED


def test_who_stores_a_commit_that_is_there_hears_where_its_data_lie(store: Manifests) -> None:
    assert store.write(replace(MANIFEST, placement=MOVED)) == MANIFEST.placement
    assert store.numbers(COMMIT) == [0]


def test_who_stores_a_commit_in_the_packs_that_it_has_writes_nothing(store: Manifests) -> None:
    store.write(replace(MANIFEST, ancestors=()))
    assert store.numbers(COMMIT) == [0]


def test_commits_are_found_by_the_digits_that_their_ids_begin_with(store: Manifests) -> None:
    store.append(COMMIT, MOVED, store.placement(COMMIT))
    for made in line(20):
        store.write(Manifest(written(made), Placement()))
    every = sorted([COMMIT, *(made.id for made in line(20))])
    assert store.starting(COMMIT.hex()[:10]) == [COMMIT]
    assert store.starting("7c91") == [one for one in every if one.hex().startswith("7c91")]
    assert [one for first in range(256) for one in store.starting(f"{first:02x}")] == every


def test_a_commit_of_which_number_0_is_gone_is_not_found(store: Manifests, backend: MemoryBackend) -> None:
    store.append(COMMIT, MOVED, store.placement(COMMIT))
    backend.delete(manifest_path(COMMIT, 0))
    assert store.starting("7c91") == []


DROPPED = Placement(PACKS[:1], dropped=DataDrop(5, 0, "no rule kept it"))


def test_dropped_data_are_told_of(store: Manifests, backend: MemoryBackend) -> None:
    store.write(Manifest(written(examples.COMMIT), Placement()))
    store.append(COMMIT, DROPPED, store.placement(COMMIT))
    assert store.dropped([examples.COMMIT.id, COMMIT]) == {COMMIT: DROPPED.dropped}
    assert has_upgrade(backend, DROPPED_DATA)


def test_a_drop_that_is_taken_back_is_none(store: Manifests) -> None:
    before = store.placement(COMMIT)
    store.append(COMMIT, before, store.append(COMMIT, DROPPED, before))
    assert store.dropped([COMMIT]) == {}
    assert store.placement(COMMIT) == before


def test_where_nothing_was_dropped_no_manifest_is_read(backend: MemoryBackend) -> None:
    assert Manifests(backend).dropped([COMMIT]) == {}


def test_a_first_record_may_say_that_data_were_dropped_elsewhere(backend: MemoryBackend) -> None:
    Manifests(backend).write(replace(MANIFEST, placement=DROPPED))
    assert Manifests(backend).dropped([COMMIT]) == {COMMIT: DROPPED.dropped}


def test_placements_come_in_the_order_of_the_commits(store: Manifests, backend: MemoryBackend) -> None:
    made = line(20)
    for number, one in enumerate(made):
        store.write(Manifest(written(one), Placement((bytes([number] * 32).hex(),))))
    for near in (True, False):
        backend.near = near
        found = dict(store.placements(one.id for one in made))
        assert [placement.own[0][:2] for placement in found.values()] == [f"{one:02x}" for one in range(20)]
        assert list(found) == [one.id for one in made]


# One listing.


def test_a_line_says_in_short_what_a_record_says(store: Manifests, backend: MemoryBackend) -> None:
    store.append(COMMIT, MOVED, store.placement(COMMIT))
    listed = ListedManifests(backend)
    assert listed.numbers(COMMIT) == [1, 0]
    newest, first = listed.lines([(COMMIT, 1), (COMMIT, 0)])
    assert (newest.packs, newest.parents) == (MOVED.packs, ())
    assert (first.packs, first.parents) == (MANIFEST.placement.packs, (examples.COMMIT.id,))
    assert first.stamp == backend.modified(manifest_path(COMMIT, 0))


def reads(backend: MemoryBackend, known: KnownManifests) -> bool:
    """Tell whether the first record of the commit is read for its line."""
    listed, files = ListedManifests(backend, known), backend.files
    backend.files = {}
    try:
        list(listed.lines([(COMMIT, 0)]))
    except NotFoundError:
        return True
    finally:
        backend.files = files
    return False


@pytest.mark.usefixtures("store")
def test_what_is_known_is_not_read_again(backend: MemoryBackend) -> None:
    known = KnownManifests()
    assert reads(backend, known)
    list(ListedManifests(backend, known).lines([(COMMIT, 0)]))
    assert not reads(backend, known)
    assert known.met == {manifest_path(COMMIT, 0)}


@pytest.mark.usefixtures("store")
def test_a_record_that_was_deleted_and_written_again_is_read_again(backend: MemoryBackend) -> None:
    known = KnownManifests()
    list(ListedManifests(backend, known).lines([(COMMIT, 0)]))
    backend.put(manifest_path(COMMIT, 0), replace(MANIFEST, placement=MOVED).encode())
    backend.grow_old(-1)
    (line,) = ListedManifests(backend, known).lines([(COMMIT, 0)])
    assert line.packs == MOVED.packs


@pytest.mark.usefixtures("store")
def test_a_record_of_which_nobody_knows_when_it_was_written_is_read_each_time(
    backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryBackend, "modified", lambda *_: None)
    known = KnownManifests()
    list(ListedManifests(backend, known).lines([(COMMIT, 0)]))
    assert reads(backend, known)


def test_a_commit_that_was_written_behind_the_listing_is_found(backend: MemoryBackend) -> None:
    listed = ListedManifests(backend)
    store = Manifests(backend)
    store.write(MANIFEST)
    store.append(COMMIT, MOVED, store.placement(COMMIT))
    assert listed.numbers(COMMIT) == [1, 0]
    (newest,) = listed.lines([(COMMIT, 1)])
    assert newest.packs == MOVED.packs


def test_a_commit_that_is_nowhere_has_no_line(backend: MemoryBackend) -> None:
    with pytest.raises(NotFoundError, match="has no manifest"):
        ListedManifests(backend).numbers(COMMIT)


def test_the_description_is_stored_as_zstd_where_that_is_smaller() -> None:
    *_, told = unseal(MAGIC, MANIFEST.encode(), "a manifest", MAX_RECORD)
    assert told[1][0] == Encoding.ZSTD
    assert len(MANIFEST.encode()) < len(examples.FIRST)


def test_objects_of_the_kind_of_commits_alone_are_commits() -> None:
    """The id of a row is that of a commit: no bytes pass for those of another kind."""
    assert object_id(Kind.COMMIT, CONTENT) == COMMIT
