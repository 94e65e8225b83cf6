"""Damaged entries whose contents were found elsewhere: encoded again, to the same bytes where these tell."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from mvcs.delta import Buffer, Encoding, as_array, choose_opaque, decode, encode
from mvcs.errors import MvcsError
from mvcs.store.packs.entry import FRAME_BYTES, Entry, frame_start
from mvcs.store.packs.footer import Placed

_CHECKSUM = slice(16, FRAME_BYTES)


class Contents(Protocol):
    """Finds what the entries of a damaged pack hold, wherever else that lies; all of it was hashed."""

    def of(self, placed: Placed) -> bytes | None:
        """Return the contents of all members of an entry; None where one is nowhere else."""

    def near(self, placed: Placed) -> bytes | None:
        """Return what the members are stored near; None where it has no bases, or one cannot be read."""


@dataclass(frozen=True)
class EncodedEntry:
    """The bytes of an entry.

    Attributes:
        data: these bytes.
        entry: what its header says.
        same: whether their checksum is the one that stood there.
    """

    data: bytes
    entry: Entry
    same: bool


def encoded_again(placed: Placed, data: bytes, contents: Contents) -> EncodedEntry | None:
    """Return an entry with the contents of a damaged one, encoded like that; None where they are not found.

    Args:
        placed: the entry as its footer has it.
        data: its damaged bytes.
        contents: finds the contents.
    """
    content = contents.of(placed)
    if content is None:
        return None
    entry, base = placed.entry, contents.near(placed) if placed.entry.bases else None
    first: EncodedEntry | None = None
    if base is not None or not entry.bases:
        for payload in _payloads(entry, content, base, data[FRAME_BYTES + len(entry.item) :]):
            made = frame_start(entry, payload) + as_array(payload).tobytes()
            if len(made) == placed.length and made[_CHECKSUM] == data[_CHECKSUM]:
                return EncodedEntry(made, entry, same=True)
            first = first or EncodedEntry(made, entry, same=False)
    return first or _alone(entry, content)


def _alone(entry: Entry, content: bytes) -> EncodedEntry:
    encoding, payload = choose_opaque(content)
    plain = Entry(entry.members, encoding)
    return EncodedEntry(frame_start(plain, payload) + as_array(payload).tobytes(), plain, same=False)


def _payloads(entry: Entry, content: bytes, base: bytes | None, damaged: bytes) -> Iterator[Buffer]:
    """Yield payloads that decode to the content; what only they say is taken from the damaged one."""
    levels = [int(damaged[0]) + 1, 256] if damaged else [256]
    for each in levels if entry.encoding in (Encoding.CODES, Encoding.DELTA) else [None]:
        with suppress(MvcsError):
            payload = encode(
                entry.encoding, content, element=entry.element, lengths=entry.lengths, base=base, levels=each
            )
            found = decode(entry.encoding, payload, lengths=entry.lengths, element=entry.element, base=base)
            if found == content:
                yield payload
