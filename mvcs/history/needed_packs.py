"""Which packs a commit needs beyond what refs lead to."""

from collections.abc import Collection, Iterable
from contextlib import suppress
from itertools import islice

from mvcs.errors import MvcsError, NotFoundError
from mvcs.history.commit_graph import Graph, Revision
from mvcs.history.counting_graph import CountingGraph
from mvcs.objects import ObjectId
from mvcs.refs import Marked, RefChange, RefRecord
from mvcs.store import ObjectStore

ATTEMPTS = 3
NEAR = 64  # commits that are walked before those behind refs are


class GraphNeeds:
    """Tells which packs a commit and its history need, by the footers that end them."""

    def __init__(self, store: ObjectStore, graph: Graph) -> None:
        """Read from `store`; `graph` has its commits."""
        self._store = store
        self._graph = graph

    def __call__(
        self, target: RefRecord | RefChange, marked: Marked, *, moved: bool = True, exact: bool = True
    ) -> set[str]:
        """Return the packs that a target needs, but for what is behind marked records.

        Args:
            target: what a ref says or is to say.
            marked: what a collector has marked.
            moved: whether commits may have been ended anew, so that packs that are named may be gone.
            exact: whether packs of exact layers count as well.

        Raises:
            MvcsError: something on the way cannot be read.
        """
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
