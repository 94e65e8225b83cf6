"""The commit flow: look, store, describe, seal. Only then `publication` moves the branch."""

import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, replace

from mvcs.checkpoint import Captured
from mvcs.commits.before.earlier_weights import WeightHistory
from mvcs.commits.before.parent import ParentTree
from mvcs.commits.bounded.groups import BoundedGroups
from mvcs.commits.bounded.preparation import Preparation
from mvcs.commits.describe import (
    Content,
    Damage,
    bounded_notes,
    described,
    proves_exact,
    resting_notes,
    uncompressed_notes,
)
from mvcs.commits.leaves.stored_tree import ExactLeaves, PoolTime, store_tree
from mvcs.commits.plan.anatomy import Anatomy
from mvcs.commits.plan.file_selection import KeptFiles
from mvcs.commits.request import ALL, BranchPosition, CommitRequest, MadeCommit, Mechanisms
from mvcs.config import MAX_TENSOR_ERROR
from mvcs.delta import CodeCoder, release_idle
from mvcs.errors import MvcsError, NothingToCommitError
from mvcs.history import Graph, Revision
from mvcs.local import Journal, StoreWatch
from mvcs.objects import Commit, Kind, ObjectId, Tree, short_id
from mvcs.progress import Progress
from mvcs.quantize import LatticeConfig, QuantizerConfig
from mvcs.store import (
    UNREADABLE_ERRORS,
    CodingWorth,
    LastEntry,
    Manifest,
    ObjectStore,
    ObjectWriter,
    Placement,
    RestoreLimits,
    WrittenCommit,
    manifest_path,
    pack_name,
)

ATTEMPTS = 8  # each but the last has found damage that was not known


@dataclass
class Layers:
    """The writers of one commit: its value layer, and its exact layer when it is bounded."""

    value: ObjectWriter
    exact: ObjectWriter | None = None

    def keep(self, kept: KeptFiles, store: ObjectStore) -> tuple[str, ...]:
        """Lean on files that are kept; without their exact values there is no exact layer, which is told.

        Raises:
            CorruptionError: something of them is missing or damaged.
        """
        kept.hold(store, self.value)
        if self.exact is None or not kept.lossy:
            return ()
        if kept.write_exact(store.apart(), self.exact):
            return ()
        self.exact.close()
        self.exact = None
        return ("there is no exact layer: that of the files kept is not stored (any more)",)

    def finish(self, commit: Commit, tree: Tree) -> tuple[WrittenCommit, Placement]:
        """Write the last packs of both layers, the commit itself in that of the value layer.

        Args:
            commit: what it says of itself.
            tree: what it holds.

        Returns:
            The commit, and where it lies.
        """
        exact_packs: tuple[str, ...] = ()
        if self.exact is not None:
            self.exact.finish()
            exact_packs = tuple(self.exact.packs)
        content = commit.encode()
        identifier = self.value.put(Kind.COMMIT, content)
        self.value.settle()
        exact_bytes = self.exact.stored_bytes if self.exact is not None else 0
        sizes = (tree.raw_bytes, self.value.stored_bytes, exact_bytes, self.value.depth)
        self.value.finish(LastEntry(sizes, exact_packs))
        sizes = (tree.raw_bytes, self.value.stored_bytes, exact_bytes, self.value.depth)
        return WrittenCommit(identifier, content, *sizes, exact_packs), self.value.placement

    def gather(self) -> None:
        """Store what waits for company: all that is leant on was looked at then."""
        for writer in (self.value, self.exact):
            if writer is not None:
                writer.gather()

    def close(self) -> None:
        """Leave nothing behind of packs that were begun and not ended, and no idle memory."""
        try:
            self.value.close()
        finally:
            if self.exact is not None:
                self.exact.close()
            release_idle()

    @property
    def write_seconds(self) -> float:
        """How long writing took."""
        return self.value.write_seconds + (self.exact.write_seconds if self.exact else 0.0)


