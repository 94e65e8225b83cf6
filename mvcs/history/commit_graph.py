"""Commits and their ancestors, read from the footers of packs: one footer tells up to 33 commits."""

import heapq
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

from mvcs.errors import CorruptionError, NotFoundError
from mvcs.objects import Commit, Kind, ObjectId, object_id, short_id
from mvcs.refs import RefRecord
from mvcs.store import MAX_ANCESTORS, Footer, ObjectStore, WrittenCommit

COPIED_BYTES = 1 << 18
HELD = 2048  # commits in memory; a footer tells 33 of them again for one short read
HELD_BYTES = 1 << 24  # of their contents


@dataclass(frozen=True)
class Revision:
    """A commit with its sizes as first written and the pack that describes it."""

    written: WrittenCommit

    @property
    def id(self) -> ObjectId:
        """The commit's id."""
        return self.written.id

    @cached_property
    def commit(self) -> Commit:
        """The commit's content."""
        return Commit.decode(self.written.content)


class Graph:
    """The commits of a store, loaded as they are walked; those that were met last stay in memory."""

    def __init__(self, store: ObjectStore, held: int = HELD) -> None:
        """Walk the commits of `store`, and hold so many of them."""
        self._store = store
        self._held = held
        self._known: OrderedDict[ObjectId, Revision] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def load(self, identifier: ObjectId, pack: str | None) -> Revision:
        """Return a commit that a ref or an index says is described by `pack`.

        Raises:
            NotFoundError: neither that pack nor any other of the store holds it.
            CorruptionError: the pack is damaged.
        """
        if identifier not in self._known and pack is not None:
            return self._told(identifier, pack)
        return self._remembered(identifier) or self._search(identifier)

    def told(self, identifier: ObjectId, pack: str) -> Revision | None:
        """Return a commit as the footer of a pack tells of it; None where that is gone or damaged."""
        if identifier not in self._known:
            with suppress(CorruptionError, NotFoundError):
                self.learn(self._store.catalog.look(pack))
        return self._remembered(identifier)

    def tips(self, records: Iterable[RefRecord]) -> list[Revision]:
        """Return the commits that records of refs name; that of a deleted ref names none.

        Raises:
            NotFoundError: one is not in the store.
            CorruptionError: one is damaged.
        """
        return [self.load(one.target, one.pack) for one in records if one.target is not None]

    def follow(self, identifier: ObjectId, pack: str | None) -> Revision:
        """Return what `load` does, of a branch that new commits continue: what its newest record says counts.

        Where it names another pack than is known the commit was ended anew, and nothing new leans on packs
        that it left.
        """
        known = self._remembered(identifier)
        if known is None or pack in {None, known.written.pack}:
            return self.load(identifier, pack)
        with suppress(CorruptionError, NotFoundError):
            footer = self._store.catalog.look(pack or "")
            if footer.commits and (footer.commits[0].id, footer.commits[0].pack) == (identifier, pack):
                self.replace(map(Revision, footer.commits))
                self._store.keep({footer.commits[0].pack, *footer.needed})
                return Revision(footer.commits[0])
        return known

    def learn(self, footer: Footer) -> None:
        """Take the commits that a footer carries; their ids were computed from their contents."""
        for written in footer.commits:
            self._remember(Revision(written))

    def replace(self, revisions: Iterable[Revision]) -> None:
        """Take commits that were ended anew, in the place of what was known of them."""
        for revision in revisions:
            with self._lock:
                if revision.id in self._known:
                    self._known[revision.id] = revision

    def get(self, identifier: ObjectId, child: Revision | None = None) -> Revision:
        """Return a commit; `child`, whose footer carries copies of its ancestors, makes that cheap."""
        if identifier not in self._known and child is not None:
            return self._told(identifier, child.written.pack)
        return self._remembered(identifier) or self._search(identifier)

    def parents(self, revision: Revision) -> list[Revision]:
        """Return a commit's parents."""
        return [self.get(parent, revision) for parent in revision.commit.parents]

    def first_parents(self, start: Revision) -> Iterator[Revision]:
        """Yield `start` and its first parents."""
        current: Revision | None = start
        while current is not None:
            yield current
            parents = current.commit.parents
            current = self.get(parents[0], current) if parents else None

    def walk(
        self, starts: Iterable[Revision], without: Collection[ObjectId] = frozenset()
    ) -> Iterator[Revision]:
        """Yield every ancestor once, children before parents along each line, newest first across lines.

        Commits in `without` are left out, and what lies behind them is not looked at on their account.
        """
        heap: list[tuple[int, int, Revision]] = []
        seen: set[ObjectId] = set(without)
        counter = 0

        def push(revision: Revision) -> None:
            nonlocal counter
            if revision.id not in seen:
                seen.add(revision.id)
                counter += 1
                heapq.heappush(heap, (-revision.commit.time, counter, revision))

        for start in starts:
            push(start)
        while heap:
            revision = heapq.heappop(heap)[2]
            yield revision
            for parent in revision.commit.parents:
                if parent not in seen:
                    push(self.get(parent, revision))

    def is_ancestor(self, ancestor: ObjectId, descendant: Revision) -> bool:
        """Tell whether `ancestor` is `descendant` or lies behind it."""
        return any(revision.id == ancestor for revision in self.walk([descendant]))

    def copies(self, parents: Iterable[Revision]) -> tuple[WrittenCommit, ...]:
        """Return up to 32 ancestors, nearest first, for the footer of a new commit's pack.

        They are the parent and those in its own footer. Where these are 33, or huge, they begin anew with the
        parent alone: a walk reads one footer more, and footers have half as many copies on average.
        """
        starts = list(parents)
        most, queue = self._most_copies(starts), deque(starts)
        found: dict[ObjectId, WrittenCommit] = {}
        size = 0
        while queue and len(found) < most and size < COPIED_BYTES:
            revision = queue.popleft()
            if revision.id not in found:
                found[revision.id] = revision.written
                size += len(revision.written.content)
                with suppress(CorruptionError, NotFoundError):  # they are copies: what is gone is left out
                    queue.extend(self.parents(revision))
        return tuple(found.values())

    def _most_copies(self, parents: list[Revision]) -> int:
        if len(parents) != 1:
            return MAX_ANCESTORS
        try:
            told = self._store.catalog.look(parents[0].written.pack).commits
        except (CorruptionError, NotFoundError):
            return MAX_ANCESTORS
        is_full = len(told) > MAX_ANCESTORS or sum(len(one.content) for one in told) >= COPIED_BYTES
        return 1 if is_full else max(len(told), 1)

    def stored(self, identifier: ObjectId) -> Revision | None:
        """Return a commit that the store holds, whatever leads to it; None where it is none, or absent."""
        with suppress(NotFoundError):
            located = self._store.catalog.locate(identifier)
            if located.placed.entry.members[located.member].kind is Kind.COMMIT:
                return self._search(identifier)
        return None

    def _search(self, identifier: ObjectId) -> Revision:
        catalog = self._store.catalog
        try:
            located = catalog.locate(identifier)
            self.learn(catalog.look(located.pack))
        except (CorruptionError, NotFoundError):
            for footer in catalog.loaded():
                self.learn(footer)
            if identifier not in self._known:
                raise
        known = self._remembered(identifier)
        if known is not None:
            return known
        content = bytes(self._store.read(Kind.COMMIT, identifier))
        if object_id(Kind.COMMIT, content) != identifier:
            raise CorruptionError(f"commit {short_id(identifier)} is damaged")
        revision = Revision(WrittenCommit(identifier, content, located.pack, 0, 0, 0, 0))
        self._remember(revision)
        return revision

    def _told(self, identifier: ObjectId, pack: str) -> Revision:
        """Return a commit from the footer that should tell of it; where that is damaged, others may."""
        return self.told(identifier, pack) or self._search(identifier)

    def _remembered(self, identifier: ObjectId) -> Revision | None:
        with self._lock:
            if identifier in self._known:
                self._known.move_to_end(identifier)
            return self._known.get(identifier)

    def _remember(self, revision: Revision) -> None:
        with self._lock:
            if revision.id in self._known:
                return
            self._known[revision.id] = revision
            self._bytes += len(revision.written.content)
            while len(self._known) > self._held or self._bytes > HELD_BYTES:
                self._bytes -= len(self._known.popitem(last=False)[1].written.content)
