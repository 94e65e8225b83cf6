"""What has to be decoded for an object: its entry, the entries of its bases, theirs, and so on."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from mvcs.delta import Encoding
from mvcs.errors import CorruptionError, NotFoundError, UnsupportedFormatError
from mvcs.objects import ObjectId
from mvcs.store.packs.footer import Placed
from mvcs.store.reading.located import ChunkPlace, Located, Run

# Prices of decoding a byte of content, with reading and checksums, in about hundredths of a nanosecond. Codes
# are half as many bytes as their values or fewer. Moves are priced where one code in a hundred moved: at what
# they cost where many did, bounded histories would take some per cent more bytes.
DECODING: Mapping[Encoding, int] = {
    Encoding.RAW: 10,
    Encoding.ZSTD: 50,
    Encoding.CODES: 50,
    Encoding.DELTA: 10,
    Encoding.RANS_CODES: 50,
    Encoding.RANS_DELTA: 10,
    Encoding.RANS_RESIDUAL: 45,
    Encoding.RANS_PLANES: 35,
    Encoding.ZSTD_DELTA: 100,
    Encoding.NARROWED: 20,
}
HANDING_OVER = 45  # of a byte of values: made of codes where it is, hashed, copied
MAX_LINKS = 4096
MAX_HELD = 1 << 30
MAX_DECODED = 4 << 30

Locate = Callable[[ObjectId, bool], Located]
"""Finds an object; in exact layers as well where the second argument says so."""
LocateApart = Callable[[ObjectId, bool, Collection[ChunkPlace]], Located]
"""Does the same, and takes no copy that lies at one of these places."""
FindRuns = Callable[[Sequence[ObjectId]], list[Run] | None]
"""Finds many objects at once, by the halves of their ids; None where each has to be located."""


class CircleError(CorruptionError):
    """The way down from an object comes back to it, whichever copies are taken of those that are known.

    Attributes:
        place: the entry of which a base is nowhere but on the way to it; another copy of it may have others.
    """

    def __init__(self, place: ChunkPlace) -> None:
        """Say so."""
        super().__init__("the bases of an entry run in a circle")
        self.place = place


class ClosedError(NotFoundError):
    """All copies of a base lead back to what needs it."""


class Weight(NamedTuple):
    """What entries take together: stored bytes, bytes of content, what decoding these costs (`DECODING`)."""

    stored: int
    raw: int
    cost: int

    @classmethod
    def of(cls, entries: Iterable[Placed]) -> "Weight":
        """Add entries up."""
        found = [(placed.length, placed.entry.raw_bytes, placed.entry.encoding) for placed in entries]
        return cls(
            sum(stored for stored, _, _ in found),
            sum(raw for _, raw, _ in found),
            sum(DECODING[encoding] * raw for _, raw, encoding in found),
        )


@dataclass(frozen=True)
class Chain:
    """The entries behind one or several objects.

    Attributes:
        links: the entries, each once, bases before what needs them.
        bases: where the bases of each entry that are objects were found, in the order of its members.
        depth: the longest way from an object down to an entry without bases, in steps.
    """

    links: tuple[Located, ...]
    bases: Mapping[ChunkPlace, Sequence[Run]]
    depth: int

    def needs(self, place: ChunkPlace) -> set[ChunkPlace]:
        """Return the places of the entries that hold the bases of the link at `place`."""
        return {run.place for run in self.bases[place]}

    def way_down(self, located: Located) -> list[Located]:
        """Return an object of the chain, what it is stored near, what that is near, down to a snapshot."""
        way = [located]
        while runs := self.bases[way[-1].place]:
            number = way[-1].member  # each member of an entry has a base of its own
            run = next(run for run in runs if (number := number - run.count) < 0)
            way.append(run.first._replace(member=run.first.member + run.count + number))
        return way

    @cached_property
    def stored_bytes(self) -> int:
        """Bytes that are read to decode it."""
        return sum(link.placed.length for link in self.links)

    @cached_property
    def packs(self) -> frozenset[str]:
        """Names of the packs it is read from; each chunk that is stored near one of an entry asks."""
        return frozenset(link.pack for link in self.links)

    @cached_property
    def snapshots(self) -> "Weight":
        """What its entries without bases weigh."""
        return Weight.of(link.placed for link in self.links if not link.placed.entry.bases)

    @cached_property
    def deltas(self) -> "Weight":
        """What its other entries weigh."""
        return Weight.of(link.placed for link in self.links if link.placed.entry.bases)

    @cached_property
    def decoded_bytes(self) -> int:
        """Bytes that all of its entries decode to."""
        return sum(link.placed.entry.raw_bytes for link in self.links)

    @cached_property
    def held_bytes(self) -> int:
        """The most bytes of decoded entries that are needed at once, decoding in the order of `links`."""
        sizes = {link.place: link.placed.entry.raw_bytes for link in self.links}
        needs = [*map(self.needs, sizes)]
        last = {place: index for index, places in enumerate(needs) for place in places}
        held = most = 0
        for index, size in enumerate(sizes.values()):
            held += size
            most = max(most, held)
            held -= sum(sizes.get(place, 0) for place in needs[index] if last[place] == index)
        return most


@dataclass
class _Walk:
    """A walk down the bases that hands out every entry after the entries of its bases.

    Attributes:
        locate: finds a base.
        runs: finds many at once, as `locate` would.
        depths: the depth of each entry that the walk, or one before it, has left.
        is_held: tells of an entry that needs no decoding.
        gaps: where it ended, as a base was nowhere.
    """

    locate: LocateApart
    runs: FindRuns
    depths: dict[ChunkPlace, int] = field(default_factory=dict)
    is_held: Callable[[ChunkPlace], bool] = lambda _: False
    links: list[Located] = field(default_factory=list)
    bases: dict[ChunkPlace, Sequence[Run]] = field(default_factory=dict)
    entered: set[ChunkPlace] = field(default_factory=set)
    gaps: set[ChunkPlace] = field(default_factory=set)

    def down(self, start: Located) -> None:
        stack = [start]
        while stack:
            link = stack[-1]
            place = link.place
            if place in self.depths:
                stack.pop()
            elif place in self.entered:
                self._leave(stack.pop(), place)
            else:
                stack += self._enter(link, place)

    def _enter(self, link: Located, place: ChunkPlace) -> list[Located]:
        self.entered.add(place)
        try:
            self.bases[place] = found = self._bases(link)
        except (CircleError, NotFoundError):
            self.gaps.add(place)
            raise
        if len(self.entered) + len(self.links) > MAX_LINKS:
            raise CorruptionError("the bases of an entry do not end")
        return [run.first for run in found if not self._is_known(run.place)]

    def _bases(self, link: Located) -> Sequence[Run]:
        names = link.placed.entry.near
        found = self.runs(names)
        if found is None or any(run.place in self.entered for run in found):
            return [Run(self._base(identifier, link)) for identifier in names]
        return found

    def _base(self, identifier: ObjectId, link: Located) -> Located:
        """Return a base; of an object that was encoded anew a copy whose way down does not come back here."""
        try:
            found = self.locate(identifier, link.exact, ())
        except ClosedError as error:
            raise CircleError(link.place) from error
        if found.place not in self.entered:
            return found
        try:
            return self.locate(identifier, link.exact, self.entered)
        except NotFoundError as error:
            raise CircleError(link.place) from error

    def _is_known(self, place: ChunkPlace) -> bool:
        if place not in self.depths and self.is_held(place):
            self.depths[place] = 0
        return place in self.depths

    def _leave(self, link: Located, place: ChunkPlace) -> None:
        self.entered.remove(place)
        depths = (self.depths[run.place] + 1 for run in self.bases[place])
        self.depths[place] = max(depths, default=0)
        self.links.append(link)


def trace(
    starts: Iterable[Located],
    locate: LocateApart,
    is_held: Callable[[ChunkPlace], bool] = lambda _: False,
    runs: FindRuns = lambda _: None,
    gaps: set[ChunkPlace] | None = None,
) -> Chain:
    """Return everything that has to be decoded for the objects `starts`.

    Args:
        starts: the objects.
        locate: finds a base.
        is_held: tells of an entry that is decoded already: it is left out, with what it needs.
        runs: finds many bases at once where it can, as `locate` would.
        gaps: takes the place of an entry of which a base is missing.

    Raises:
        NotFoundError: a base is missing.
        CorruptionError: there is more of it than any writer makes, or it runs in a circle.
    """
    walk = _Walk(locate, runs, is_held=is_held, gaps=set() if gaps is None else gaps)
    found: dict[ChunkPlace, Located] = {}
    for start in starts:
        found.setdefault(start.place, start)  # of many members of one entry the first
    for start in found.values():
        walk.down(start)
    depth = max((walk.depths[place] for place in found), default=0)
    chain = Chain(tuple(walk.links), walk.bases, depth)
    if chain.held_bytes > MAX_HELD:
        raise CorruptionError("the bases of an entry need more memory than any writer lets them")
    if chain.decoded_bytes > MAX_DECODED:
        raise CorruptionError("the bases of an entry take more decoding than any writer lets them")
    return chain


def depth_of(start: Located, locate: LocateApart, runs: FindRuns, depths: dict[ChunkPlace, int]) -> int:
    """Return the longest way from an object down to an entry without bases, in steps.

    Args:
        start: the object.
        locate: finds a base.
        runs: finds many at once, as `locate` would.
        depths: what earlier calls found, which is not walked again; what this one finds is added.

    Raises:
        NotFoundError: a base is missing.
        CorruptionError: there is more of it than any writer makes, or it runs in a circle.
    """
    _Walk(locate, runs, depths).down(start)
    return depths[start.place]


def way_to_gap(located: Located, locate: Locate) -> list[Located]:
    """Return the entries from one that has a base which is nowhere up to an object; none without a gap."""
    needed_by: dict[ChunkPlace, Located] = {}
    stack = [located]
    while stack and len(needed_by) < MAX_LINKS:
        link = stack.pop()
        try:
            found = [locate(identifier, link.exact) for identifier in link.placed.entry.base_ids]
        except (CorruptionError, NotFoundError, UnsupportedFormatError):
            way = [link]
            while (user := needed_by.get(way[-1].place)) is not None and way[-1].place != located.place:
                way.append(user)
            return way
        for base in found:
            if base.place not in needed_by:
                needed_by[base.place] = link
                stack.append(base)
    return []
