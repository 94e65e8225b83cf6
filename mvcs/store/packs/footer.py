"""The bytes at the end of a pack: the footer that indexes its entries, and the trailer that finds the footer.

`docs/format/packs.md` is the specification; this module is the only reader and writer of these bytes.
"""

import struct
from dataclasses import dataclass, field

from mvcs.delta import Content, decode, encoding_numbered
from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.memory import no_collections
from mvcs.objects import ObjectId, as_ids, as_integer, as_list, cbor, checksum
from mvcs.store.packs.entry import FRAME_BYTES, OPAQUE, OPAQUE_ENCODINGS, Entry
from mvcs.store.packs.expansion_limit import FREE_FOOTER_BYTES, is_plausible

VERSION = 1
FEATURES = 2
"""The bytes of format 1 as its pages close it; previews of it have less here."""
HEADER_BYTES = 16
MAX_FOOTER = 256 << 20
MAX_OFFSET = 1 << 40
MAX_ENTRIES = 1 << 16

_TAIL_START, _TAIL_END = struct.Struct("<QIIHHI"), struct.Struct("<16s8s")
_TAIL_MAGIC = b"MVCSTAIL"
TRAILER_BYTES = _TAIL_START.size + _TAIL_END.size


@dataclass(frozen=True)
class Placed:
    """An entry and where it lies in its pack."""

    offset: int
    length: int
    entry: Entry
    ids: tuple[ObjectId, ...]

    @property
    def item(self) -> bytes:
        """The encoded form in a footer."""
        place, ids = (self.offset, self.length), cbor.array_of([*map(cbor.id_item, self.ids)])
        return cbor.array_of([*map(cbor.dumps, place), self.entry.item, ids])


@dataclass(frozen=True)
class Footer:
    """The index of a pack.

    Attributes:
        entries: every entry, in file order.
        tail: the trailer behind it; None before it is written.
    """

    entries: tuple[Placed, ...]
    tail: "Tail | None" = field(default=None, compare=False)

    def encode(self) -> bytes:
        """Return the uncompressed bytes of the footer."""
        return cbor.array_of([placed.item for placed in self.entries])

    @classmethod
    def decode(cls, content: Content, tail: "Tail") -> "Footer":
        """Read the uncompressed bytes of the footer of a pack that ends in `tail`.

        Raises:
            CorruptionError: it is malformed, or its entries do not fill the pack.
        """
        rows = as_list(cbor.loads(content), "a footer")
        if len(rows) > MAX_ENTRIES:
            raise CorruptionError(f"a footer has {len(rows)} entries, too many")
        placed = tuple(map(_placed, rows))
        ends = [HEADER_BYTES, *(entry.offset + entry.length for entry in placed)]
        if [*(entry.offset for entry in placed), tail.footer_offset] != ends:
            raise CorruptionError("a footer's entries do not fill its pack")
        return cls(placed, tail)


def _placed(value: cbor.Value) -> Placed:
    offset, length, entry, ids = as_list(value, "a footer's entry", 4)
    start = as_integer(offset, "an offset", HEADER_BYTES, MAX_OFFSET)
    size = as_integer(length, "a length", FRAME_BYTES, MAX_OFFSET)
    parsed = Entry.from_value(entry)
    names = as_ids(as_list(ids, "an entry's ids", len(parsed.members)))
    return Placed(start, size, parsed, names)


@dataclass(frozen=True)
class Tail:
    """What the trailer of a pack says."""

    footer_offset: int
    footer_length: int
    raw_length: int
    checksum: bytes

    @property
    def pack_length(self) -> int:
        """Bytes of the whole pack."""
        return self.footer_offset + self.footer_length + TRAILER_BYTES

    @classmethod
    def parse(cls, end: bytes) -> "Tail":
        """Read the trailer from the last bytes of a pack.

        Raises:
            CorruptionError: these are not the last bytes of a pack.
        """
        if len(end) < TRAILER_BYTES:
            raise CorruptionError("the file is shorter than the end of a pack")
        trailer = end[-TRAILER_BYTES:]
        offset, length, raw, version, features, reserved = _TAIL_START.unpack_from(trailer)
        stored, magic = _TAIL_END.unpack_from(trailer, _TAIL_START.size)
        if magic != _TAIL_MAGIC:
            raise CorruptionError("the file does not end like a pack; it is truncated or damaged")
        check_version(version, features, reserved)
        too_large = raw > MAX_FOOTER or not is_plausible(raw, length, FREE_FOOTER_BYTES)
        if not 0 < length <= MAX_FOOTER or too_large or not HEADER_BYTES <= offset < MAX_OFFSET:
            raise CorruptionError("the end of the pack names an impossible footer")
        return cls(offset, length, raw, stored)

    def encode(self, stored: bytes) -> bytes:
        """Return the trailer behind the stored footer."""
        return self._numbers + _TAIL_END.pack(self._checksum(stored), _TAIL_MAGIC)

    @property
    def _numbers(self) -> bytes:
        return _TAIL_START.pack(self.footer_offset, self.footer_length, self.raw_length, VERSION, FEATURES, 0)

    def _checksum(self, stored: bytes) -> bytes:
        return checksum(self._numbers + stored)

    def matches(self, end: bytes) -> bool:
        """Tell whether the last bytes of a pack, from its footer on, hold the footer that belongs here."""
        stored = end[:-TRAILER_BYTES]
        return len(stored) == self.footer_length and self._checksum(stored) == self.checksum

    def footer(self, stored: bytes, name: str) -> Footer:
        """Check and read the stored footer.

        Raises:
            CorruptionError: it does not match its checksum.
        """
        if len(stored) != self.footer_length or self._checksum(stored) != self.checksum:
            raise CorruptionError(f"the footer of pack {name[:12]} does not match its checksum")
        encoding = encoding_numbered(stored[0])
        if encoding not in OPAQUE_ENCODINGS:
            raise CorruptionError(f"the footer of pack {name[:12]} is encoded as '{encoding.name}'")
        raw = decode(encoding, stored[1:], lengths=[self.raw_length], element=OPAQUE)
        with no_collections():
            return Footer.decode(raw, self)


def check_version(version: int, features: int, reserved: int) -> None:
    """Check the numbers that a pack's first and last bytes both hold.

    Raises:
        UnsupportedFormatError: this version does not know them.
    """
    if version == VERSION and features < FEATURES and not reserved:
        raise preview_error("a pack")
    if (version, features, reserved) != (VERSION, FEATURES, 0):
        raise UnsupportedFormatError(
            f"a pack has version {version} and features {features:#x}", hint="a newer mvcs wrote it; upgrade"
        )


def preview_error(what: str) -> UnsupportedFormatError:
    """Return the error for something of a store that was written before format 1 was closed."""
    return UnsupportedFormatError(
        f"{what} was written before format 1 was closed",
        hint="check out what you need with the mvcs that wrote it, and commit that again",
    )
