"""Small chunks wait for others of their family and share an entry: its header, its tables, its lanes."""

from dataclasses import dataclass, field
from typing import NamedTuple

from mvcs.delta import Buffer, ElementFormat, NarrowedType, bytes_of
from mvcs.memory import Hold
from mvcs.objects import ObjectId
from mvcs.store.packs.entry import MAX_GROUP, MAX_MEMBERS, EntryBase

# Codes are few bytes beside their tables; exact values are many, and a state is read in part at times.
CODES_GATHERED = 1 << 20
EXACT_GATHERED, EXACT_GROUP = 1 << 16, 1 << 20


class Piece(NamedTuple):
    """A chunk on its way into an entry.

    Attributes:
        id: its id.
        content: its bytes.
        base: what it may be stored near.
        old: the bytes of the base; None without one, and where they are not needed.
        levels: for codes of one byte: more than any of them.
        steps: for codes of a lattice near a base: the step bytes of the base and of the content.
    """

    id: ObjectId
    content: Buffer
    base: EntryBase | None = None
    old: Buffer | None = None
    levels: int = 256
    steps: tuple[int, int] | None = None

    @property
    def length(self) -> int:
        """Bytes of its content."""
        return bytes_of(self.content)

    @property
    def held_bytes(self) -> int:
        """Bytes in memory: its own, and those of its base."""
        return self.length + (0 if self.old is None else bytes_of(self.old))


class Family(NamedTuple):
    """What chunks must have in common to share an entry.

    Attributes:
        codes: whether they are codes; exact values otherwise.
        element: the format of their elements.
        near: whether each has a base.
        narrow: for 16-bit floats that are their bases rounded: their type.
        company: a name that the caller gives to chunks that are read together, such as those of weights.
    """

    codes: bool
    element: ElementFormat
    near: bool
    narrow: NarrowedType | None = None
    company: str = ""

    @property
    def room(self) -> int:
        """The most bytes that share an entry."""
        return (MAX_GROUP if self.codes else EXACT_GROUP) * self.element.width

    def gathers(self, length: int) -> bool:
        """Tell whether a chunk of that many bytes waits for others."""
        return length < (CODES_GATHERED if self.codes else EXACT_GATHERED) * self.element.width


Group = tuple[Family, list[Piece]]


@dataclass
class _Waiting:
    """The chunks of one family that wait.

    Attributes:
        pieces: the chunks.
        length: their bytes.
        held: what they take in memory.
    """

    pieces: list[Piece] = field(default_factory=list)
    length: int = 0
    held: int = 0


@dataclass
class EntryGroups:
    """The chunks that wait. Not safe to use from several threads.

    Attributes:
        room: what they may take, bases included; when it is full, all go on in smaller groups. None where
            their memory is the caller's, and is there anyway.
    """

    room: Hold | None = None
    _waiting: dict[Family, _Waiting] = field(default_factory=dict)

    def add(self, family: Family, piece: Piece) -> list[Group]:
        """Take a chunk in; return the groups that it makes full, or the large chunk itself."""
        length, held = piece.length, piece.held_bytes
        if not family.gathers(length):
            return [(family, [piece])]
        full, waiting = list[Group](), self._waiting.get(family)
        if waiting and (len(waiting.pieces) == MAX_MEMBERS or waiting.length + length > family.room):
            full, waiting = [self._leave(family)], None
        if not self._has_room(held):
            full, waiting = [*full, *self.drain()], None
            if not self._has_room(held):
                return [*full, (family, [piece])]
        if waiting is None:
            waiting = self._waiting[family] = _Waiting()
        waiting.pieces.append(piece)
        waiting.length += length
        waiting.held += held
        return full

    def drain(self, *, narrowed: bool = True) -> list[Group]:
        """Hand out everything that waits, narrowed chunks last; or only what they may be narrowed from."""
        waiting = sorted(self._waiting, key=lambda family: family.narrow is not None)
        return [self._leave(family) for family in waiting if narrowed or family.narrow is None]

    def _has_room(self, held: int) -> bool:
        return self.room is None or self.room.resize(self.room.bytes + held)

    def _leave(self, family: Family) -> Group:
        left = self._waiting.pop(family)
        if self.room is not None:
            self.room.resize(self.room.bytes - left.held)
        return family, left.pieces
