"""What the pack that ends a commit says of it: its last entry and the first row of its footer agree."""

import random
from dataclasses import replace

import pytest

from mvcs.delta.encoding import Encoding
from mvcs.errors import CorruptionError
from mvcs.objects import cbor
from mvcs.store.backend.staged import StagedBytes
from mvcs.store.packs.footer import MAX_ANCESTORS, TRAILER_BYTES, Footer, Tail
from mvcs.store.packs.pack import PackWriter, name_of
from mvcs.store.packs.written_commit import LastEntry, WrittenCommit, chunk_entry
from tests.format import examples

COMMIT = WrittenCommit(examples.COMMIT.id, examples.COMMIT.encode(), "", 320, 40, 30, 1, ("ab" * 32,))
OWN = ("cd" * 32,)


def ending_pack(last: LastEntry, copies: tuple[WrittenCommit, ...] = ()) -> bytes:
    """A pack that ends a commit, whose last entry says what a test makes it say."""
    file = StagedBytes(lambda _, data: written.append(data))
    written: list[bytes] = []
    pack = PackWriter(file)
    pack.add(chunk_entry(len(last.content)), last.content, (last.id,))
    raw = Footer(tuple(pack.entries), (COMMIT, *copies), own=OWN).encode()
    stored = bytes([Encoding.RAW.value]) + raw
    pack._named(stored + Tail(pack.length, len(stored), len(raw), b"").encode(stored))
    file.publish("")
    return written[0]


def footer_of(pack: bytes) -> Footer:
    tail = Tail.parse(pack)
    return tail.footer(pack[tail.footer_offset : -TRAILER_BYTES], name_of(pack))


def test_the_last_entry_tells_of_a_commit_what_only_its_footer_tells_otherwise() -> None:
    told = LastEntry(COMMIT.sizes, OWN, COMMIT.exact_packs)
    footer = footer_of(ending_pack(told))
    assert LastEntry.decode(told.content) == told
    assert (footer.own, footer.commits[0].exact_packs) == (told.own, told.exact_packs)


@pytest.mark.parametrize(
    "change", [{"sizes": (320, 40, 30, 2)}, {"own": ()}, {"own": OWN * 2}, {"exact_packs": OWN}], ids=str
)
def test_a_last_entry_that_says_otherwise_than_the_footer_is_refused(change) -> None:
    told = replace(LastEntry(COMMIT.sizes, OWN, COMMIT.exact_packs), **change)
    with pytest.raises(CorruptionError, match="last entry"):
        footer_of(ending_pack(told))


@pytest.mark.parametrize(
    "value", [[], [[1, 2, 3], [], []], [[0, 0, 0, -1], [], []], [[0] * 4, [b"a"], []]], ids=str
)
def test_bytes_that_are_no_last_entry(value: cbor.Value) -> None:
    with pytest.raises(CorruptionError):
        LastEntry.decode(cbor.dumps(value))


def test_a_footer_has_its_own_commit_first_and_no_more_than_so_many_others() -> None:
    told, other = LastEntry(COMMIT.sizes, OWN, COMMIT.exact_packs), replace(COMMIT, pack="ef" * 32)
    assert len(footer_of(ending_pack(told, (other,) * MAX_ANCESTORS)).commits) == 1 + MAX_ANCESTORS
    with pytest.raises(CorruptionError, match="too many"):
        footer_of(ending_pack(told, (other,) * (1 + MAX_ANCESTORS)))
    with pytest.raises(CorruptionError, match="another commit than the first"):
        footer_of(ending_pack(told, (other, COMMIT)))


@pytest.mark.parametrize("copies", [1, 2, 8])
def test_a_commit_that_is_ended_anew_tells_of_what_is_before_it(copies: int) -> None:
    """Whatever names and hashes its packs get: the stored bytes have to fit, and so do the nearest copies."""
    drawn, fewer = random.Random(copies), 0
    others = [replace(examples.COMMIT, message=f"before {number}") for number in range(copies)]
    for _ in range(300):
        near = tuple(
            replace(COMMIT, id=one.id, content=one.encode(), pack=drawn.randbytes(32).hex()) for one in others
        )
        own = tuple(drawn.randbytes(32).hex() for _ in range(2))
        pack = PackWriter(StagedBytes(lambda name, _: name))
        first = replace(COMMIT, stored_bytes=int(10 ** drawn.uniform(3.3, 10)))
        _, footer = pack.finish((first, *near), (), own, ended_before=True)
        told = footer.commits[1:]
        assert told == near[: len(told)]
        assert len(told) > copies // 2
        assert footer.commits[0].stored_bytes == first.stored_bytes
        fewer += len(told) < copies
    assert fewer < 30
