"""What the pack that ends a commit says of it: its last entry and the first row of its footer agree."""

import random
from dataclasses import replace
from typing import NamedTuple

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


class Copies(NamedTuple):
    """A commit, and what its footer is to tell of others."""

    first: WrittenCommit
    near: tuple[WrittenCommit, ...]


def copies_of(parents: int, copies: int, drawn: random.Random) -> Copies:
    """Return a commit that has some parents, and copies of them and of others behind them."""
    others = [replace(examples.COMMIT, message=f"before {number}") for number in range(copies)]
    near = tuple(
        replace(COMMIT, id=one.id, content=one.encode(), pack=drawn.randbytes(32).hex()) for one in others
    )
    child = replace(examples.COMMIT, parents=tuple(one.id for one in near[:parents]))
    return Copies(replace(COMMIT, id=child.id, content=child.encode()), near)


def ended_anew(told: Copies, stored: int, own: tuple[str, ...]) -> Footer:
    """Return the footer of a pack that ends a commit of which so many bytes were stored at first."""
    pack = PackWriter(StagedBytes(lambda name, _: name))
    first = replace(told.first, stored_bytes=stored)
    return pack.finish((first, *told.near), (), own, ended_before=True)[1]


@pytest.mark.parametrize(("parents", "copies"), [(0, 0), (1, 1), (1, 2), (1, 8), (2, 2), (7, 8)])
def test_a_commit_that_is_ended_anew_tells_of_its_parents(parents: int, copies: int) -> None:
    """Whatever names and hashes its packs get: the stored bytes have to fit, and so do the nearest copies."""
    drawn, fewer, off = random.Random(copies), 0, 0
    for _ in range(200):
        given = copies_of(parents, copies, drawn)
        own = tuple(drawn.randbytes(32).hex() for _ in range(2))
        stored = int(10 ** drawn.uniform(3.3, 10))
        footer = ended_anew(given, stored, own)
        told = footer.commits[1:]
        assert told == given.near[: len(told)]
        assert len(told) >= max(parents, copies // 2)
        fewer, off = fewer + (len(told) < copies), off + (footer.commits[0].stored_bytes != stored)
    assert fewer < 30
    assert not off


@pytest.mark.parametrize("step", [24, 1 << 8, 1 << 16, 1 << 32])
def test_where_numbers_get_longer_a_parent_is_told_of_all_the_same(step: int) -> None:
    """One more byte of the number makes the pack longer by several, so that some sums are nobody's."""
    given, drawn = copies_of(1, 1, random.Random(step)), random.Random(step)
    length = ended_anew(given, 0, OWN).commits[0].stored_bytes
    off = 0
    for stored in range(length + step - 30, length + step + 30):
        footer = ended_anew(given, stored, (drawn.randbytes(32).hex(),))
        assert footer.commits[1:] == given.near
        off += footer.commits[0].stored_bytes != stored
        least = footer.tail.pack_length if footer.tail else 0
        assert abs(footer.commits[0].stored_bytes - max(stored, least)) <= 16
    assert off < 50