@dataclass(frozen=True)
class LayerWriters:
    """What commits are written with.

    Attributes:
        store: where to.
        limits: how long chains of deltas may grow.
        worth: decides whether exact layers are worth coding; None codes them always.
        keeps_exact: whether exact layers are written at all.
        max_tensor_error: how far off a tensor may be, over the root mean square of its values.
        watch: looks at the store before it is leant on; None for what nobody will rely on.
        mechanisms: of bounded commits, that are at work.
        coder: of codes of one byte.
    """

    store: ObjectStore
    limits: RestoreLimits
    worth: CodingWorth | None
    keeps_exact: bool
    max_tensor_error: float = MAX_TENSOR_ERROR
    watch: StoreWatch | None = None
    mechanisms: Mechanisms = ALL
    coder: CodeCoder = "auto"

    def rehearsal(self) -> ObjectWriter:
        """Return a writer of which nothing is stored."""
        return ObjectWriter(self.store, coder=self.coder)

    def layers(self, request: CommitRequest, journal: Journal, kept: KeptFiles | None) -> Layers:
        """Return the writers of one commit, which note their packs in its journal."""
        bounds = request.quantizer is not None or (kept is not None and bool(kept.lossy))
        keeps = bounds and not request.weights_only and self.keeps_exact
        note, coder = journal.pack, self.coder
        exact = ObjectWriter(self.store, exact=True, worth=self.worth, announce=note, coder=coder)
        value = ObjectWriter(
            self.store, limits=self.limits, announce=note, coder=coder, holds_values=request.quantizer is None
        )
        return Layers(value, exact if keeps else None)


@dataclass(frozen=True)
class Task:
    """One commit that is to be made.

    Attributes:
        captured: what was handed over.
        request: what the caller asks it to be.
        position: where it goes.
        kept: files of the parent that it keeps; None for none.
        pool: counts the time of other threads.
    """

    captured: Captured
    request: CommitRequest
    position: BranchPosition
    kept: KeptFiles | None
    pool: PoolTime


