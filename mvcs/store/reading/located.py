"""Where objects lie: an entry of a pack, and the object's number in it, or the numbers of several."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from mvcs.delta import Content
from mvcs.objects import ObjectId
from mvcs.store.packs.footer import Placed

ChunkPlace = tuple[str, bool, int]


class Located(NamedTuple):
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


@dataclass(frozen=True)
class Run:
    """Objects that are neighbours in one entry; most entries are near the whole of another.

    Attributes:
        first: the first of them.
        count: how many they are.
    """

    first: Located
    count: int = 1

    @property
    def place(self) -> ChunkPlace:
        """What tells their entry from all others."""
        return self.first.place

    @property
    def ids(self) -> tuple[ObjectId, ...]:
        """The id of each."""
        return self.first.placed.ids[self.first.member : self.first.member + self.count]

    @property
    def lengths(self) -> tuple[int, ...]:
        """Bytes of the content of each."""
        return self.first.placed.entry.lengths[self.first.member : self.first.member + self.count]

    def members(self) -> Iterator[Located]:
        """Yield each."""
        pack, exact, placed, start = self.first
        return (Located(pack, exact, placed, member) for member in range(start, start + self.count))

    def part(self, content: Content) -> Content:
        """Return their content in that of the entry: all of it as it is, else a view."""
        entry, first = self.first.placed.entry, self.first.member
        if self.count == len(entry.members):
            return content
        start = entry.ends[first - 1] if first else 0
        return memoryview(content)[start : entry.ends[first + self.count - 1]]

    def singly(self, content: Content) -> Iterator[Content]:
        """Yield the content of each, in views of that of the entry."""
        first, whole = self.first.member, memoryview(content)
        for start, end in pairwise([0, *self.first.placed.entry.ends][first : first + self.count + 1]):
            yield whole[start:end]
