"""What a pack without its footer still holds: its entries, found one behind another, decoded and hashed."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.objects import Kind, ObjectId, object_id, short_id
from mvcs.store.packs.entry import FRAME_MAGIC, Entry, read_entry
from mvcs.store.packs.footer import HEADER_BYTES, TRAILER_BYTES, Placed, Tail
from mvcs.store.packs.pack import MAX_FILE, check_header
from mvcs.store.packs.written_commit import LastEntry, chunk_entry
from mvcs.store.reading.located import Located
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.reading.pack_files import UNREADABLE_ERRORS, pack_path

_NAMED = 4
_HASHED = 64  # times the bytes of a file


@dataclass(frozen=True)
class Salvage:
    """What was found whole: the first part of the footer, as far as the entries are there.

    Attributes:
        entries: those that could be decoded, with the ids that their contents hash to.
        length: bytes of the file.
        name: of the pack.
        told: what the last entry says of the commit that the pack holds; None where none was found.
    """

    entries: tuple[Placed, ...]
    length: int
    name: str = ""
    told: LastEntry | None = None

    @property
    def stored_bytes(self) -> int:
        """Bytes of the entries."""
        return sum(placed.length for placed in self.entries)

    @property
    def objects(self) -> list[tuple[Kind, ObjectId]]:
        """What the entries hold."""
        pairs = (zip(placed.entry.members, placed.ids, strict=True) for placed in self.entries)
        return [(member.kind, identifier) for entry in pairs for member, identifier in entry]

    def __str__(self) -> str:
        """Say what was found."""
        commits = [short_id(identifier) for kind, identifier in self.objects if kind is Kind.COMMIT]
        count = len(self.objects)
        entries = f"{len(self.entries)} entries with {count} objects are" if count else "no entry is"
        # A pack holds one commit; only a stranger's holds more.
        named = f"commit {commits[0]}" if len(commits) == 1 else f"{len(commits)} commits"
        among = f", {named} among them{self._places}" if commits else ""
        return f"{entries} whole, {self.stored_bytes} of {self.length} bytes{among}"

    @property
    def _places(self) -> str:
        """Say where else the commit lies."""
        if self.told is None:
            return ""
        packs = [pack_path(name, exact=True) for name in self.told.exact_packs]
        return (
            f", which also has {', '.join(packs[:_NAMED])}{' ...' * (len(packs) > _NAMED)}" if packs else ""
        )


def salvage(store: ObjectStore, name: str, *, exact: bool) -> Salvage:
    """Find what can be read of a pack whose footer cannot; bases may lie in any pack of the store.

    Args:
        store: a view of it that knows of no pack yet.
        name: of the pack.
        exact: whether it is of an exact layer.

    Raises:
        NotFoundError: the pack is not there.
        CorruptionError: it is larger than any pack.
        StorageError: the store cannot be read.
    """
    data = store.backend.read_small(pack_path(name, exact=exact), MAX_FILE)
    whole, content = list[Placed](), b""
    store.catalog.attach_everything(exact=exact)
    for placed in framed(data) if is_pack_like(data) else ():
        with suppress(*UNREADABLE_ERRORS):
            content = bytes(store.entry_content(Located(name, exact, placed, 0)))
            whole.append(replace(placed, ids=_ids(placed.entry, content)))
            store.catalog.enter(name, whole[-1], exact=exact)
    return Salvage(tuple(whole), len(data), name, None if exact else last_entry(whole, content))


def last_entry(entries: Sequence[Placed], last: bytes) -> LastEntry | None:
    """Read the content of the last entry, if it is that of a pack that holds a commit."""
    ends = any(member.kind is Kind.COMMIT for placed in entries for member in placed.entry.members)
    with suppress(CorruptionError):
        return LastEntry.decode(last) if ends and entries[-1].entry == chunk_entry(len(last)) else None
    return None


def framed(data: bytes) -> Iterator[Placed]:
    """Yield the entries of a pack that match their checksums, without ids; behind a damaged one it goes on.

    Of what only looks like an entry so much is hashed as would take the file a few times, and no more.
    """
    offset, allowance = HEADER_BYTES, _HASHED * len(data)
    while offset >= 0 and allowance > 0:
        with suppress(CorruptionError, UnsupportedFormatError):
            entry, _, end = read_entry(data, offset)
            yield Placed(offset, end - offset, entry, ())
            offset = end
            continue
        allowance -= len(data) - offset
        offset = data.find(FRAME_MAGIC, offset + 1)


def is_pack_like(data: bytes) -> bool:
    """Tell whether a file begins or ends like a pack of this version: another one's is not taken apart."""
    for check in (lambda: check_header(data[:HEADER_BYTES]), lambda: Tail.parse(data[-TRAILER_BYTES:])):
        with suppress(CorruptionError, UnsupportedFormatError):
            check()
            return True
    return False


def _ids(entry: Entry, content: bytes) -> tuple[ObjectId, ...]:
    ids, start = list[ObjectId](), 0
    for member in entry.members:
        ids.append(object_id(member.kind, content[start : start + member.length]))
        start += member.length
    return tuple(ids)
