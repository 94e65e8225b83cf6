"""A group of chunks becomes an entry and its payload."""

from mvcs.delta import (
    Buffer,
    Chosen,
    CodeChunks,
    CodeCoder,
    Encoding,
    choose_codes,
    choose_exact,
    decode,
    joined_bytes,
    narrowed_payload,
)
from mvcs.errors import CorruptionError
from mvcs.objects import Kind
from mvcs.store.packs.entry import Entry, Member
from mvcs.store.writing.entry_groups import Family, Piece


def uncoded(family: Family, pieces: list[Piece]) -> tuple[Entry, Buffer]:
    """Return an entry with the chunks of a group as they are."""
    return Entry(_members(pieces), Encoding.RAW, family.element), joined_bytes(
        piece.content for piece in pieces
    )


def coded(family: Family, pieces: list[Piece], coder: CodeCoder) -> tuple[Entry, Buffer]:
    """Return the smallest entry for the chunks of a group, near their bases where they have some."""
    encoding, payload = _chosen(family, pieces, coder)
    members = _members(pieces)
    bases = tuple(piece.base for piece in pieces if piece.base and encoding.has_base)
    return Entry(members, encoding, family.element, bases), payload


def prove(entry: Entry, payload: Buffer, pieces: list[Piece]) -> None:
    """Decode an entry again, and compare what comes out with the chunks, whose ids were compared before.

    Raises:
        CorruptionError: it decodes to something else: nothing may rely on it.
    """
    near = joined_bytes(piece.old for piece in pieces if piece.old is not None) if entry.bases else None
    found = decode(entry.encoding, payload, lengths=entry.lengths, element=entry.element, base=near)
    if found != bytes(joined_bytes(piece.content for piece in pieces)):
        raise CorruptionError(
            f"{len(pieces)} chunks encoded again as '{entry.encoding.name}' decode to something else",
            hint="nothing was changed; this machine, or this version of mvcs, is at fault: please report it",
        )


def _members(pieces: list[Piece]) -> tuple[Member, ...]:
    """Return a member for each piece: of one length the same."""
    lengths = [piece.length for piece in pieces]
    each = {length: Member(Kind.CHUNK, length) for length in set(lengths)}
    return tuple([each[length] for length in lengths])


def _chosen(family: Family, pieces: list[Piece], coder: CodeCoder) -> Chosen:
    if family.narrow is not None:
        return Encoding.NARROWED, narrowed_payload(family.narrow)
    content = joined_bytes(piece.content for piece in pieces)
    near = joined_bytes(piece.old for piece in pieces if piece.old is not None) if family.near else None
    if not family.codes:
        return choose_exact(content, family.element, near)
    return choose_codes(
        CodeChunks(
            content,
            family.element.width,
            [piece.length for piece in pieces],
            max(piece.levels for piece in pieces),
            near,
            [piece.steps or (0, 0) for piece in pieces] if family.element.width > 1 else None,
        ),
        coder,
    )
