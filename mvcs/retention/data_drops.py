"""Commits whose data were given up on purpose: told from those whose data were lost.

`docs/format/drops.md` is the specification.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mvcs.errors import MvcsError
from mvcs.objects import ObjectId, Pairs
from mvcs.refs import now_microseconds
from mvcs.retention.drops import Drop, DropLog
from mvcs.store import DROPPED_DATA, Backend, has_upgrade, upgrade

DATA, RULES, WHY = "data", "rules", "why"


@dataclass(frozen=True)
class DataDrop:
    """What is on record of data that were given up.

    Attributes:
        commit: whose data they were.
        time: when, in microseconds since 1970-01-01 UTC.
        rules: number of the record of rules that was in force; None where the drop does not tell.
        why: text for people.
    """

    commit: ObjectId
    time: int
    rules: int | None = None
    why: str = ""

    @property
    def drop(self) -> Drop:
        """The form in a record."""
        rules: Pairs = () if self.rules is None else ((RULES, self.rules),)
        why: Pairs = ((WHY, self.why),) if self.why else ()
        return Drop(self.commit, (), self.time, ((DATA, True), *rules, *why))


def told_of(drop: Drop) -> tuple[bool | None, DataDrop]:
    """Return whether data were given up or came back, None where the drop is of another layer."""
    said = dict(drop.more or ())
    gone, rules, why = (said.get(name) for name in (DATA, RULES, WHY))
    number = rules if type(rules) is int else None
    found = DataDrop(drop.commit, drop.time, number, why if isinstance(why, str) else "")
    return (gone if isinstance(gone, bool) else None), found


@dataclass(frozen=True)
class DataDrops:
    """The drops of data of a store; of each commit its newest one counts.

    Attributes:
        found: by commit.
        damaged: why some records cannot be read: what is missing may have been dropped.
    """

    found: Mapping[ObjectId, DataDrop]
    damaged: tuple[MvcsError, ...] = ()

    @classmethod
    def of(cls, backend: Backend) -> "DataDrops":
        """Read them; a store without the upgrade has none, which costs one look.

        Raises:
            NotFoundError: records go faster than they can be read.
        """
        if not has_upgrade(backend, DROPPED_DATA):
            return cls({})
        drops, damaged = DropLog(backend).survey()
        newest: dict[ObjectId, DataDrop | None] = {}
        for drop in drops:
            gone, told = told_of(drop)
            if gone is not None:
                newest.setdefault(drop.commit, told if gone else None)
        return cls({key: told for key, told in newest.items() if told is not None}, tuple(damaged))

    def get(self, commit: ObjectId) -> DataDrop | None:
        """Return the drop of a commit's data; None where they were not given up."""
        return self.found.get(commit)


def record_drops(backend: Backend, drops: Iterable[DataDrop], author: str) -> None:
    """Record that data were given up; the upgrade comes before the first.

    Raises:
        UnsupportedFormatError: a newer mvcs upgraded the store.
    """
    items = tuple(drop.drop for drop in drops)
    if items:
        upgrade(backend, DROPPED_DATA, now_microseconds(), author)
        DropLog(backend).append(items)


def record_there(backend: Backend, commits: Iterable[ObjectId]) -> None:
    """Record that the data of commits, which counted as dropped, are there again."""
    time = now_microseconds()
    drops = tuple(Drop(name, (), time, ((DATA, False),)) for name in commits)
    if drops:
        DropLog(backend).append(drops)
