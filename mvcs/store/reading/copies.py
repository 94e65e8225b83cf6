"""Where each object lies: every copy that loaded footers name, those that are known to be damaged last."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from mvcs.objects import ObjectId, half
from mvcs.store.packs.footer import Footer
from mvcs.store.reading.located import ChunkPlace, Located


class Copies:
    """The objects of some packs. Looking up one that has a single copy costs one look into one table.

    Objects are asked for by their ids, or by the first half, as bases are named.
    """

    def __init__(self, damaged: AbstractSet[ChunkPlace]) -> None:
        """Begin with no packs; `damaged` holds the places of entries that are known to be, now or later."""
        self._damaged = damaged
        self._first: dict[ObjectId, Located] = {}
        self._others: dict[ObjectId, list[Located]] = {}

    def enter(self, name: str, footer: Footer, *, exact: bool) -> None:
        """Take in the objects of one more pack."""
        for placed in footer.entries:
            for member, identifier in enumerate(placed.ids):
                located = Located(name, exact, placed, member)
                key = half(identifier)
                if self._first.setdefault(key, located) is not located:
                    self._others.setdefault(key, []).append(located)

    def whole(self, identifier: ObjectId) -> Located | None:
        """Return the first copy of an object that is not known to be damaged."""
        found = self._first.get(half(identifier))
        if found is None or (found.place not in self._damaged and found.id.startswith(identifier)):
            return found
        return next((other for other in self.of(identifier) if other.place not in self._damaged), None)

    def of(self, identifier: ObjectId) -> list[Located]:
        """Return all copies of an object in the order they came."""
        key = half(identifier)
        found = self._first.get(key)
        copies = [] if found is None else [found, *self._others.get(key, ())]
        return [copy for copy in copies if copy.id.startswith(identifier)]

    def items(self) -> Iterator[tuple[ObjectId, Located]]:
        """Yield every object with its first copy."""
        return ((located.id, located) for located in self._first.values())
