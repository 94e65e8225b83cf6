"""The objects of all loaded packs: value layers, exact layers, and packs that a listing alone showed."""

from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet

from mvcs.errors import NotFoundError
from mvcs.objects import ObjectId, short_id
from mvcs.store.packs.footer import Footer
from mvcs.store.reading.copies import Copies
from mvcs.store.reading.located import ChunkPlace, Located, Run


class ObjectIndex:
    """Looks objects up in memory, and reads nothing."""

    def __init__(self, damaged: AbstractSet[ChunkPlace]) -> None:
        """Begin with no packs; copies whose place is in `damaged`, now or later, come last."""
        self._damaged = damaged
        self._value, self._exact, self._strays = (Copies(damaged) for _ in range(3))

    def keep_value(self) -> None:
        """Forget all but the value packs that commits need."""
        self._exact, self._strays = Copies(self._damaged), Copies(self._damaged)

    def enter(self, name: str, footer: Footer, *, exact: bool) -> None:
        """Take in the objects of a pack that a commit needs."""
        (self._exact if exact else self._value).enter(name, footer, exact=exact)

    def enter_stray(self, name: str, footer: Footer) -> None:
        """Take in the objects of a value pack that nothing is known to need."""
        self._strays.enter(name, footer, exact=False)

    def find(self, identifier: ObjectId, *, exact: bool = False) -> Located | None:
        """Return where an object lies whole in packs that commits need; in exact layers only when asked."""
        found = self._value.whole(identifier)
        return self._exact.whole(identifier) if found is None and exact else found

    def whole(self, identifier: ObjectId, *, exact: bool) -> Located | None:
        """Return where an object lies whole in any loaded pack."""
        return self.find(identifier, exact=exact) or self._strays.whole(identifier)

    def any_copy(self, identifier: ObjectId, *, exact: bool) -> Located | None:
        """Return where an object lies, whole or not; None where no loaded pack names it."""
        return self.whole(identifier, exact=exact) or next(self.copies(identifier, exact=exact), None)

    def copies(self, identifier: ObjectId, *, exact: bool) -> Iterator[Located]:
        """Yield every place where an object lies, whole or not."""
        for copies in (self._value, self._strays, *([self._exact] if exact else [])):
            yield from copies.of(identifier)

    def locate(self, identifier: ObjectId, exact: bool, without: Collection[ChunkPlace] = ()) -> Located:  # noqa: FBT001 - as `trace` calls it
        """Return where an object lies whole in any loaded pack, and at none of some places.

        Raises:
            NotFoundError: no loaded pack has it whole.
        """
        found = self.whole(identifier, exact=exact)
        if found is not None and found.place in without:
            unfit = {*without, *self._damaged}
            others = self.copies(identifier, exact=exact)
            found = next((copy for copy in others if copy.place not in unfit), None)
        if found is None:
            raise NotFoundError(f"object {short_id(identifier)} is in no pack that is loaded")
        return found

    def runs(self, halves: Sequence[ObjectId], *, exact: bool = False) -> list[Run] | None:
        """Return what `locate` returns for each of several objects, as runs, at a fraction of the time.

        Returns:
            None where one of them has no whole copy in the value packs that commits need, or an earlier one
            is damaged: then each has to be located. Of exact layers all have to lie in these otherwise.
        """
        found = self._value.runs(halves)
        return self._exact.runs(halves) if found is None and exact else found

    def with_prefix(self, prefix: str, *, exact: bool = False) -> dict[ObjectId, Located]:
        """Return the objects of value layers, or of exact ones, whose id starts with hexadecimal digits."""
        index = dict(self._exact.items()) if exact else dict(self._strays.items()) | dict(self._value.items())
        return {found: located for found, located in index.items() if found.hex().startswith(prefix)}
