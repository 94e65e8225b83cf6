"""The bytes of a pack: framed entries, a footer that indexes them, and a trailer that finds the footer.

`docs/format/packs.md` is the specification; this module is the only reader and writer of these bytes.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from mvcs.delta.choose import choose_opaque
from mvcs.delta.element import ElementFormat
from mvcs.delta.encoding import Encoding, decode, encoding_numbered
from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.objects import cbor
from mvcs.objects.fields import as_bytes, as_integer, as_list
from mvcs.objects.ids import Kind, ObjectId, as_id, checksum, object_id

MAX_PACK = 64 << 20
MAX_RAW = 64 << 20
MAX_FOOTER = 256 << 20
MAX_OFFSET = 1 << 40
ANCESTORS = 32

_HEADER = struct.Struct("<8sHHI")
_FRAME = struct.Struct("<4sIQ16s")
_TAIL_START, _TAIL_END = struct.Struct("<QIIHHI"), struct.Struct("<16s8s")
_MAGIC, _FRAME_MAGIC, _TAIL_MAGIC = b"MVCSPACK", b"MVCE", b"MVCSTAIL"
_VERSION = 1
HEADER_BYTES, FRAME_BYTES, TRAILER_BYTES = _HEADER.size, _FRAME.size, _TAIL_START.size + _TAIL_END.size
OPAQUE = ElementFormat(1, floating=False)
_OPAQUE_ENCODINGS = (Encoding.RAW, Encoding.ZSTD)


@dataclass(frozen=True)
class Base:
    """What an entry is encoded near.

    Attributes:
        id: a chunk; or, when `chunk` is given, a quantized tensor.
        chunk: the base is the restored values of this chunk of the quantized tensor; None when the
            base is the bytes of the chunk named by `id`.
    """

    id: ObjectId
    chunk: int | None = None

    def to_value(self) -> cbor.Value:
        """Return the form in headers and footers."""
        return self.id if self.chunk is None else [self.id, self.chunk]

    @classmethod
    def from_value(cls, value: cbor.Value) -> "Base":
        """Read the form in headers and footers."""
        if isinstance(value, bytes):
            return cls(as_id(value))
        identifier, chunk = as_list(value, "a base", 2)
        return cls(as_id(identifier), as_integer(chunk, "a base's chunk", 0, 1 << 40))


@dataclass(frozen=True)
class Member:
    """One object of an entry: its kind and the bytes of its content."""

    kind: Kind
    length: int


@dataclass(frozen=True)
class Entry:
    """What the header of an entry says: how to make the content of its members.

    Attributes:
        members: the objects, in the order of their concatenated contents; a single chunk or a bundle.
        encoding: how the payload was made.
        element: how the content reads as numbers, for the encodings that care.
        base: what it is encoded near, or None.
    """

    members: tuple[Member, ...]
    encoding: Encoding
    element: ElementFormat = OPAQUE
    base: Base | None = None

    @property
    def raw_bytes(self) -> int:
        """Bytes of the content of all members."""
        return sum(member.length for member in self.members)

    def to_value(self) -> list[cbor.Value]:
        """Return the form in headers and footers."""
        members: list[cbor.Value] = [[member.kind.value, member.length] for member in self.members]
        base = None if self.base is None else self.base.to_value()
        return [members, self.encoding.value, self.element.to_number(), base]

    @classmethod
    def from_value(cls, value: cbor.Value) -> "Entry":
        """Read the form in headers and footers.

        Raises:
            CorruptionError: it is malformed, or its content would be larger than an entry may be.
            UnsupportedFormatError: it has an encoding or kind that this version does not know.
        """
        members, encoding, element, base = as_list(value, "an entry", 4)
        parsed = tuple(_member(member) for member in as_list(members, "an entry's members"))
        entry = cls(
            parsed,
            encoding_numbered(as_integer(encoding, "an encoding", 0, 256)),
            ElementFormat.from_number(as_integer(element, "an element format", 0, 256)),
            None if base is None else Base.from_value(base),
        )
        if not parsed or entry.raw_bytes > MAX_RAW:
            raise CorruptionError("an entry of a pack is empty or too large")
        if entry.encoding.has_base != (entry.base is not None):
            raise CorruptionError("an entry of a pack lacks a base, or has one it does not use")
        if len(parsed) > 1 and entry.encoding not in _OPAQUE_ENCODINGS:
            raise CorruptionError(f"a bundle in a pack is encoded as '{entry.encoding.name}'")
        return entry


def _member(value: cbor.Value) -> Member:
    kind, length = as_list(value, "a member of an entry", 2)
    number = as_integer(kind, "an object's kind", 0, 256)
    if number not in Kind._value2member_map_:
        raise UnsupportedFormatError(f"a pack holds an object of the unknown kind {number}")
    return Member(Kind(number), as_integer(length, "an object's length", 0, MAX_RAW + 1))


@dataclass(frozen=True)
class Placed:
    """An entry and where it lies in its pack."""

    offset: int
    length: int
    entry: Entry
    ids: tuple[ObjectId, ...]


@dataclass(frozen=True)
class Written:
    """A commit as a footer carries it, with its sizes and depth as first written.

    Attributes:
        id: the commit.
        content: its canonical bytes.
        pack: name of the pack whose footer describes what it needs.
        raw_bytes: bytes of its tensors and blobs as handed over.
        stored_bytes: all bytes it added, but its exact layer.
        exact_bytes: bytes of its exact layer; 0 for an exact commit.
        depth: the longest chain of deltas behind any of its chunks.
        exact_packs: the packs of its exact layer.
    """

    id: ObjectId
    content: bytes
    pack: str
    raw_bytes: int
    stored_bytes: int
    exact_bytes: int
    depth: int
    exact_packs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Footer:
    """The index of a pack.

    Attributes:
        entries: every entry, in file order.
        commits: the commit this pack ends, then up to 32 of its ancestors; empty for other packs.
        reach: names of the packs of other commits that reading the commit's value layer needs.
        own: names of the commit's other packs, written before this one.
    """

    entries: tuple[Placed, ...]
    commits: tuple[Written, ...] = ()
    reach: tuple[str, ...] = ()
    own: tuple[str, ...] = ()

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of all other packs that reading the commit's value layer needs."""
        return (*self.own, *self.reach)

    def encode(self) -> bytes:
        """Return the uncompressed bytes of the footer."""
        entries: list[cbor.Value] = [
            [placed.offset, placed.length, placed.entry.to_value(), list(placed.ids)]
            for placed in self.entries
        ]
        commits: list[cbor.Value] = [_written_value(commit) for commit in self.commits]
        reach, own = ([bytes.fromhex(name) for name in names] for names in (self.reach, self.own))
        return cbor.dumps([entries, commits, reach, own])

    @classmethod
    def decode(cls, content: bytes, name: str, tail: "Tail") -> "Footer":
        """Read the uncompressed bytes of the footer of the pack `name` that ends in `tail`.

        Raises:
            CorruptionError: it is malformed, or its entries do not fill the pack.
        """
        entries, commits, reach, others = as_list(cbor.loads(content), "a footer", 4)
        placed = tuple(map(_placed, as_list(entries, "a footer's entries")))
        ends = [HEADER_BYTES, *(entry.offset + entry.length for entry in placed)]
        if [*(entry.offset for entry in placed), tail.footer_offset] != ends:
            raise CorruptionError("a footer's entries do not fill its pack")
        own = tail.pack_length
        records = tuple(_written(commit, name, own) for commit in as_list(commits, "a footer's commits"))
        return cls(placed, records, _names(reach), _names(others))


