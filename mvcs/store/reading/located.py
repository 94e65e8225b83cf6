"""Where one object lies: an entry of a pack, and the object's number in it."""

from dataclasses import dataclass

from mvcs.objects import ObjectId
from mvcs.store.packs.footer import Placed

ChunkPlace = tuple[str, bool, int]


@dataclass(frozen=True)
class Located:
    """One object in one pack."""

    pack: str
    exact: bool
    placed: Placed
    member: int

    @property
    def place(self) -> ChunkPlace:
        """What tells its entry from all others."""
        return self.pack, self.exact, self.placed.offset

    @property
    def id(self) -> ObjectId:
        """The id of the object, as the footer has it."""
        return self.placed.ids[self.member]

    @property
    def length(self) -> int:
        """Bytes of the object's content."""
        return self.placed.entry.members[self.member].length

    @property
    def base(self) -> ObjectId | None:
        """Half the id of the object that this one is encoded near; None for none, and for restored values."""
        bases = self.placed.entry.bases
        return bases[self.member].id if bases and bases[self.member].chunk is None else None

    @property
    def share(self) -> float:
        """The part of its entry's stored bytes that is in proportion to its content."""
        return self.placed.length * self.length / max(self.placed.entry.raw_bytes, 1)
