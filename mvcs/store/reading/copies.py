"""Where each object lies: every copy that loaded footers name, those that are known to be damaged last."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from mvcs.objects import ObjectId, half
from mvcs.store.packs.entry import MAX_BUNDLED
from mvcs.store.packs.footer import Footer, Placed
from mvcs.store.reading.located import ChunkPlace, Located, Run

# Objects are numbered, so that neighbours in one entry have numbers one behind the other; those of the
# last object of an entry and of the first of the next have not.
_STRIDE = 2 * MAX_BUNDLED


class Copies:
    """The objects of some packs. Looking up one that has a single copy costs one look into one table.

    Objects are asked for by their ids, or by the first half, as bases are named.
    """

    def __init__(self, damaged: AbstractSet[ChunkPlace]) -> None:
        """Begin with no packs; `damaged` holds the places of entries that are known to be, now or later."""
        self._damaged = damaged
        self._entries: list[tuple[str, bool, Placed]] = []
        self._first: dict[ObjectId, int] = {}
        self._others: dict[ObjectId, list[int]] = {}

    def enter(self, name: str, footer: Footer, *, exact: bool) -> None:
        """Take in the objects of one more pack."""
        for placed in footer.entries:
            start = len(self._entries) * _STRIDE
            self._entries.append((name, exact, placed))
            keys = list(map(half, placed.ids))
            found = dict(zip(keys, range(start, start + len(keys)), strict=True))
            if len(found) == len(keys) and self._first.keys().isdisjoint(found):
                self._first |= found
            else:
                self._enter_others(keys, start)

    def _enter_others(self, keys: Sequence[ObjectId], start: int) -> None:
        for number, key in enumerate(keys, start):
            if self._first.setdefault(key, number) != number:
                self._others.setdefault(key, []).append(number)

    def whole(self, identifier: ObjectId) -> Located | None:
        """Return the first copy of an object that is not known to be damaged."""
        number = self._first.get(half(identifier))
        if number is None:
            return None
        found = self._located(number)
        if found.place not in self._damaged and found.id.startswith(identifier):
            return found
        return next((other for other in self.of(identifier) if other.place not in self._damaged), None)

    def runs(self, halves: Sequence[ObjectId]) -> list[Run] | None:
        """Return what `whole` returns for each of several objects, named by the halves of their ids, as runs.

        Returns:
            None where an object has no copy here, or its first one is known to be damaged.
        """
        numbers = [self._first.get(key, -1) for key in halves]
        if -1 in numbers:
            return None
        ends = [len(numbers) - 1] if numbers else []
        if len(numbers) > 1:
            ends = [*np.flatnonzero(np.diff(numbers) != 1).tolist(), *ends]
        runs, start = [], 0
        for end in ends:
            runs.append(Run(self._located(numbers[start]), end + 1 - start))
            start = end + 1
        return None if any(run.place in self._damaged for run in runs) else runs

    def of(self, identifier: ObjectId) -> list[Located]:
        """Return all copies of an object in the order they came."""
        key = half(identifier)
        first = self._first.get(key)
        numbers = [] if first is None else [first, *self._others.get(key, ())]
        return [copy for copy in map(self._located, numbers) if copy.id.startswith(identifier)]

    def items(self) -> Iterator[tuple[ObjectId, Located]]:
        """Yield every object with its first copy."""
        located = map(self._located, self._first.values())
        return ((found.id, found) for found in located)

    def _located(self, number: int) -> Located:
        entry, member = divmod(number, _STRIDE)
        return Located(*self._entries[entry], member)