def _names(value: cbor.Value) -> tuple[str, ...]:
    return tuple(as_id(pack).hex() for pack in as_list(value, "a list of packs"))


def _placed(value: cbor.Value) -> Placed:
    offset, length, entry, ids = as_list(value, "a footer's entry", 4)
    start = as_integer(offset, "an offset", HEADER_BYTES, MAX_OFFSET)
    size = as_integer(length, "a length", FRAME_BYTES, MAX_OFFSET)
    parsed = Entry.from_value(entry)
    names = tuple(as_id(identifier) for identifier in as_list(ids, "an entry's ids", len(parsed.members)))
    return Placed(start, size, parsed, names)


def _written_value(commit: Written) -> cbor.Value:
    pack = bytes.fromhex(commit.pack) if commit.pack else None
    sizes: list[cbor.Value] = [commit.raw_bytes, commit.stored_bytes, commit.exact_bytes, commit.depth]
    return [commit.content, pack, sizes, [bytes.fromhex(name) for name in commit.exact_packs]]


def _written(value: cbor.Value, own_name: str, own_length: int) -> Written:
    content, pack, sizes, exact = as_list(value, "a footer's commit", 4)
    raw, stored, layer, depth = (
        as_integer(size, "a size", 0, 1 << 62) for size in as_list(sizes, "sizes", 4)
    )
    data = as_bytes(content, "a commit")
    name = own_name if pack is None else as_id(pack).hex()
    added = own_length if pack is None else 0
    return Written(object_id(Kind.COMMIT, data), data, name, raw, stored + added, layer, depth, _names(exact))


def frame(entry: Entry, payload: bytes) -> bytes:
    """Return the bytes of one entry: magic, lengths, checksum, header, payload."""
    header = cbor.dumps(entry.to_value())
    return _FRAME.pack(_FRAME_MAGIC, len(header), len(payload), checksum(header + payload)) + header + payload


