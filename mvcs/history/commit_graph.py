"""Commits and their ancestors, read from manifests: the one of a commit tells of up to 20 before it."""

import heapq
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from threading import Lock

from mvcs.errors import CorruptionError, MvcsError, NotFoundError
from mvcs.objects import Commit, ObjectId
from mvcs.refs import Marked, RefRecord
from mvcs.store import MAX_ANCESTORS, Manifest, ObjectStore, WrittenCommit

COPIED_BYTES = 1 << 18
HELD = 2048  # commits in memory; a manifest tells 21 of them again for one short read
HELD_BYTES = 1 << 24  # of their contents
NEAR = 64  # commits that are walked before those behind refs are


@dataclass(frozen=True)
class Revision:
    """A commit with its sizes as first written."""

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
        self.manifests = store.manifests
        self._held = held
        self._known: OrderedDict[ObjectId, Revision] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def load(self, identifier: ObjectId) -> Revision:
        """Return a commit.

        Raises:
            NotFoundError: it is not in the store.
            CorruptionError: its manifest is damaged.
        """
        found = self._remembered(identifier)
        if found is None:
            self.learn(self.manifests.first(identifier))
            found = self._remembered(identifier)
        if found is None:  # it alone takes more than is held
            return Revision(self.manifests.first(identifier).written)
        return found

    def tips(self, records: Iterable[RefRecord]) -> list[Revision]:
        """Return the commits that records of refs name; that of a deleted ref names none.

        Raises:
            NotFoundError: one is not in the store.
            CorruptionError: one is damaged.
        """
        return [self.load(one.target) for one in records if one.target is not None]

    def stored(self, identifier: ObjectId) -> Revision | None:
        """Return a commit that the store holds, whatever leads to it; None where it is none, or absent."""
        try:
            return Revision(self.manifests.first(identifier).written)
        except NotFoundError:
            return None

    def learn(self, manifest: Manifest) -> None:
        """Take the commits that a manifest tells of; their ids were computed from their contents."""
        for written in (*manifest.ancestors[::-1], manifest.written):
            self._remember(Revision(written))

    def parents(self, revision: Revision) -> list[Revision]:
        """Return a commit's parents."""
        return [self.load(parent) for parent in revision.commit.parents]

    def first_parents(self, start: Revision) -> Iterator[Revision]:
        """Yield `start` and its first parents."""
        current: Revision | None = start
        while current is not None:
            yield current
            parents = current.commit.parents
            current = self.load(parents[0]) if parents else None

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
                    push(self.load(parent))

    def is_ancestor(self, ancestor: ObjectId, descendant: Revision) -> bool:
        """Tell whether `ancestor` is `descendant` or lies behind it."""
        return any(revision.id == ancestor for revision in self.walk([descendant]))

    def ancestors(self, parents: Iterable[Revision]) -> tuple[WrittenCommit, ...]:
        """Return up to 20 ancestors, nearest first, for the manifest of a new commit.

        They are the parent and those in its own manifest. Where these are 20, or huge, they begin anew with
        the parent alone: a walk reads one manifest more, and manifests have half as many on average.
        """
        starts = list(parents)
        most, queue = self._most_ancestors(starts), deque(starts)
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

    def _most_ancestors(self, parents: list[Revision]) -> int:
        if len(parents) != 1:
            return MAX_ANCESTORS
        try:
            told = self.manifests.first(parents[0].id).ancestors
        except (CorruptionError, NotFoundError):
            return MAX_ANCESTORS
        size = sum(len(one.content) for one in (parents[0].written, *told))
        is_full = len(told) >= MAX_ANCESTORS or size >= COPIED_BYTES
        return 1 if is_full else len(told) + 1

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


class GraphNeeds:
    """Tells what a commit and its history need, as `mvcs.refs` asks it of writers."""

    def __init__(self, store: ObjectStore, graph: Graph) -> None:
        """Read from `store`; `graph` has its commits."""
        self._store = store
        self._graph = graph

    def __call__(self, target: ObjectId, marked: Marked, *, exact: bool = True) -> set[str]:
        """Return names of packs and ids of commits, in hexadecimal, but for what is behind marked records.

        Raises:
            MvcsError: something on the way cannot be read.
        """
        found = set[str]()
        for revision in self._beyond(target, marked):
            found |= {revision.id.hex(), *self._store.manifests.placement(revision.id).packs}
            found.update(revision.written.exact_packs if exact else ())
        return found

    def _beyond(self, target: ObjectId, marked: Marked) -> Iterable[Revision]:
        """Return the history of a commit that is not behind marked ones, or somewhat more."""
        start = self._graph.load(target)
        tip = {marked.before.target} if marked.before and marked.before.target else set[ObjectId]()
        near = list(islice(self._graph.walk([start], without=tip), NEAR))
        if len(near) < NEAR:
            return near
        behind = self._behind([*filter(None, [marked.before]), *marked.others()], start.id)
        return () if start.id in behind else self._graph.walk([start], without=behind)

    def _behind(self, marked: Collection[RefRecord], wanted: ObjectId) -> set[ObjectId]:
        """Return what lies behind marked commits, as far as it can be read; no more once `wanted` is met."""
        found = set[ObjectId]()
        for record in marked:
            if record.target is None or record.target in found:
                continue
            try:
                for revision in self._graph.walk([self._graph.load(record.target)], without=found):
                    found.add(revision.id)
                    if revision.id == wanted:
                        return found
            except MvcsError:
                continue  # the rest counts as unmarked
        return found