class Committer:
    """Makes commits in one store."""

    def __init__(self, writers: LayerWriters, graph: Graph, threads: int, progress: Progress) -> None:
        """Write with so many threads, and tell `progress` how far that is."""
        self._writers = writers
        self._store = writers.store
        self._threads = threads
        self._graph = graph
        self._progress = progress
        self._weight_history = WeightHistory(
            writers.store,
            graph,
            tells_drift=writers.mechanisms.drift_gate,
            followed=writers.mechanisms.keep_pace,
        )

    def make(
        self,
        captured: Captured,
        request: CommitRequest,
        position: BranchPosition,
        journal: Journal,
        kept: KeptFiles | None = None,
        check: Callable[[WrittenCommit], None] = lambda _: None,
    ) -> MadeCommit:
        """Store everything a commit needs, beside the files that it keeps of its parent; no ref is touched.

        Nothing stays of a commit that is not made.

        Args:
            captured: what was handed over.
            request: what the commit is to be.
            position: where it goes.
            journal: notes what is written.
            kept: files of the parent that it keeps; None for none.
            check: is told the commit before its manifest is written, and may refuse it.

        Raises:
            CorruptionError: a file cannot be kept, since the store has not all of it.
        """
        started, task = time.perf_counter(), Task(captured, request, position, kept, PoolTime())
        damage = self._look(captured.raw_bytes)
        try:
            for _ in range(ATTEMPTS):
                with closing(self._writers.layers(request, journal, kept)) as layers:
                    made = self._make(task, layers, journal, check)
                if made is not None:
                    break
                self._delete(journal.packs)
        except BaseException:
            self.withdraw(journal)
            raise
        if made is None:
            raise damage.unending()
        timings = _timings(time.perf_counter() - started, layers.write_seconds, task.pool.seconds)
        return replace(made, notes=(*request.notes, *made.notes, *damage.notes()), timings=timings)

    def _make(
        self, task: Task, layers: Layers, journal: Journal, check: Callable[[WrittenCommit], None]
    ) -> MadeCommit | None:
        """Make a commit; None where damage was found that what is stored so far may refer to."""
        request, kept, damage = task.request, task.kept, Damage(self._store)
        self._know_only(revision for revision in (task.position.parent, kept and kept.parent) if revision)
        parent = ParentTree.of(task.position.parent, self._store, self._graph)
        notes = layers.keep(kept, self._store) if kept else ()
        keeper = self._keeper(task.captured, parent, layers.value)
        bounded = self._bounded(request, parent, keeper, layers)
        stored = self._stored(task, keeper, bounded)
        tree = kept.beside(stored) if kept else stored
        if parent.tree is not None:
            tree.is_like(parent.tree)  # then it is not encoded and walked again
        tree_id = self._put(tree, parent, layers.value)
        refuse_same_tree(request, tree_id, parent.revision)
        layers.gather()
        if damage.grew:
            return None
        if request.lossy is None and proves_exact(parent.tree, stored, nothing_left=request.nothing_left):
            request = replace(request, lossy=False)
        content = Content(tree_id, stored, kept.tree, kept.names) if kept else Content(tree_id, stored)
        parents = task.position.parents
        commit = described(content, request, parent.revision, parents, bounded)
        written, placement = layers.finish(commit, tree)
        check(written)
        journal.publishes(manifest_path(written.id, 0))
        revision = self._recorded(Manifest(written, placement, self._graph.ancestors(parents)))
        if isinstance(request.quantizer, LatticeConfig):
            self._weight_history.keep(revision, keeper.anatomy)
        notes = *notes, *resting_notes(parent.revision, parent.behind or parent.tree, tree, request.step)
        notes = *notes, *bounded_notes(bounded, evaluated=request.evaluation is not None)
        notes = *notes, *uncompressed_notes(task.captured, stored)
        before = parent.tree if task.position.ancestors is None else None
        return MadeCommit(revision, tree, notes, {}, before)

    def _know_only(self, revisions: Iterable[Revision]) -> None:
        """Know of no packs but those of some commits, on which alone a new one may lean.

        What another branch needs may be deleted with it, and is not pushed with this one.
        """
        commits = [revision.id for revision in revisions]
        needed = set[str]()
        with suppress(*UNREADABLE_ERRORS):  # what cannot be read is no base
            for commit in commits:
                needed.update(self._store.manifests.placement(commit).packs)
        self._store.keep(needed)
        try:
            self._store.catalog.attach_all(needed)
        except UNREADABLE_ERRORS:
            self._store.catalog.attach_everything()  # others may hold the same objects

    def tried(
        self, captured: Captured, request: CommitRequest, position: BranchPosition
    ) -> Callable[[QuantizerConfig], BoundedGroups]:
        """Return a function that gives, by settings, what a bounded commit would do; nothing is stored."""
        self._know_only([position.parent] if position.parent else [])
        parent = ParentTree.of(position.parent, self._store, self._graph)
        keeper = self._keeper(captured, parent, self._writers.rehearsal())
        return self._preparation(request, parent, keeper).groups

    def _look(self, raw_bytes: int) -> Damage:
        """Look at a part of the store in turn; return what will tell of damage that is found from here on."""
        watch = self._writers.watch
        if watch is None:
            return Damage(self._store)
        watch.learn()
        damage = Damage(self._store)
        watch.look(raw_bytes)
        return damage

    def _keeper(self, captured: Captured, parent: ParentTree, writer: ObjectWriter) -> ExactLeaves:
        return ExactLeaves(Anatomy(captured), parent.bases(captured), writer, self._store)

    def _bounded(
        self, request: CommitRequest, parent: ParentTree, keeper: ExactLeaves, layers: Layers
    ) -> BoundedGroups | None:
        """Look at the whole state for what its tensors have in common; None for an exact commit."""
        if request.quantizer is None:
            return None
        return self._preparation(request, parent, keeper).groups(request.quantizer, layers.exact)

    def _preparation(self, request: CommitRequest, parent: ParentTree, keeper: ExactLeaves) -> Preparation:
        return Preparation(
            keeper,
            self._weight_history,
            parent.revision,
            request.restored_from,
            request.importance,
            self._writers.max_tensor_error,
            self._writers.mechanisms,
            request.parts,
        )

    def _stored(self, task: Task, keeper: ExactLeaves, bounded: BoundedGroups | None) -> Tree:
        """Store leaf after leaf, and blobs."""
        same = keeper.unchanged() if bounded is None else {}
        waves = [keeper.groups(same)] if bounded is None else bounded.waves()
        store = task.pool.counted(keeper.keep_all if bounded is None else bounded.store)
        memory = replace(keeper.store.memory, threads=self._threads)
        return store_tree(task.captured, same, waves, store, keeper.writer, memory, self._progress)

    def _put(self, tree: Tree, parent: ParentTree, writer: ObjectWriter) -> ObjectId:
        near = parent.revision.commit.tree if parent.revision and parent.tree else None
        content = tree.encode()
        identifier = writer.put(Kind.TREE, content, near)
        self._store.last_tree.note(identifier, tree, len(content))
        return identifier

    def _recorded(self, manifest: Manifest) -> Revision:
        """Write the manifest of a commit whose packs are durable; what is known of older ones goes."""
        counted = manifest.counted()
        there = self._store.manifests.write(counted)
        if there != counted.placement:  # another writer made the same commit, and its packs may go
            self._store.manifests.append(manifest.written.id, counted.placement, there)
        self._store.keep(counted.placement.packs)
        return self._graph.load(manifest.written.id)

    def withdraw(self, journal: Journal) -> None:
        """Delete the packs of a commit whose manifest was not written; what is refused now is found later.

        Behind its manifest only a collector deletes them: others may see it.
        """
        with suppress(MvcsError):
            if not journal.published:
                self._delete(journal.packs)
            journal.close()

    def _delete(self, paths: Iterable[str]) -> None:
        self._store.catalog.forget(pack_name(path) or "" for path in paths)
        for path in paths:
            self._store.backend.delete(path)


