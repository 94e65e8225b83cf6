"""The bytes of a whole pack: a header, framed entries, and the footer behind them.

`docs/format/packs.md` is the specification; this module is the only reader and writer of these bytes.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from mvcs.delta.choose import choose_opaque
from mvcs.errors import CorruptionError
from mvcs.objects.ids import ObjectId
from mvcs.store.entry import FRAME_BYTES, FRAME_MAGIC, Entry, frame, unframe
from mvcs.store.footer import HEADER_BYTES, VERSION, Footer, Placed, Tail, Written, check_version

MAX_PACK = 64 << 20

_HEADER = struct.Struct("<8sHHI")
_MAGIC = b"MVCSPACK"


@dataclass
class PackBuilder:
    """Collects entries and ends them with a footer. The builder holds the whole pack in memory."""

    parts: list[bytes] = field(default_factory=lambda: [_HEADER.pack(_MAGIC, VERSION, 0, 0)])
    length: int = _HEADER.size
    entries: list[Placed] = field(default_factory=list)

    def fits(self, size: int) -> bool:
        """Tell whether an entry of about `size` payload bytes still fits."""
        return not self.entries or self.length + size + FRAME_BYTES < MAX_PACK

    def add(self, entry: Entry, payload: bytes, ids: tuple[ObjectId, ...]) -> Placed:
        """Append an entry."""
        framed = frame(entry, payload)
        placed = Placed(self.length, len(framed), entry, ids)
        self.parts.append(framed)
        self.length += len(framed)
        self.entries.append(placed)
        return placed

    def finish(
        self, commits: tuple[Written, ...] = (), reach: tuple[str, ...] = (), own: tuple[str, ...] = ()
    ) -> bytes:
        """Append footer and trailer and return the whole file."""
        raw = Footer(tuple(self.entries), commits, reach, own).encode()
        encoding, packed = choose_opaque(raw)
        stored = bytes([encoding]) + packed
        tail = Tail(self.length, len(stored), len(raw), b"")
        return b"".join([*self.parts, stored, tail.encode(stored)])


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
    check_version(version, features, reserved)


def scan(data: bytes) -> Iterator[tuple[int, Entry, bytes, int]]:
    """Yield every entry of a whole pack without its footer: offset, header, payload, end.

    Raises:
        CorruptionError: an entry is damaged; entries before it were yielded.
    """
    check_header(data)
    offset = HEADER_BYTES
    while data[offset : offset + 4] == FRAME_MAGIC:
        entry, payload, end = unframe(data, offset)
        yield offset, entry, payload, end
        offset = end
