"""What the last entry of a pack says of the commit that it holds, so that its manifest can be made again."""

from pathlib import Path

import pytest

from mvcs.errors import CorruptionError
from mvcs.objects import Kind, cbor
from mvcs.repository import Repository
from mvcs.store.backend import open_backend
from mvcs.store.packs.pack import scan
from mvcs.store.packs.written_commit import LastEntry, chunk_entry
from mvcs.store.reading.pack_files import pack_path
from mvcs.store.reading.salvage import salvage
from mvcs.store.writing.pack_filler import SALT_BYTES
from tests.repository.states import state

LAST = LastEntry((320, 40, 30, 1), ("ab" * 32,))


def test_a_last_entry_comes_back() -> None:
    assert LastEntry.decode(LAST.content) == LAST


@pytest.mark.parametrize(
    "value",
    [
        [],
        [[0] * 4],
        [[0] * 4, [], []],
        [[1, 2, 3], []],
        [[0, 0, 0, -1], []],
        [[0, 0, 0, 2**62], []],
        [[0] * 4, [b"a"]],
    ],
    ids=str,
)
def test_bytes_that_are_no_last_entry(value: cbor.Value) -> None:
    with pytest.raises(CorruptionError):
        LastEntry.decode(cbor.dumps(value))


def test_the_pack_of_a_commit_tells_what_its_manifest_does(tmp_path: Path) -> None:
    with Repository.init(tmp_path) as repo:
        commit = repo.commit(state(1, 24), bins=16)
        store = repo._session.store
        manifest = store.manifests.first(repo._session.resolver.resolve(commit.id).id)
        found = [salvage(store.apart(), name, exact=False) for name in manifest.placement.own]
    (told,) = [one.told for one in found if one.told is not None]
    assert told.exact_packs == manifest.written.exact_packs != ()
    raw, stored, *rest = manifest.written.sizes
    assert (told.sizes[0], *told.sizes[2:]) == (raw, *rest)
    assert told.sizes[1] < stored


def test_every_pack_ends_in_random_bytes_and_that_of_a_commit_in_its_last_entry(tmp_path: Path) -> None:
    with Repository.init(tmp_path) as repo:
        commit = repo.commit(state(1, 24), bins=16)
        backend = open_backend(repo.url)
        manifest = repo._session.store.manifests.first(repo._session.resolver.resolve(commit.id).id)
    names = [(name, False) for name in manifest.placement.own]
    salts = []
    for name, exact in [*names, *((name, True) for name in manifest.written.exact_packs)]:
        entries = [
            (entry, bytes(payload))
            for _, entry, payload, _ in scan(backend.read(pack_path(name, exact=exact)))
        ]
        if any(member.kind is Kind.COMMIT for entry, _ in entries for member in entry.members):
            assert LastEntry.decode(entries.pop()[1]).exact_packs == manifest.written.exact_packs
        assert entries[-1][0] == chunk_entry(SALT_BYTES)
        salts.append(entries[-1][1])
    assert len(set(salts)) == len(salts) > 1
