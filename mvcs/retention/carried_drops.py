"""Drops of data told by one store to another, which has rules of its own."""

from collections.abc import Iterable
from dataclasses import replace

from mvcs.objects import ObjectId
from mvcs.retention.data_drops import DataDrops, record_drops, record_there
from mvcs.retention.dropped import dropped_why
from mvcs.store import Backend


def carry_drops(source: Backend, target: Backend, commits: Iterable[ObjectId], author: str) -> None:
    """Record in a store what another says of commits that came from there, before any ref names them.

    What was dropped over there is on record here; what was dropped here and came with its data is back. The
    numbers of rules mean something in their own store alone, so their text goes along.
    """
    there, here = DataDrops.of(source), DataDrops.of(target)
    names = list(commits)
    gone = (drop for name in names if (drop := there.get(name)) is not None and here.get(name) is None)
    told = (replace(drop, rules=None, why=dropped_why(source, drop)) for drop in gone)
    record_drops(target, told, author)
    record_there(target, [name for name in names if here.get(name) is not None and there.get(name) is None])
