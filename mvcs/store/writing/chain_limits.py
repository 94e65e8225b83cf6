"""What a writer may store an object near, and what reading it back will then cost."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from mvcs.delta.encoding import Encoding
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.objects.ids import ObjectId, short
from mvcs.store.packs.entry import Base
from mvcs.store.packs.footer import Placed
from mvcs.store.reading.catalog import Catalog
from mvcs.store.reading.chains import MAX_HELD, MAX_LINKS, Chain, Located, snapshot_share, trace

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

    max_depth: int = 64
    max_ratio: float = 24.0


@dataclass
class Basing:
    """The objects that one writer can use as bases, and what it has leant on so far.

    Attributes:
        catalog: the packs of the store.
        limits: how long chains may grow.
        exact: whether the writer fills an exact layer; its objects are bases for itself alone.
        own: the objects that the writer placed and the catalog does not give it.
        reach: packs of other commits that are needed.
        depth: the longest chain behind an object that was leant on.
    """

    catalog: Catalog
    limits: RestoreLimits
    exact: bool = False
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
        starts = [self._locate(base.id, self.exact) for base in bases if base.chunk is None]
        chain = trace(starts, self._locate)
        if len(chain.links) >= _LINKS or chain.held_bytes > _HELD:
            return False
        alone = sum(snapshot_share(start, self._locate) for start in starts)
        return not starts or chain.stored_bytes + added <= self.limits.max_ratio * alone

    def stored_bytes(self, bases: Iterable[Base]) -> int:
        """Return the stored bytes that are read for the contents of bases."""
        return trace([self._locate(base.id, self.exact) for base in bases], self._locate).stored_bytes

    def lean_on(self, identifiers: Iterable[ObjectId], deltas: int = 0) -> None:
        """Count the packs behind objects that this commit needs, and the depth they bring."""
        for identifier in identifiers:
            chain = self._chain(self._locate(identifier, self.exact))
            self.reach |= chain.packs - {""}
            self.depth = max(self.depth, chain.depth + deltas)

    def behind(self, identifiers: Iterable[ObjectId]) -> Chain:
        """Return everything that has to be decoded for objects.

        Raises:
            NotFoundError: one of them, or a base, is nowhere whole.
            CorruptionError: their bases do not end.
        """
        starts = [self._locate(identifier, self.exact) for identifier in identifiers]
        return self._chain(starts[0]) if len(starts) == 1 else trace(starts, self._locate)

    def placed(self, found: Placed, ids: Iterable[ObjectId]) -> None:
        """Take in the objects of an entry of the pack that is being filled."""
        members = enumerate(ids)
        self.own |= {name: Located("", self.exact, found, member) for member, name in members}

    def written(self, pack: str) -> None:
        """Take in the name of the pack that was filled."""
        # The catalog shares the objects of exact layers with nobody.
        kept = self.own.items() if self.exact else ()
        self.own = {name: replace(located, pack=located.pack or pack) for name, located in kept}

    def _chain(self, located: Located) -> Chain:
        if not located.pack or located.exact:
            return trace([located], self._locate)
        chain = self.catalog.chain_of(located)
        if not self.catalog.vouches(chain.packs):
            raise _unvouched(located)
        return chain

    def _locate(self, identifier: ObjectId, exact: bool) -> Located:  # noqa: FBT001 - as `trace` calls it
        own = self.own.get(identifier) if exact == self.exact else None
        found = own or self.catalog.find(identifier)
        if found is None:
            raise NotFoundError(f"object {short(identifier)} is in no pack that a known commit needs")
        return found


def _unvouched(located: Located) -> NotFoundError:
    """What a dead writer left goes with it: nothing new may lean on it."""
    return NotFoundError(f"a base of an object in pack {located.pack[:12]} is in no pack that a commit needs")
