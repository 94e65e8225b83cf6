"""Which packs may be leant on while others go: those of which every base stays."""

from collections.abc import Callable, Iterable

from mvcs.objects import ObjectId, half
from mvcs.store import Footer

FooterOf = Callable[[str], Footer]


def sound_packs(trusted: Iterable[str], others: Iterable[str], footer_of: FooterOf) -> tuple[str, ...]:
    """Return the trusted packs, and of the others those whose bases all lie in packs that are returned.

    A commit may lean on packs of commits that nothing leads to any more, and these on packs that go.
    """
    names = tuple(dict.fromkeys(trusted))
    left = [name for name in dict.fromkeys(others) if name not in names]
    if not left:
        return names
    objects = {name: _objects(footer_of(name)) for name in (*names, *left)}
    bases = {name: _bases(footer_of(name)) - objects[name] for name in left}
    while True:
        there = set[ObjectId]().union(*(objects[name] for name in (*names, *left)))
        sound = [name for name in left if bases[name] <= there]
        if len(sound) == len(left):
            return (*names, *left)
        left = sound


def _objects(footer: Footer) -> set[ObjectId]:
    return {half(identifier) for placed in footer.entries for identifier in placed.ids}


def _bases(footer: Footer) -> set[ObjectId]:
    return {base for placed in footer.entries for base in placed.entry.base_ids}
