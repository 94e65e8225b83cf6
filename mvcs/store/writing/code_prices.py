"""What codes of a lattice would take in a pack, in the entries and encodings that the writer gives them."""

from collections.abc import Iterable

from mvcs.delta import Buffer, ElementFormat
from mvcs.objects import ObjectId
from mvcs.store.packs.entry import EntryBase
from mvcs.store.writing.entry_groups import EntryGroups, Family, Group, Piece
from mvcs.store.writing.entry_writer import coded

_ELEMENT = ElementFormat(2, floating=False)
_UNNAMED = ObjectId(bytes(32))  # nothing is stored, so nothing has to be found again


def payload_bytes(chunks: Iterable[tuple[Buffer, Buffer | None]]) -> int:
    """Return the bytes of all payloads of chunks, each with the codes on the same step it may be near."""
    groups = EntryGroups()
    total = sum(_payload(group) for content, old in chunks for group in groups.add(*_piece(content, old)))
    return total + sum(map(_payload, groups.drain()))


def _piece(content: Buffer, old: Buffer | None) -> tuple[Family, Piece]:
    base = None if old is None else EntryBase(_UNNAMED)
    return Family(codes=True, element=_ELEMENT, near=base is not None), Piece(_UNNAMED, content, base, old)


def _payload(group: Group) -> int:
    return len(coded(*group, "auto")[1])
