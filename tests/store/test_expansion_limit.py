"""A description stands for no more than its stored bytes make believable; what writers make always does."""

from dataclasses import replace

import numpy as np
import pytest

from mvcs import Repository
from mvcs.delta.choose import choose_opaque
from mvcs.delta.encoding import Encoding
from mvcs.errors import CorruptionError
from mvcs.objects import cbor
from mvcs.objects.ids import Kind, object_id
from mvcs.objects.trees.structure import NodeTag
from mvcs.store.backend.local import LocalBackend
from mvcs.store.manifests import MAX_ANCESTORS, Manifest, Placement, WrittenCommit
from mvcs.store.packs.entry import Entry, Member
from mvcs.store.packs.expansion_limit import FREE_BYTES, LARGE_BYTES, choose_described, is_plausible
from mvcs.store.packs.footer import TRAILER_BYTES, Footer, Tail
from mvcs.store.packs.pack import name_of
from mvcs.store.packs.written_commit import chunk_entry
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.reading.pack_files import pack_path
from tests.format import examples
from tests.store.packing import PackBuilder

ZEROS = 1 << 20


def test_a_description_that_compresses_beyond_belief_is_stored_as_it_is() -> None:
    content = bytes(ZEROS)
    assert choose_described(content) == (Encoding.RAW, content)
    assert choose_described(bytes(FREE_BYTES))[0] is Encoding.ZSTD


def test_a_small_pack_does_not_stand_for_a_large_tree(tmp_path) -> None:
    content = cbor.dumps(["state", [int(NodeTag.LIST), *[None] * ZEROS], []])
    encoding, payload = choose_opaque(content)
    pack = PackBuilder()
    identifier = object_id(Kind.TREE, content)
    pack.add(Entry((Member(Kind.TREE, len(content)),), encoding), payload, (identifier,))
    data = pack.finish()
    backend = LocalBackend(tmp_path)
    backend.put(pack_path(name_of(data)), data)
    assert len(data) < 4096
    with pytest.raises(CorruptionError, match="no mvcs writes such a thing"):
        ObjectStore(backend).tree(identifier)


def test_a_small_pack_does_not_have_a_large_footer() -> None:
    raw = cbor.dumps([bytes(32)] * (1 << 17))
    encoding, packed = choose_opaque(raw)
    stored = bytes([encoding]) + bytes(packed)
    end = Tail(16, len(stored), len(raw), b"").encode(stored)
    assert len(stored) + TRAILER_BYTES < 16384
    with pytest.raises(CorruptionError, match="impossible footer"):
        Tail.parse(end)


def test_a_footer_of_equal_entries_is_stored_so_that_it_is_read() -> None:
    builder = PackBuilder()
    for _ in range(1 << 13):
        builder.add(chunk_entry(1), b"x", (object_id(Kind.CHUNK, b"x"),))
    data = builder.finish()
    tail = Tail.parse(data)
    footer = tail.footer(data[tail.footer_offset : -TRAILER_BYTES], name_of(data))
    assert footer == Footer(tuple(builder.entries))


def test_a_manifest_of_many_equal_commits_is_stored_so_that_it_is_read() -> None:
    texts = [f"{number} {bytes(FREE_BYTES).decode()}" for number in range(1 + MAX_ANCESTORS)]
    made = [replace(examples.COMMIT, message=text) for text in texts]
    first, *others = (WrittenCommit(one.id, one.encode()) for one in made)
    manifest = Manifest(first, Placement(), tuple(others))
    assert Manifest.decode(manifest.encode(), first.id) == manifest


@pytest.mark.parametrize("commits", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_state_whose_description_compresses_well_comes_back(tmp_path, commits: int) -> None:
    with Repository.init(tmp_path) as repo:
        for number in range(commits):
            state = {"counts": [0] * (FREE_BYTES + 9), "w": np.full(4, number, np.float32), "again": number}
            repo.commit(state)
    with Repository.open(tmp_path) as repo:
        assert repo.checkout(numpy=True)["again"] == commits - 1
        assert repo.fsck().problems == []


def test_belief_grows_with_what_is_stored() -> None:
    assert is_plausible(FREE_BYTES, 1)
    assert not is_plausible(FREE_BYTES + 1, 1)
    assert is_plausible(LARGE_BYTES, LARGE_BYTES // 16)
    assert not is_plausible(LARGE_BYTES, LARGE_BYTES // 16 - 1)
    assert is_plausible(4 << 20, 1 << 20)
    assert not is_plausible((4 << 20) + 1, 1 << 20)
