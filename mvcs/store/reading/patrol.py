"""A walk through all value packs in order of name: every commit looks at a little of what it only refers to.

Nothing but its position is remembered, whatever the number of packs. Bytes are counted before they are read.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mvcs.store.packs.footer import Footer, Placed
from mvcs.store.reading.located import Located
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.reading.pack_files import UNREADABLE_ERRORS, VALUE_FOLDER, pack_name, read_footer

_MOST_CREDIT = 256 << 20


@dataclass(frozen=True)
class PatrolPosition:
    """How far a patrol has come.

    Attributes:
        pack: the pack that is next, or half done; packs of lower names are done in this round.
        offset: of its next entry.
        credit: bytes that may be read; below zero where a footer took more.
        wants: bytes that the next step takes.
        begun: when this round began, in seconds; None before the first.
        before: when the round before it began; None where there was none.
    """

    pack: str = ""
    offset: int = 0
    credit: int = 0
    wants: int = 0
    begun: int | None = None
    before: int | None = None


class Patrol:
    """Goes on from a position; what it finds damaged is distrusted in the catalog."""

    def __init__(self, store: ObjectStore) -> None:
        """Walk through the packs of `store`."""
        self._store = store

    def go_on(self, position: PatrolPosition, allowance: int, now: int) -> PatrolPosition:
        """Look at as many bytes as are due, one round at most, and return how far that came.

        Args:
            position: where to begin.
            allowance: bytes to look at more than so far.
            now: the time, in seconds.
        """
        credit = min(position.credit + allowance, _MOST_CREDIT)
        at = replace(position, credit=credit, begun=now if position.begun is None else position.begun)
        if at.credit < at.wants:
            return at
        for name in self._names(at.pack):
            begin = at.offset if name == at.pack else 0
            at, whole = self._through(replace(at, pack=name, offset=begin, wants=0))
            if not whole:
                return at
        return PatrolPosition(credit=at.credit, begun=now, before=at.begun)

    def _through(self, at: PatrolPosition) -> tuple[PatrolPosition, bool]:
        """Look at a pack from a position on; tell whether its end was reached."""
        cost, footer = self._footer(at.pack)
        due: list[Located] = []
        credit, stopped = at.credit - cost, None
        for placed in footer.entries if footer else ():
            link = Located(at.pack, False, placed, 0)
            if placed.offset < at.offset or self._store.verification.seen(link.place):
                continue
            if placed.length > credit:
                stopped = placed
                break
            credit -= placed.length
            due.append(link)
        self._store.verification.entries(due)
        return _stopped(replace(at, credit=credit), cost, stopped), stopped is None

    def _footer(self, name: str) -> tuple[int, Footer | None]:
        """Return what reading a footer took and what it says; None where it is damaged."""
        known = self._store.catalog.known(name)
        if known is not None:
            whole = self._store.verification.pack(name)
            return 0, known if whole else None
        try:
            footer = read_footer(self._store.backend, name)
        except UNREADABLE_ERRORS:
            return 0, None
        tail = footer.tail
        return tail.pack_length - tail.footer_offset if tail else 0, footer

    def _names(self, first: str) -> Iterator[str]:
        """Yield the packs of the store from a name on, in order."""
        backend = self._store.backend
        for folder in backend.children(VALUE_FOLDER):
            if folder >= first[:2]:
                for path in backend.children(f"{VALUE_FOLDER}/{folder}"):
                    name = pack_name(path)
                    if name is not None and name >= first and name[:2] == folder:
                        yield name


def _stopped(at: PatrolPosition, cost: int, next_one: Placed | None) -> PatrolPosition:
    if next_one is None:
        return at
    return replace(at, offset=next_one.offset, wants=cost + next_one.length)