def _timings(total: float, writing: float, pool: float) -> dict[str, float]:
    """Return milliseconds by name, from seconds."""
    return {"encode_ms": 1000 * (total - writing), "write_ms": 1000 * writing, "pool_ms": 1000 * pool}


def refuse_same_tree(request: CommitRequest, tree: ObjectId, parent: Revision | None) -> None:
    """Refuse a commit that has nothing new, where its request does.

    Args:
        request: what the commit is to say.
        tree: what it holds.
        parent: the commit it continues.

    Raises:
        NothingToCommitError: tree, step and metrics are those of the parent.
    """
    if parent is not None and says_nothing_more(request, parent) and tree == parent.commit.tree:
        raise nothing_new_error(parent)


def says_nothing_more(request: CommitRequest, parent: Revision) -> bool:
    """Tell whether a request refuses empty commits, and has the step and the metrics of the parent."""
    return not request.allow_empty and not _says_more(request, parent.commit)


def nothing_new_error(parent: Revision) -> NothingToCommitError:
    """Return what is raised where a commit would be its parent once more."""
    return NothingToCommitError(
        f"nothing to commit: content, step and metrics are those of {short_id(parent.id)}",
        hint="a new file has to be named: 'mvcs commit FILE -m MESSAGE'; 'mvcs commit --amend -m MESSAGE' "
        "changes the last message; with --allow-empty it is committed all the same",
    )


def _says_more(request: CommitRequest, before: Commit) -> bool:
    known = {name: str(number) for name, number in before.metrics}
    asked = {name: str(float(number)) for name, number in request.metrics.items()}
    return request.step not in (None, before.step) or not asked.items() <= known.items()
