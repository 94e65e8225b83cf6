"""The objects that one writer can store others near: its own so far, and those that commits need."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from mvcs.errors import NotFoundError
from mvcs.objects import ObjectId, half, short_id
from mvcs.store.packs.footer import Placed
from mvcs.store.reading.catalog import Catalog
from mvcs.store.reading.located import ChunkPlace, Located, Run


@dataclass
class OwnObjects:
    """What the packs of one writer hold, those that the catalog does not give it; else the catalog is asked.

    Attributes:
        catalog: the packs of the store.
        exact: whether the writer fills an exact layer; its objects are bases for itself alone.
    """

    catalog: Catalog
    exact: bool
    _own: dict[ObjectId, Located] = field(default_factory=dict)

    def find(self, identifier: ObjectId) -> Located | None:
        """Return where an object lies; None where it is in no pack that a known commit needs."""
        own = self._own.get(half(identifier))
        if own is not None and own.id.startswith(identifier):
            return own
        return self.catalog.find(identifier)

    def locate(self, identifier: ObjectId, exact: bool, without: Collection[ChunkPlace] = ()) -> Located:  # noqa: FBT001 - as `trace` calls it
        """Return where an object lies, at none of some places; a writer's own lie in the layer that it fills.

        Raises:
            NotFoundError: it is in no pack that a known commit needs.
        """
        found = self.find(identifier) if exact == self.exact else self.catalog.find(identifier)
        if found is not None and found.place in without:
            return self.catalog.elsewhere(identifier, exact, without)
        if found is None:
            raise NotFoundError(f"object {short_id(identifier)} is in no pack that a known commit needs")
        return found

    def entries(self, identifiers: Sequence[ObjectId]) -> list[Located]:
        """Return objects in all entries that hold these: the first of neighbours, or each.

        Raises:
            NotFoundError: one is in no pack that a known commit needs.
        """
        runs = self.runs(identifiers) if len(identifiers) > 1 else None
        if runs is None:
            return [self.locate(identifier, self.exact) for identifier in identifiers]
        return [run.first for run in runs]

    def runs(self, identifiers: Sequence[ObjectId]) -> list[Run] | None:
        """Return where objects lie, as runs; None where each has to be located."""
        if self.exact or not self._own.keys().isdisjoint(map(half, identifiers)):
            return None
        return self.catalog.runs(identifiers)

    def placed(self, found: Placed, ids: Iterable[ObjectId]) -> None:
        """Take in the objects of an entry of the pack that is being filled."""
        self._own |= {half(name): Located("", self.exact, found, member) for member, name in enumerate(ids)}

    def written(self, pack: str) -> None:
        """Take in the name of the pack that was filled."""
        # The catalog shares the objects of exact layers with nobody.
        kept = self._own.items() if self.exact else ()
        self._own = {name: located._replace(pack=located.pack or pack) for name, located in kept}
