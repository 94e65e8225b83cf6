"""Which chunks of other commits a chunk may be stored near."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from mvcs.compaction.values import CommitValues
from mvcs.delta import Encoding
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.objects import Kind, ObjectId, half
from mvcs.store import ChunkPlace, Located, ObjectStore, Rewriter

STEPS_DOWN = 256


@dataclass(frozen=True)
class Neighbours:
    """Finds bases for the objects of one commit.

    Attributes:
        source: where objects lie as they are.
        own: what the commit holds.
        others: what its neighbours hold, the nearest first.
        near: by halves of ids: objects of later commits that were stored near these.
        down: whether what an object is stored near may be its base again, or what that is stored near.
    """

    source: ObjectStore
    own: CommitValues
    others: Sequence[CommitValues]
    near: dict[ObjectId, ObjectId] = field(default_factory=dict)
    down: bool = True

    def entries(self, identifiers: Iterable[ObjectId]) -> list[list[Located]]:
        """Return where objects lie as they are: those of one entry together, bases first.

        Raises:
            NotFoundError: one of them is nowhere.
            CorruptionError: nor can it be found, since a pack is damaged.
        """
        catalog = self.source.catalog
        found: dict[ChunkPlace, list[Located]] = {}
        for identifier in identifiers:
            link = catalog.locate(identifier)
            found.setdefault(link.place, []).append(link)
        packs = {pack: number for number, pack in enumerate(dict.fromkeys(place[0] for place in found))}

        def place(links: list[Located]) -> tuple[int, int, int]:
            # Names of packs are salted: in their order, the same work would give other bytes each time.
            return catalog.depth_of(links[0]), packs[links[0].pack], links[0].placed.offset

        return sorted(found.values(), key=place)

    def of(self, link: Located) -> Iterator[ObjectId]:
        """Yield what an object may be stored near, the best first."""
        if self.down:
            yield from self._below(link)
        above = self.near.get(half(link.id))
        if above is not None:
            yield above
        position = self.own.positions.get(link.id)
        for other in self.others:
            if link.placed.entry.members[link.member].kind is Kind.TREE:
                yield from self._with_below(other.tree)
            elif position in other.chunk_at:
                yield from self._with_below(other.chunk_at[position])

    def _with_below(self, there: ObjectId) -> Iterator[ObjectId]:
        yield there
        if self.down:
            with suppress(CorruptionError, NotFoundError):
                yield from self._below(self.source.catalog.locate(there))

    def _below(self, link: Located) -> Iterator[ObjectId]:
        """Yield what an object is stored near, what that is stored near, and so on."""
        for _ in range(STEPS_DOWN):
            if not link.placed.entry.bases:
                return
            base = link.placed.entry.bases[link.member].id
            yield base
            try:
                link = self.source.catalog.locate(base)
            except (CorruptionError, NotFoundError):
                return

    @property
    def steps(self) -> dict[ObjectId, int | None]:
        """The steps of lattices of all chunks of codes that are known."""
        known: dict[ObjectId, int | None] = {}
        for values in (*self.others, self.own):
            known |= values.steps
        return known


def fill(
    rewriter: Rewriter,
    commit: ObjectId,
    values: CommitValues,
    near: Neighbours,
    rest: Callable[[], None],
) -> None:
    """Give all objects a place that have none, but for the commit, which comes last.

    Between two entries `rest` is called, which may wait.
    """
    steps = near.steps
    data = values.kinds.keys() - {commit}
    for links in near.entries(name for name in values.kinds if name in data and not rewriter.holds(name)):
        rest()
        whole = data.issuperset(links[0].placed.ids)
        stays = whole and (near.down or _is_near_nothing(rewriter, links, near))
        if not (stays and rewriter.adopt(links[0])):
            rewriter.encode(links, near.of, steps)


def _is_near_nothing(rewriter: Rewriter, links: list[Located], near: Neighbours) -> bool:
    """Tell whether an entry is what it will be: near nothing, or rounded from another of its own commit."""
    entry = links[0].placed.entry
    if entry.encoding is Encoding.NARROWED:
        return True
    return not entry.bases and not any(rewriter.holds(base) for link in links for base in near.of(link))
