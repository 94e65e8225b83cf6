"""What a writer may store an object near, and what reading it back will then cost."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from mvcs.delta.encoding import Encoding
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.objects.ids import ObjectId
from mvcs.store.catalog import Catalog
from mvcs.store.chains import MAX_HELD, MAX_LINKS, Chain, Located, snapshot_share, trace
from mvcs.store.entry import Base

# What a writer makes stays well below what readers refuse.
_LINKS, _HELD = MAX_LINKS // 4, MAX_HELD // 2


@dataclass(frozen=True)
class RestoreLimits:
    """How long chains of deltas may grow before a chunk is stored on its own again.

    Attributes:
        max_depth: deltas between a chunk and its snapshot.
        max_ratio: bytes read to restore a chunk, or the chunks of one entry, over the bytes that their
            snapshots take.
    """

    max_depth: int = 32
    max_ratio: float = 3.0


@dataclass
class Basing:
    """The objects that one writer can use as bases, and what it has leant on so far.

    Attributes:
        catalog: the packs of the store.
        limits: how long chains may grow.
        own: the objects of the pack that is being filled.
        reach: packs of other commits that are needed.
        depth: the longest chain behind an object that was leant on.
    """

    catalog: Catalog
    limits: RestoreLimits
    own: dict[ObjectId, Located] = field(default_factory=dict)
    reach: set[str] = field(default_factory=set)
    depth: int = 0

    def usable(self, base: Base, encoding: Encoding, length: int) -> bool:
        """Tell whether a base suits a content of that length and has a chain that may still grow."""
        if base.chunk is not None:
            return True
        located = self.own.get(base.id) or self.catalog.find(base.id)
        if located is None or not encoding.fits(located.length, length):
            return False
        try:
            return self._chain(located).depth < self.limits.max_depth
        except (CorruptionError, NotFoundError):
            return False

    def affordable(self, bases: Iterable[Base], added: int) -> bool:
        """Tell whether reading the chains of these bases and `added` bytes more stays within the limits."""
        starts = [self._locate(base.id) for base in bases if base.chunk is None]
        chain = trace(starts, self._locate)
        if len(chain.links) >= _LINKS or chain.held_bytes > _HELD:
            return False
        alone = sum(snapshot_share(start, self._locate) for start in starts)
        return not starts or chain.stored_bytes + added <= self.limits.max_ratio * alone

    def lean_on(self, identifiers: Iterable[ObjectId], deltas: int = 0) -> None:
        """Count the packs behind objects that this commit needs, and the depth they bring."""
        for identifier in identifiers:
            chain = self._chain(self._locate(identifier))
            self.reach |= chain.packs - {""}
            self.depth = max(self.depth, chain.depth + deltas)

    def _chain(self, located: Located) -> Chain:
        return self.catalog.chain_of(located) if located.pack else trace([located], self._locate)

    def _locate(self, identifier: ObjectId) -> Located:
        return self.own.get(identifier) or self.catalog.locate(identifier)