def unframe(data: bytes, offset: int = 0) -> tuple[Entry, bytes, int]:
    """Read one entry at `offset`: its header, its payload, and the offset behind it.

    Raises:
        CorruptionError: it is truncated or damaged.
    """
    if len(data) - offset < FRAME_BYTES:
        raise CorruptionError(f"an entry at offset {offset} is truncated")
    magic, header_length, payload_length, stored = _FRAME.unpack_from(data, offset)
    start, end = offset + FRAME_BYTES, offset + FRAME_BYTES + header_length + payload_length
    if magic != _FRAME_MAGIC or end > len(data):
        raise CorruptionError(f"no whole entry lies at offset {offset}")
    if checksum(data[start:end]) != stored:
        raise CorruptionError(f"the entry at offset {offset} does not match its checksum")
    header = data[start : start + header_length]
    return Entry.from_value(cbor.loads(header)), data[start + header_length : end], end


@dataclass
class PackBuilder:
    """Collects entries and ends them with a footer. The builder holds the whole pack in memory."""

    data: bytearray = field(default_factory=lambda: bytearray(_HEADER.pack(_MAGIC, _VERSION, 0, 0)))
    entries: list[Placed] = field(default_factory=list)

    def fits(self, size: int) -> bool:
        """Tell whether an entry of about `size` payload bytes still fits."""
        return not self.entries or len(self.data) + size + FRAME_BYTES < MAX_PACK

    def add(self, entry: Entry, payload: bytes, ids: tuple[ObjectId, ...]) -> Placed:
        """Append an entry."""
        framed = frame(entry, payload)
        placed = Placed(len(self.data), len(framed), entry, ids)
        self.data += framed
        self.entries.append(placed)
        return placed

    def finish(
        self, commits: tuple[Written, ...] = (), reach: tuple[str, ...] = (), own: tuple[str, ...] = ()
    ) -> bytes:
        """Append footer and trailer and return the whole file."""
        raw = Footer(tuple(self.entries), commits, reach, own).encode()
        encoding, packed = choose_opaque(raw)
        stored = bytes([encoding]) + packed
        tail = Tail(len(self.data), len(stored), len(raw), b"")
        return bytes(self.data) + stored + tail.encode(stored)


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
        _check_version(version, features, reserved)
        if not 0 < length <= MAX_FOOTER or raw > MAX_FOOTER or not HEADER_BYTES <= offset < MAX_OFFSET:
            raise CorruptionError("the end of the pack names an impossible footer")
        return cls(offset, length, raw, stored)

    def encode(self, stored: bytes) -> bytes:
        """Return the trailer behind the stored footer."""
        return self._numbers + _TAIL_END.pack(self._checksum(stored), _TAIL_MAGIC)

    @property
    def _numbers(self) -> bytes:
        return _TAIL_START.pack(self.footer_offset, self.footer_length, self.raw_length, _VERSION, 0, 0)

    def _checksum(self, stored: bytes) -> bytes:
        return checksum(self._numbers + stored)

    def footer(self, stored: bytes, name: str) -> Footer:
        """Check and read the stored footer.

        Raises:
            CorruptionError: it does not match its checksum.
        """
        if len(stored) != self.footer_length or self._checksum(stored) != self.checksum:
            raise CorruptionError(f"the footer of pack {name[:12]} does not match its checksum")
        encoding = encoding_numbered(stored[0])
        if encoding not in _OPAQUE_ENCODINGS:
            raise CorruptionError(f"the footer of pack {name[:12]} is encoded as '{encoding.name}'")
        raw = decode(encoding, stored[1:], length=self.raw_length, element=OPAQUE)
        return Footer.decode(raw, name, self)


def check_header(start: bytes) -> None:
    """Check the first bytes of a pack.

    Raises:
        CorruptionError: it is not a pack.
        UnsupportedFormatError: it has a version or feature that this version does not know.
    """
    if len(start) < HEADER_BYTES:
        raise CorruptionError("the file is shorter than the start of a pack")
    magic, version, features, reserved = _HEADER.unpack_from(start)
    if magic != _MAGIC:
        raise CorruptionError("the file does not start like a pack")
    _check_version(version, features, reserved)


def _check_version(version: int, features: int, reserved: int) -> None:
    if version != _VERSION or features or reserved:
        raise UnsupportedFormatError(
            f"a pack has version {version} and features {features:#x}", hint="a newer mvcs wrote it; upgrade"
        )


def scan(data: bytes) -> Iterator[tuple[int, Entry, bytes, int]]:
    """Yield every entry of a whole pack without its footer: offset, header, payload, end.

    Raises:
        CorruptionError: an entry is damaged; entries before it were yielded.
    """
    check_header(data)
    offset = HEADER_BYTES
    while data[offset : offset + 4] == _FRAME_MAGIC:
        entry, payload, end = unframe(data, offset)
        yield offset, entry, payload, end
        offset = end
