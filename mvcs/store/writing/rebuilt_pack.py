"""A pack from what is left of it: byte for byte where its name proves that, else with a footer for the rest.

What repeats itself is made again: the header, what frames and footers say twice, a footer that a scan tells.
A single flipped bit is looked for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.store.packs.entry import FRAME_BYTES, frame_start, is_framed, read_entry
from mvcs.store.packs.expansion_limit import FREE_FOOTER_BYTES, choose_described
from mvcs.store.packs.footer import HEADER_BYTES, TRAILER_BYTES, Footer, Placed, Tail
from mvcs.store.packs.pack import HEADER, name_of
from mvcs.store.reading.flipped_bits import turned_back
from mvcs.store.reading.salvage import Salvage, framed
from mvcs.store.writing.encoded_again import Contents, encoded_again

_REFUSED = (CorruptionError, UnsupportedFormatError)
_CHECKSUM = slice(16, FRAME_BYTES)
_FEW = 8
_FLIPPED = 4  # damaged entries of a pack, in each of which a flipped bit is looked for


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
    name: str,
    data: bytes,
    salvaged: Callable[[], Salvage],
    contents: Callable[[], Contents],
) -> RebuiltPack | None:
    """Make a damaged pack again from its own bytes; None where nothing better than these comes of them.

    Args:
        name: of the pack.
        data: what lies there; anything may have happened to it.
        salvaged: finds the entries that can be decoded, if the footer cannot be read.
        contents: finds what damaged entries hold, if it can.
    """
    start = HEADER + data[HEADER_BYTES:]
    footer = _footer(start, name)
    if footer is None or footer.tail is None:
        return _without_footer(name, start, salvaged)
    regions = [start[one.offset :][: one.length] for one in footer.entries]
    damaged = sum(not _is_entry(region, one) for region, one in zip(regions, footer.entries, strict=True))
    turning = damaged <= _FLIPPED
    found = [_Found.of(*pair, turning=turning) for pair in zip(regions, footer.entries, strict=True)]
    end = start[footer.tail.footer_offset :]
    made = HEADER + b"".join(one.data for one in found) + end
    if name_of(made) == name:
        return RebuiltPack(made, True, "what it says twice, or one bit, was put right")
    return _from_elsewhere(name, found, end, contents)


@dataclass(frozen=True)
class _Found:
    """What became of one entry.

    Attributes:
        placed: the entry as its footer has it.
        region: the bytes that lie there.
        data: what they were, most likely.
        proven: whether the checksum that lies there says so.
    """

    placed: Placed
    region: bytes
    data: bytes
    proven: bool

    @classmethod
    def of(cls, region: bytes, placed: Placed, *, turning: bool) -> "_Found":
        """Make an entry as its footer says that it begins; with `turning` a flipped bit is looked for."""
        if _is_entry(region, placed):
            return cls(placed, region, region, proven=True)
        payload = region[FRAME_BYTES + len(placed.entry.item) :]
        made = frame_start(placed.entry, payload) + payload
        distance = _distance(made[_CHECKSUM], region[_CHECKSUM])
        if distance <= _FEW:
            return cls(placed, region, made, proven=not distance)
        if not turning:
            return cls(placed, region, region, proven=False)
        start = made[: _CHECKSUM.start] + region[_CHECKSUM] + made[FRAME_BYTES : len(made) - len(payload)]
        turned = turned_back(start + payload, lambda tried: is_framed(memoryview(tried)), len(start))
        return cls(placed, region, turned or region, proven=turned is not None)

    @property
    def is_better(self) -> bool:
        """Whether it can be read now and could not before."""
        return self.proven and self.data != self.region

    def again(self, contents: Contents) -> "_Found":
        """Return it with contents from elsewhere, if they are there; else as it lies there."""
        made = encoded_again(self.placed, self.region, contents)
        if made is None:
            return replace(self, data=self.region)
        placed = replace(self.placed, length=len(made.data), entry=made.entry)
        return _Found(placed, self.region, made.data, proven=True)


def _distance(one: bytes, other: bytes) -> int:
    """Return how many bits differ: few where a checksum is damaged, half of them where what it is of is."""
    return (int.from_bytes(one) ^ int.from_bytes(other)).bit_count()


def _from_elsewhere(
    name: str, found: list[_Found], end: bytes, contents: Callable[[], Contents]
) -> RebuiltPack | None:
    """Put contents from elsewhere into entries that are damaged, behind a footer that says where they lie."""
    others = contents()
    entries = [one if one.proven else one.again(others) for one in found]
    made = HEADER + b"".join(one.data for one in entries) + end
    if name_of(made) == name:
        return RebuiltPack(made, True, "what it held lies elsewhere too, and was encoded again")
    if not any(one.is_better for one in entries):
        return None
    made = _joined([one.data for one in entries], [one.placed for one in entries])
    if _footer(made, name) is None:
        return None
    return RebuiltPack(made, False, "what could be had of its contents was encoded again")


def _footer(data: bytes, name: str) -> Footer | None:
    try:
        tail = Tail.parse(data[-TRAILER_BYTES:])
        if tail.pack_length != len(data):
            return None
        return tail.footer(data[tail.footer_offset : -TRAILER_BYTES], name)
    except _REFUSED:
        return None


def _is_entry(data: bytes, placed: Placed) -> bool:
    try:
        entry, _, end = read_entry(data)
    except _REFUSED:
        return False
    return entry == placed.entry and end == placed.length


def _without_footer(name: str, data: bytes, salvaged: Callable[[], Salvage]) -> RebuiltPack | None:
    found = salvaged()
    whole = list(framed(data))
    if not whole:
        return None
    made = _joined([data[one.offset : one.offset + one.length] for one in found.entries], found.entries)
    if name_of(made) == name:
        return RebuiltPack(made, True, "its footer was made again from its entries")
    end = whole[-1].offset + whole[-1].length
    turned = turned_back(data[end:], lambda tried: _is_footer(tried, end, name))
    if turned is not None and name_of(data[:end] + turned) == name:
        return RebuiltPack(data[:end] + turned, True, "a flipped bit of its footer was corrected")
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


def _joined(parts: Sequence[bytes], entries: Sequence[Placed]) -> bytes:
    """Return a pack of entries, one behind another, and a footer."""
    ends = accumulate((len(part) for part in parts), initial=HEADER_BYTES)
    placed = tuple(replace(one, offset=offset) for one, offset in zip(entries, ends, strict=False))
    offset = HEADER_BYTES + sum(map(len, parts))
    raw = Footer(placed).encode()
    encoding, packed = choose_described(raw, FREE_FOOTER_BYTES)
    stored = bytes([encoding]) + bytes(packed)
    return b"".join([HEADER, *parts, stored, Tail(offset, len(stored), len(raw), b"").encode(stored)])
