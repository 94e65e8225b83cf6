"""The bytes of a whole pack: a header, framed entries, and the footer behind them.

`docs/format/packs.md` is the specification; this module is the only reader and writer of these bytes.
"""

import struct
from collections.abc import Iterator

from mvcs.delta import Buffer
from mvcs.errors import CorruptionError
from mvcs.objects import FileName, ObjectId
from mvcs.store.backend.staged import Staged
from mvcs.store.packs.entry import (
    FRAME_BYTES,
    FRAME_MAGIC,
    MAX_RAW,
    Entry,
    entry_end,
    frame_start,
    read_entry,
)
from mvcs.store.packs.expansion_limit import FREE_FOOTER_BYTES, choose_described
from mvcs.store.packs.footer import (
    FEATURES,
    HEADER_BYTES,
    MAX_ENTRIES,
    MAX_FOOTER,
    VERSION,
    Footer,
    Placed,
    Tail,
    check_version,
)
from mvcs.store.packs.written_commit import LastEntry, chunk_entry

MAX_PACK = 64 << 20
FULL = MAX_ENTRIES - 2  # a commit, and random bytes, may follow what filled it
MAX_FILE = MAX_PACK + MAX_RAW + MAX_FOOTER  # entries fill a pack up to one too many

_HEADER = struct.Struct("<8sHHI")
_MAGIC = b"MVCSPACK"
HEADER = _HEADER.pack(_MAGIC, VERSION, FEATURES, 0)


class PackWriter:
    """Writes entries as they come, and ends them with a footer. Only the index of the pack stays in memory.

    Attributes:
        entries: what the pack holds so far.
        length: bytes so far.
    """

    def __init__(self, file: Staged) -> None:
        """Begin a pack in a file without a name."""
        self.entries: list[Placed] = []
        self.length = 0
        self._file = file
        self._name = FileName()
        self._named(HEADER)

    def fits(self, size: int) -> bool:
        """Tell whether an entry of about `size` payload bytes still fits."""
        is_small = self.length + size + FRAME_BYTES < MAX_PACK and len(self.entries) < FULL
        return not self.entries or is_small

    def add(self, entry: Entry, payload: Buffer, ids: tuple[ObjectId, ...]) -> Placed:
        """Append an entry.

        Raises:
            StorageError: it could not be written.
        """
        start = frame_start(entry, payload)
        placed = Placed(self.length, len(start) + len(payload), entry, ids)
        # The checksum in the frame stands for all that follows, which is hashed once.
        self._named(start[:FRAME_BYTES])
        self._write(start[FRAME_BYTES:])
        self._write(payload)
        self.entries.append(placed)
        return placed

    def finish(self, last: LastEntry | None = None) -> tuple[str, Footer]:
        """Append what ends the pack; return its name, and what its footer says as readers see it.

        The caller publishes the file under that name.

        Args:
            last: what its last entry says of the commit that it holds; None for a pack that holds none.

        Raises:
            StorageError: it could not be written.
        """
        if last is not None:
            self.add(chunk_entry(len(last.content)), last.content, (last.id,))
        raw = Footer(tuple(self.entries)).encode()
        encoding, packed = choose_described(raw, FREE_FOOTER_BYTES)
        stored = bytes([encoding]) + bytes(packed)
        tail = Tail(self.length, len(stored), len(raw), b"")
        end = tail.encode(stored)
        self._named(stored)
        self._named(end)
        name = self._name.text
        return name, Tail.parse(end).footer(stored, name)

    def _named(self, data: bytes) -> None:
        self._write(data)
        self._name.update(data)

    def _write(self, data: Buffer) -> None:
        self._file.write(data)
        self.length += len(data)


def name_of(data: bytes) -> str | None:
    """Return the name of a whole pack, of which every byte is checked; None for what is no pack, or damaged.

    It is the hash of header, frames of entries, footer and trailer; a frame has the checksum of its entry.
    """
    name, offset = FileName(), HEADER_BYTES
    name.update(data[:HEADER_BYTES])
    while data[offset : offset + len(FRAME_MAGIC)] == FRAME_MAGIC:
        try:
            end = entry_end(data, offset)
        except CorruptionError:
            return None
        name.update(data[offset : offset + FRAME_BYTES])
        offset = end
    name.update(data[offset:])
    return name.text


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


def scan(data: bytes) -> Iterator[tuple[int, Entry, memoryview, int]]:
    """Yield every entry of a whole pack without its footer: offset, header, payload, end.

    Raises:
        CorruptionError: an entry is damaged; entries before it were yielded.
    """
    check_header(data)
    offset = HEADER_BYTES
    while data[offset : offset + 4] == FRAME_MAGIC:
        entry, payload, end = read_entry(data, offset)
        yield offset, entry, payload, end
        offset = end
