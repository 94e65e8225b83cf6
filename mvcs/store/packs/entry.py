"""The bytes of an entry of a pack: its frame, what its header says, its payload.

`docs/format/packs.md` is the specification; this module is the only reader and writer of these bytes.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, repeat
from typing import NamedTuple, Self

from mvcs.delta import Buffer, ElementFormat, Encoding, as_array, encoding_numbered
from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.objects import HALF_BYTES, Kind, ObjectId, as_half, as_integer, as_list, cbor, checksum, half

MAX_RAW = 64 << 20
MAX_GROUP, MAX_MEMBERS, MAX_BUNDLED = 1 << 22, 1 << 12, 1 << 16
OPAQUE = ElementFormat(1, floating=False)
OPAQUE_ENCODINGS = (Encoding.RAW, Encoding.ZSTD)

_KINDS = {kind.value: kind for kind in (Kind.CHUNK, Kind.BLOB, Kind.TREE, Kind.COMMIT)}
_FRAME = struct.Struct("<4sIQ16s")
FRAME_MAGIC, FRAME_BYTES = b"MVCE", _FRAME.size


class _EntryBase(NamedTuple):
    """What an entry is encoded near.

    Attributes:
        id: the first half of the id of an object of the member's own kind; or, when `chunk` is given, of a
            quantized tensor. It finds a base, and what is made from that is hashed.
        chunk: the base is the restored values of this chunk of the quantized tensor; None when the
            base is the content of the object named by `id`.
    """

    id: ObjectId
    chunk: int | None


class EntryBase(_EntryBase):
    """The same, made of a whole id as well: the half that is written is kept."""

    __slots__ = ()

    def __new__(cls, identifier: ObjectId, chunk: int | None = None) -> Self:
        """Keep half of an id."""
        return super().__new__(cls, half(identifier), chunk)

    @property
    def item(self) -> bytes:
        """The encoded form in headers and footers."""
        name = cbor.dumps(self.id)
        return name if self.chunk is None else cbor.array_of([name, cbor.dumps(self.chunk)])

    @classmethod
    def from_value(cls, value: cbor.Value) -> "EntryBase":
        """Read the form in headers and footers."""
        if isinstance(value, bytes):
            return cls(as_half(value))
        identifier, chunk = as_list(value, "a base", 2)
        return cls(as_half(identifier), as_integer(chunk, "a base's chunk", 0, 1 << 40))

    @classmethod
    def of_halves(cls, halves: Sequence[ObjectId]) -> "tuple[EntryBase, ...]":
        """Return bases that are the contents of objects, by the halves of their ids."""
        return tuple([tuple.__new__(cls, base) for base in zip(halves, repeat(None), strict=False)])


@dataclass(frozen=True)
class Member:
    """One object of an entry: its kind and the bytes of its content."""

    kind: Kind
    length: int


@dataclass(frozen=True)
class Entry:
    """What the header of an entry says: how to make the content of its members.

    Attributes:
        members: the objects, in the order of their concatenated contents.
        encoding: how the payload was made.
        element: how the content reads as numbers, for the encodings that care.
        bases: what each member is encoded near, or nothing.
    """

    members: tuple[Member, ...]
    encoding: Encoding
    element: ElementFormat = OPAQUE
    bases: tuple[EntryBase, ...] = ()

    @property
    def raw_bytes(self) -> int:
        """Bytes of the content of all members."""
        return self.ends[-1] if self.members else 0

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Bytes of the content of each member."""
        return tuple([member.length for member in self.members])

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Where in the content each member ends."""
        return tuple(accumulate(self.lengths))

    @cached_property
    def near(self) -> tuple[ObjectId, ...]:
        """Of each base that is the content of an object half its id, in the order of the members."""
        return tuple([base.id for base in self.bases if base.chunk is None])

    @cached_property
    def base_ids(self) -> tuple[ObjectId, ...]:
        """The objects that must be decoded before this entry, each once."""
        return tuple(dict.fromkeys(self.near))

    @cached_property
    def item(self) -> bytes:
        """The encoded form in headers and footers, made once: it is measured, framed and indexed."""
        each = {id(member): member for member in self.members}  # one often stands for many
        items = {place: cbor.dumps([member.kind.value, member.length]) for place, member in each.items()}
        members = cbor.array_of([items[id(member)] for member in self.members])
        bases = self._bases_item if self.bases else cbor.dumps(None)
        numbers = self.encoding.value, self.element.to_number()
        return cbor.array_of([members, *map(cbor.dumps, numbers), bases])

    @property
    def _bases_item(self) -> bytes:
        if len(self.near) == len(self.bases) and set(map(len, self.near)) == {HALF_BYTES}:
            return cbor.array_of([*map(cbor.half_item, self.near)])
        return cbor.array_of([base.item for base in self.bases])

    @classmethod
    def from_value(cls, value: cbor.Value) -> "Entry":
        """Read the form in headers and footers.

        Raises:
            CorruptionError: it is malformed, or its content would be larger than an entry may be.
            UnsupportedFormatError: it has an encoding or kind that this version does not know.
        """
        members, encoding, element, bases = as_list(value, "an entry", 4)
        entry = cls(
            _members(as_list(members, "an entry's members")),
            encoding_numbered(as_integer(encoding, "an encoding", 0, 256)),
            ElementFormat.from_number(as_integer(element, "an element format", 0, 256)),
            () if bases is None else _bases(as_list(bases, "an entry's bases")),
        )
        _check(entry, stated=bases is not None)
        return entry


def _check(entry: Entry, *, stated: bool) -> None:
    members, encoding = entry.members, entry.encoding
    if not 0 < len(members) <= MAX_BUNDLED or entry.raw_bytes > MAX_RAW:
        raise CorruptionError("an entry of a pack is empty or too large, or has too many members")
    if encoding.has_base != stated or (stated and len(entry.bases) != len(members)):
        raise CorruptionError("an entry of a pack lacks a base, or has one it does not use")
    if len(members) == 1 or encoding in OPAQUE_ENCODINGS:
        return
    if encoding is Encoding.ZSTD_DELTA:
        raise CorruptionError("several members of an entry are near one object")
    width = entry.element.width
    each = {id(member): member for member in members}.values()
    if any(member.kind is not Kind.CHUNK or member.length % width for member in each):
        raise CorruptionError(f"an entry encoded as '{encoding.name}' has an unfit member")
    if entry.raw_bytes > MAX_GROUP * width or len(members) > MAX_MEMBERS:
        raise CorruptionError("an entry has too many members, or too many elements in them")


def _members(values: list[cbor.Value]) -> tuple[Member, ...]:
    """Read members; of those that are alike, as in entries of small tensors, one stands for all."""
    pairs = [value for value in values if type(value) is list]
    if len(pairs) < len(values) or set(map(type, chain.from_iterable(pairs))) != {int}:
        return tuple(map(_member, values))
    keys = list(map(tuple, pairs))
    known = {key: _member(list(key)) for key in dict.fromkeys(keys)}
    return tuple([known[key] for key in keys])


def _member(value: cbor.Value) -> Member:
    kind, length = as_list(value, "a member of an entry", 2)
    number = as_integer(kind, "an object's kind", 0, 256)
    if number not in _KINDS:
        raise UnsupportedFormatError(f"a pack holds an object of the kind {number}, which stands in none")
    return Member(_KINDS[number], as_integer(length, "an object's length", 0, MAX_RAW + 1))


def _bases(values: list[cbor.Value]) -> tuple[EntryBase, ...]:
    halves = [ObjectId(value) for value in values if type(value) is bytes]
    if len(halves) == len(values) and set(map(len, halves)) == {HALF_BYTES}:
        return EntryBase.of_halves(halves)
    return tuple(map(EntryBase.from_value, values))


def frame_start(entry: Entry, payload: Buffer) -> bytes:
    """Return the bytes of one entry up to its payload: magic, lengths, checksum, header."""
    header = entry.item
    checked = checksum(header, as_array(payload).data)
    return _FRAME.pack(FRAME_MAGIC, len(header), len(payload), checked) + header


def framed_bytes(entry: Entry, payload: Buffer) -> int:
    """Return how many bytes an entry takes in a pack."""
    return FRAME_BYTES + len(entry.item) + len(payload)


def entry_end(data: Buffer, offset: int = 0) -> int:
    """Return the offset behind the entry at `offset`, of which all bytes match its checksum.

    Raises:
        CorruptionError: it is truncated or damaged.
    """
    return _whole(as_array(data).data, offset)[1]


def _whole(view: memoryview, offset: int, start: int = 0) -> tuple[int, int]:
    """Return the length of an entry's header, and the offset behind the entry, as `entry_end` does.

    `start` is where the view begins in its pack: errors say where the entry lies in that.
    """
    place = start + offset
    if len(view) - offset < FRAME_BYTES:
        raise CorruptionError(f"an entry at offset {place} is truncated")
    magic, header_length, payload_length, stored = _FRAME.unpack_from(view, offset)
    end = offset + FRAME_BYTES + header_length + payload_length
    if magic != FRAME_MAGIC or end > len(view):
        raise CorruptionError(f"no whole entry lies at offset {place}")
    if checksum(view[offset + FRAME_BYTES : end]) != stored:
        raise CorruptionError(f"the entry at offset {place} does not match its checksum")
    return header_length, end


def read_entry(data: bytes, offset: int = 0, start: int = 0) -> tuple[Entry, memoryview, int]:
    """Read one entry at `offset`: its header, its payload in the same memory, and the offset behind it.

    `start` is where the data begin in their pack, as errors tell it.

    Raises:
        CorruptionError: it is truncated or damaged.
    """
    view = memoryview(data)
    header_length, end = _whole(view, offset, start)
    framed = view[offset + FRAME_BYTES : end]
    return Entry.from_value(cbor.loads(framed[:header_length])), framed[header_length:], end


def read_payload(data: bytes, entry: Entry, start: int = 0) -> memoryview:
    """Return the payload of the only entry in `data`, in the same memory; `start` is as in `read_entry`.

    Raises:
        CorruptionError: it is truncated or damaged, or another than `entry`.
    """
    view = memoryview(data)
    header_length, end = _whole(view, 0, start)
    framed = view[FRAME_BYTES:end]
    # An entry has one encoding: to compare it takes a fraction of reading it.
    if framed[:header_length] != entry.item:
        Entry.from_value(cbor.loads(framed[:header_length]))
        raise CorruptionError("its entry is not the one the footer names")
    if end != len(data):
        raise CorruptionError("its entry is not the one the footer names")
    return framed[header_length:]


def is_framed(data: memoryview) -> bool:
    """Tell whether these bytes are one entry that matches its checksum; what its header says is not read."""
    try:
        return entry_end(data) == len(data)
    except CorruptionError:
        return False
