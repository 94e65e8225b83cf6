"""A pack from what is left of it: byte for byte where its name proves that, else with a footer for the rest.

What repeats itself is made again: the header, what frames and footers say twice, a footer that a scan tells.
A single flipped bit is looked for.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.store.packs.entry import FRAME_BYTES, frame_start, is_framed, read_entry
from mvcs.store.packs.expansion_limit import FREE_FOOTER_BYTES, choose_described
from mvcs.store.packs.footer import HEADER_BYTES, TRAILER_BYTES, Footer, Placed, Tail
from mvcs.store.packs.pack import HEADER, name_of
from mvcs.store.packs.written_commit import WrittenCommit
from mvcs.store.reading.flipped_bits import turned_back
from mvcs.store.reading.salvage import Salvage, framed

_REFUSED = (CorruptionError, UnsupportedFormatError)
_CHECKSUM = slice(16, FRAME_BYTES)
_FEW = 8


@dataclass(frozen=True)
class Ending:
    """What the footer of a pack says beside its entries.

    Attributes:
        commits: the commit that it ends and copies of ancestors; nothing for other packs.
        reach: packs of other commits that this one needs.
        own: the commit's packs before this one.
    """

    commits: tuple[WrittenCommit, ...] = ()
    reach: tuple[str, ...] = ()
    own: tuple[str, ...] = ()


@dataclass(frozen=True)
class RebuiltPack:
    """The bytes of a pack that was made again.

    Attributes:
        data: these bytes.
        whole: whether they are those that the pack had; otherwise what was whole of it stands in them.
        how: what was done.
    """

    data: bytes
    whole: bool
    how: str


def rebuild_pack(
    name: str, data: bytes, salvaged: Callable[[], Salvage], ending: Callable[[Salvage], Ending]
) -> RebuiltPack | None:
    """Make a damaged pack again from its own bytes; None where nothing better than these comes of them.

    Args:
        name: of the pack.
        data: what lies there; anything may have happened to it.
        salvaged: finds the entries that can be decoded, if the footer cannot be read.
        ending: says the rest of the footer, from what was found.
    """
    start = HEADER + data[HEADER_BYTES:]
    footer = _footer(start, name)
    if footer is None:
        return _without_footer(name, start, salvaged, ending)
    parts = [_entry(start[placed.offset :][: placed.length], placed) for placed in footer.entries]
    end = start[footer.tail.footer_offset :] if footer.tail else b""
    made = HEADER + b"".join(parts) + end
    return (
        RebuiltPack(made, True, "what it says twice, or one bit, was put right")
        if name_of(made) == name
        else None
    )


def _footer(data: bytes, name: str) -> Footer | None:
    try:
        tail = Tail.parse(data[-TRAILER_BYTES:])
        if tail.pack_length != len(data):
            return None
        return tail.footer(data[tail.footer_offset : -TRAILER_BYTES], name)
    except _REFUSED:
        return None


def _entry(data: bytes, placed: Placed) -> bytes:
    """Return the bytes of an entry as its footer says that they begin; a bit of it may have flipped."""
    if _is_entry(data, placed):
        return data
    payload = data[FRAME_BYTES + len(placed.entry.item) :]
    made = frame_start(placed.entry, payload) + payload
    if _distance(made[_CHECKSUM], data[_CHECKSUM]) <= _FEW:
        return made
    start = made[: _CHECKSUM.start] + data[_CHECKSUM] + made[FRAME_BYTES : len(made) - len(payload)]
    return turned_back(start + payload, lambda tried: is_framed(memoryview(tried)), len(start)) or made


def _distance(one: bytes, other: bytes) -> int:
    """Return how many bits differ: few where a checksum is damaged, half of them where what it is of is."""
    return (int.from_bytes(one) ^ int.from_bytes(other)).bit_count()


def _is_entry(data: bytes, placed: Placed) -> bool:
    try:
        entry, _, end = read_entry(data)
    except _REFUSED:
        return False
    return entry == placed.entry and end == placed.length


def _without_footer(
    name: str, data: bytes, salvaged: Callable[[], Salvage], ending: Callable[[Salvage], Ending]
) -> RebuiltPack | None:
    found = salvaged()
    whole = list(framed(data))
    if not whole:
        return None
    told = ending(found)
    made = _ended(data, found.entries, told)
    if name_of(made) == name:
        return RebuiltPack(made, True, "its footer was made again from its entries")
    end = whole[-1].offset + whole[-1].length
    turned = turned_back(data[end:], lambda tried: _is_footer(tried, end, name))
    if turned is not None and name_of(data[:end] + turned) == name:
        return RebuiltPack(data[:end] + turned, True, "a flipped bit of its footer was turned back")
    # What waits for its base would be left out: it may come yet.
    if len(found.entries) < len(whole) or _footer(made, name) is None:
        return None
    return RebuiltPack(made, False, "a footer was made for the entries that are whole")


def _is_footer(end: bytes, offset: int, name: str) -> bool:
    try:
        tail = Tail.parse(end)
        return tail.footer_offset == offset and bool(tail.footer(end[:-TRAILER_BYTES], name))
    except _REFUSED:
        return False


def _ended(data: bytes, entries: tuple[Placed, ...], told: Ending) -> bytes:
    """Return a pack of some entries of another, and a footer."""
    parts, offset = [HEADER], HEADER_BYTES
    placed = []
    for one in entries:
        parts.append(data[one.offset : one.offset + one.length])
        placed.append(replace(one, offset=offset))
        offset += one.length
    raw = Footer(tuple(placed), told.commits, told.reach, told.own).encode()
    encoding, packed = choose_described(raw, FREE_FOOTER_BYTES)
    stored = bytes([encoding]) + bytes(packed)
    return b"".join([*parts, stored, Tail(offset, len(stored), len(raw), b"").encode(stored)])
