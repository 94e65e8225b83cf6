"""Two views of one store: where objects lie now, and where those may lie that others need afterwards."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from mvcs.objects import ObjectId, half
from mvcs.store import Footer, ObjectStore, read_footer

HELD = 512


@dataclass(frozen=True)
class Needs:
    """What a pack holds, and what that needs.

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


class Views:
    """The packs that both views know, which change from commit to commit.

    Attributes:
        source: knows the packs that a commit needs as it is, and reads what was moved where it lies now.
        target: knows the packs that it may need.
    """

    def __init__(self, source: ObjectStore, target: ObjectStore) -> None:
        """Know no packs yet; `source` may show more packs than `target`, where new ones go."""
        self.source, self.target = source.apart(), target.apart()
        self._footers: OrderedDict[str, Footer] = OrderedDict()
        self._needs: OrderedDict[str, Needs] = OrderedDict()

    def footer(self, pack: str) -> Footer:
        """Return the footer of a pack.

        Raises:
            NotFoundError: it is not there.
            CorruptionError: its end is damaged.
        """
        found = self._footers.get(pack)
        if found is None:
            found = self._footers[pack] = read_footer(self.source.backend, pack)
            while len(self._footers) > HELD:
                self._footers.popitem(last=False)
        return found

    def look_at(
        self, packs: Iterable[str], may_need: Iterable[str], beside: Iterable[str] | None = None
    ) -> None:
        """Look at one commit.

        Args:
            packs: those that it needs as it is.
            may_need: those of others that it may need.
            beside: the packs that the source knows beside its own; by default those that it may need.
        """
        names = list(dict.fromkeys(may_need))
        self.target.keep(names)
        for name in names:
            self.target.catalog.add(name, self.footer(name))
        self._distrust_what_needs_others(names)
        now = [*(names if beside is None else beside), *packs]
        self.source.begin_anew(now)  # what was moved comes first, so that chains do not grow on the way
        for name in now:
            self.source.catalog.add(name, self.footer(name))

    def _distrust_what_needs_others(self, names: Iterable[str]) -> None:
        """Let nothing count that is near what no pack of these has: others need the rest of its pack."""
        catalog = self.target.catalog
        catalog.damaged.clear()  # that was of the commit before
        there = set[ObjectId]().union(*(self.needs(name).held for name in names))
        left = [name for name in names if not self.needs(name).bases <= there]
        while left:
            found = [
                ((name, False, placed.offset), placed)
                for name in left
                for placed in self.footer(name).entries
                if not there.issuperset(placed.entry.base_ids)
            ]
            fresh = [(place, placed) for place, placed in found if place not in catalog.damaged]
            if not fresh:
                return
            catalog.distrust(*(place for place, _ in fresh))
            gone = {half(identifier) for _, placed in fresh for identifier in placed.ids}
            there -= {name for name in gone if catalog.find(name) is None}
            left = [name for name in names if not self.needs(name).bases <= there]

    def needs(self, pack: str) -> Needs:
        """Return what a pack holds, and what that is near.

        Raises:
            NotFoundError: it is not there.
            CorruptionError: its end is damaged.
        """
        found = self._needs.get(pack)
        if found is None:
            found = self._needs[pack] = Needs.of(self.footer(pack))
            while len(self._needs) > HELD:
                self._needs.popitem(last=False)
        return found

    def length(self, pack: str) -> int:
        """Return the bytes of a pack."""
        tail = self.footer(pack).tail
        return tail.pack_length if tail else 0
