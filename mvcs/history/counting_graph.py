"""Commits by the packs that end them and count, and the packs that a commit needs.

A pack that a footer names may be gone, since the commit was ended anew, or may never have come.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Self

from mvcs.errors import CorruptionError, MvcsError, NotFoundError
from mvcs.history.commit_graph import Graph, Revision
from mvcs.objects import ObjectId
from mvcs.refs import Marked, RefChange, RefRecord
from mvcs.store import (
    UNREADABLE_ERRORS,
    VALUE_FOLDER,
    Backend,
    ObjectStore,
    WrittenCommit,
    pack_name,
    pack_path,
    packs_if_moved,
    read_footer,
)

Ended = tuple[WrittenCommit, tuple[str, ...]]
ATTEMPTS = 3
NEAR = 64  # commits that are walked before those behind refs are


@dataclass(frozen=True)
class EndingPacks:
    """What all packs of a store say of the commits that they end.

    Attributes:
        there: names of all packs.
        ended: by commits: as each pack says that ends it, with the other packs it names.
    """

    there: frozenset[str]
    ended: Mapping[ObjectId, list[Ended]]

    @classmethod
    def of(cls, backend: Backend) -> Self:
        """Read the footers of all packs; those that cannot be read tell nothing."""
        there = frozenset(name for path in backend.list(VALUE_FOLDER) if (name := pack_name(path)))
        found: dict[ObjectId, list[Ended]] = defaultdict(list)
        for name in sorted(there):
            with suppress(*UNREADABLE_ERRORS):
                footer = read_footer(backend, name)
                for written in footer.commits[:1]:
                    found[written.id].append((written, footer.needed))
        return cls(there, found)

    def whole(self, identifier: ObjectId) -> WrittenCommit | None:
        """Return a commit as the first pack by name ends it of which all named packs are there, if any is."""
        return next(self.all_whole(identifier), None)

    def all_whole(self, identifier: ObjectId) -> Iterator[WrittenCommit]:
        """Yield a commit as each pack ends it of which all named packs are there."""
        for written, needed in self.ended.get(identifier, ()):
            if self.there.issuperset((written.pack, *needed)):
                yield written


class CountingGraph(Graph):
    """The commits of a store, each with a pack that ends it of which all named packs are there, if any is.

    A pack that is named counts where it is whole in this sense; only another one has to be looked for. What
    was seen stays in mind: make one for each walk, or for each task.
    """

    def __init__(self, store: ObjectStore, instead: dict[ObjectId, Revision] | None = None) -> None:
        """Walk the commits of `store`; those in `instead` count as they stand there."""
        super().__init__(store)
        self._instead = {} if instead is None else instead
        self._whole: set[str] = set()
        self._gone: set[str] = set()
        self._there: set[str] | None = None
        self._is_listed = False
        self._ended: EndingPacks | None = None

    def load(self, identifier: ObjectId, pack: str | None) -> Revision:
        """Return a commit as the pack ends it that counts.

        Raises:
            NotFoundError: no pack of the store holds it.
            CorruptionError: the pack is damaged.
        """
        return self._counting(super().load(identifier, pack))

    def get(self, identifier: ObjectId, child: Revision | None = None) -> Revision:
        """Return a commit as the pack ends it that counts; what the pack of `child` names goes first.

        Where that names none, no walk may go by what it met before: another one would choose otherwise.
        """
        if child is None or not self.is_moved:
            return self._counting(super().get(identifier, child))
        told = self._told_by(child.written.pack, identifier)
        return self._counting(told) if told else self._unnamed(identifier, child)

    def _unnamed(self, identifier: ObjectId, child: Revision) -> Revision:
        found = None if identifier in self._instead else self._endings.whole(identifier)
        return self._counting(super().get(identifier, child)) if found is None else Revision(found)

    def _told_by(self, pack: str, identifier: ObjectId) -> Revision | None:
        # Others tell of it too, and not all have to name the same pack.
        with suppress(CorruptionError, NotFoundError):
            for written in self._store.catalog.look(pack).commits:
                if written.id == identifier:
                    return Revision(written)
        return None

    @property
    def is_moved(self) -> bool:
        """Whether commits may have been ended anew here, by packs that another store does not name."""
        return self._listed() is not None

    def are_there(self, packs: Iterable[str]) -> bool:
        """Tell whether no pack of these is gone; without asking where none can be for a good reason."""
        return all(map(self._is_there, packs))

    def _listed(self) -> set[str] | None:
        if not self._is_listed:
            self._there, self._is_listed = packs_if_moved(self._store.backend), True
        return self._there

    def _counting(self, revision: Revision) -> Revision:
        instead = self._instead.get(revision.id)
        if instead is not None:
            return instead
        return revision if self._is_whole(revision.written.pack) else self._ended_by_another(revision)

    def _ended_by_another(self, revision: Revision) -> Revision:
        found = self._endings.whole(revision.id)
        return revision if found is None else Revision(found)

    @property
    def _endings(self) -> EndingPacks:
        if self._ended is None:
            self._ended = EndingPacks.of(self._store.backend)
        return self._ended

    def _is_whole(self, pack: str) -> bool:
        if pack in self._whole or not self.is_moved:
            return True
        try:
            needed = self._store.catalog.look(pack).needed
        except NotFoundError:
            return False
        except CorruptionError:
            return True  # it is told where the commit is read
        if not self.are_there((pack, *needed)):
            return False
        self._whole.add(pack)
        return True

    def _is_there(self, name: str) -> bool:
        there = self._listed()
        if there is None or name in there:
            return True
        if name not in self._gone:
            # Who names a pack wrote it before: it is asked for once, as it may be newer than the listing.
            written = self._store.backend.size(pack_path(name)) is not None
            (there if written else self._gone).add(name)
        return name in there


class GraphNeeds:
    """Tells which packs a commit and its history need, by the footers that end them."""

    def __init__(self, store: ObjectStore, graph: Graph) -> None:
        """Read from `store`; `graph` has its commits."""
        self._store = store
        self._graph = graph

    def __call__(
        self, target: RefRecord | RefChange, marked: Marked, *, moved: bool = True, exact: bool = True
    ) -> set[str]:
        """Return the packs that a target needs, as `PackNeeds` has it."""
        if target.target is None:
            return set()
        for _ in range(ATTEMPTS if moved else 0):
            # Commits may be ended anew, and what they left collected, while one looks.
            with suppress(NotFoundError):
                return self._told(target, target.target, marked, moved=moved, exact=exact)
        return self._told(target, target.target, marked, moved=moved, exact=exact)

    def _told(
        self,
        target: RefRecord | RefChange,
        identifier: ObjectId,
        marked: Marked,
        *,
        moved: bool,
        exact: bool,
    ) -> set[str]:
        found, counting = set[str](), CountingGraph(self._store) if moved else self._graph
        for revision in self._needed(target, identifier, marked):
            # The record names the pack of its target; those of older commits are named by footers alone.
            is_named = revision.id == identifier
            one = revision if is_named else counting.load(revision.id, revision.written.pack)
            written = one.written
            found |= {written.pack, *self._store.catalog.look(written.pack).needed}
            found.update(written.exact_packs if exact else ())
        return found

    def _needed(
        self, target: RefRecord | RefChange, identifier: ObjectId, marked: Marked
    ) -> Iterable[Revision]:
        """Return the commits whose packs count, as the target has them end."""
        known, before = self._graph.load(identifier, target.pack), marked.before
        moved = before is not None and before.target == identifier and before.pack != target.pack
        if not moved and target.pack in {None, known.written.pack}:
            return self._beyond(known, marked)
        # The history was ended anew: who marked it by other records marked the packs that it left.
        anew = Graph(self._store)
        return anew.walk([anew.load(identifier, target.pack)])

    def _beyond(self, start: Revision, marked: Marked) -> Iterable[Revision]:
        """Return the history of a commit that is not behind marked ones, or somewhat more."""
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
                for revision in self._graph.walk(
                    [self._graph.load(record.target, record.pack)], without=found
                ):
                    found.add(revision.id)
                    if revision.id == wanted:
                        return found
            except MvcsError:
                continue  # the rest counts as unmarked
        return found
