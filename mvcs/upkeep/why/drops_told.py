"""What drop records say of a commit, of one of its layers, or of packs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mvcs.history import Revision
from mvcs.objects import ObjectId
from mvcs.reports import DropInfo, as_utc
from mvcs.retention import Drop, DropLog, dropped_why, told_of
from mvcs.store import Backend


@dataclass(frozen=True)
class DropsTold:
    """The drops of a store that can be read.

    Attributes:
        backend: the store.
        numbered: each with the number of its record, the newest first.
    """

    backend: Backend
    numbered: Sequence[tuple[int, Drop]]

    @classmethod
    def of(cls, backend: Backend) -> "DropsTold":
        """Read them."""
        return cls(backend, DropLog(backend).numbered())

    @property
    def packs(self) -> set[str]:
        """The names of all packs that were given up."""
        return {name for _, drop in self.numbered for name in drop.packs}

    def of_names(self, commit: ObjectId | None, packs: Collection[str]) -> list[DropInfo]:
        """Return what gave up a commit's layer or data, or one of some packs."""
        return [
            self._told(number, drop)
            for number, drop in self.numbered
            if (drop.commit == commit or not set(packs).isdisjoint(drop.packs))
            and told_of(drop)[0] is not False
        ]

    def of_layer(self, revision: Revision, *, exact: bool) -> list[DropInfo]:
        """Return what gave up the exact layer of a commit, or else its data, where these count as dropped."""
        own = [(number, drop) for number, drop in self.numbered if drop.commit == revision.id]
        if exact:
            packs = set(revision.written.exact_packs)
            return [self._told(number, drop) for number, drop in own if not packs.isdisjoint(drop.packs)]
        said = [(number, drop) for number, drop in own if told_of(drop)[0] is not None]
        if not said or not told_of(said[0][1])[0]:
            return []  # of all that was said of data the newest counts
        return [self._told(number, drop) for number, drop in said if told_of(drop)[0]]

    def _told(self, number: int, drop: Drop) -> DropInfo:
        gone, told = told_of(drop)
        why = dropped_why(self.backend, told) or None
        back = self._taken_back(number, drop) if gone else None
        return DropInfo(
            number, drop.commit.hex(), len(drop.packs), as_utc(drop.time), why, gone is True, back
        )

    def _taken_back(self, number: int, drop: Drop) -> int | None:
        """Return the first later record that says that dropped data are there again."""
        later = (
            record
            for record, other in self.numbered
            if record >= number and other.commit == drop.commit and told_of(other)[0] is False
        )
        return min(later, default=None)
