"""Which packs may be leant on while others go: those of which every base stays."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

from mvcs.objects import ObjectId, half
from mvcs.store import Footer


@dataclass(frozen=True)
class Leaning:
    """What a pack leans on.

    Attributes:
        held: halves of the ids of what it holds.
        bases: halves of the ids of what that is stored near, in it or elsewhere.
    """

    held: frozenset[ObjectId]
    bases: frozenset[ObjectId]

    @classmethod
    def of(cls, footer: Footer) -> Self:
        """Read a footer."""
        entries = footer.entries
        held = frozenset(half(identifier) for placed in entries for identifier in placed.ids)
        return cls(held, frozenset(base for placed in entries for base in placed.entry.base_ids))


LeaningOf = Callable[[str], Leaning]


def sound_packs(trusted: Iterable[str], others: Iterable[str], leaning: LeaningOf) -> tuple[str, ...]:
    """Return the trusted packs, and of the others those whose bases all lie in packs that are returned.

    A commit may lean on packs of commits that nothing leads to any more, and these on packs that go.
    """
    names = tuple(dict.fromkeys(trusted))
    left = [name for name in dict.fromkeys(others) if name not in names]
    if not left:
        return names
    while True:
        there = set[ObjectId]().union(*(leaning(name).held for name in (*names, *left)))
        sound = [name for name in left if leaning(name).bases <= there]
        if len(sound) == len(left):
            return (*names, *left)
        left = sound
