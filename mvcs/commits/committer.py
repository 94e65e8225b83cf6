"""The commit flow: look, store, describe, seal. Only then `publication` moves the branch."""

import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, replace

from mvcs.checkpoint import Captured
from mvcs.commits import nothing_new
from mvcs.commits.before.earlier_weights import WeightHistory
from mvcs.commits.before.parent_tree import ParentTree
from mvcs.commits.bounded.groups import BoundedGroups
from mvcs.commits.bounded.preparation import Preparation
from mvcs.commits.damage_found import Damage
from mvcs.commits.describe import Content, bounded_notes, described, resting_notes, uncompressed_notes
from mvcs.commits.kept_files import KeptFiles
from mvcs.commits.layer_writers import Layers, LayerWriters
from mvcs.commits.leaves.exact import ExactLeaves
from mvcs.commits.leaves.stored_tree import Workers, store_tree
from mvcs.commits.lineage_proof import proves_exact
from mvcs.commits.plan.anatomy import Anatomy
from mvcs.commits.position import BranchPosition, MadeCommit
from mvcs.commits.request import CommitRequest
from mvcs.commits.thread_time import PoolTime
from mvcs.errors import MvcsError
from mvcs.history import Graph, Revision
from mvcs.local import Journal
from mvcs.objects import Kind, ObjectId, Tree
from mvcs.progress import Progress
from mvcs.quantize import LatticeConfig, QuantizerConfig
from mvcs.store import ObjectWriter, pack_name

ATTEMPTS = 8  # each but the last has found damage that was not known


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
    ) -> MadeCommit:
        """Store everything a commit needs, beside the files that it keeps of its parent; no ref is touched.

        Nothing stays of a commit that is not made.

        Raises:
            CorruptionError: a file cannot be kept, since the store has not all of it.
        """
        started, task = time.perf_counter(), Task(captured, request, position, kept, PoolTime())
        damage = self._look(captured.raw_bytes)
        try:
            for _ in range(ATTEMPTS):
                with closing(self._writers.layers(request, journal, kept)) as layers:
                    made = self._make(task, layers)
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

    def _make(self, task: Task, layers: Layers) -> MadeCommit | None:
        """Make a commit; None where damage was found that what is stored so far may refer to."""
        request, kept, damage = task.request, task.kept, Damage(self._store)
        parent = ParentTree.of(task.position.parent, self._store, self._graph)
        notes = layers.keep(kept, self._store) if kept else ()
        keeper = self._keeper(task.captured, parent, layers.value)
        bounded = self._bounded(request, parent, keeper, layers)
        stored = self._stored(task, keeper, bounded)
        tree = kept.beside(stored) if kept else stored
        tree_id = self._put(tree, parent, layers.value)
        nothing_new.refuse_same_tree(request, tree_id, parent.revision)
        layers.gather()
        if damage.grew:
            return None
        if request.lossy is None and proves_exact(parent.tree, stored, nothing_left=request.nothing_left):
            request = replace(request, lossy=False)
        content = Content(tree_id, stored, kept.tree, kept.names) if kept else Content(tree_id, stored)
        parents = task.position.parents
        commit = described(content, request, parent.revision, parents, bounded)
        identifier, pack = layers.finish(commit, tree, self._graph.copies(parents))
        revision = self._learned(identifier, pack)
        if isinstance(request.quantizer, LatticeConfig):
            self._weight_history.keep(revision, keeper.anatomy)
        notes = *notes, *resting_notes(parent.revision, parent.behind or parent.tree, tree, request.step)
        notes = *notes, *bounded_notes(bounded, evaluated=request.evaluation is not None)
        notes = *notes, *uncompressed_notes(task.captured, stored)
        return MadeCommit(revision, tree, notes, {})

    def tried(
        self, captured: Captured, request: CommitRequest, position: BranchPosition
    ) -> Callable[[QuantizerConfig], BoundedGroups]:
        """Return a function that gives, by settings, what a bounded commit would do; nothing is stored."""
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
        waves = [keeper.groups()] if bounded is None else bounded.waves()
        store = task.pool.counted(keeper.keep_all if bounded is None else bounded.store)
        workers = Workers(self._threads, keeper.store.memory)
        return store_tree(task.captured, waves, store, keeper.writer, workers, self._progress)

    def _put(self, tree: Tree, parent: ParentTree, writer: ObjectWriter) -> ObjectId:
        near = parent.revision.commit.tree if parent.revision and parent.tree else None
        content = tree.encode()
        identifier = writer.put(Kind.TREE, content, near)
        self._store.last_tree.note(identifier, tree, len(content))
        return identifier

    def _learned(self, identifier: ObjectId, pack: str) -> Revision:
        """Return a commit that was just written; what the store knows of older ones goes with this."""
        footer = self._store.catalog.attach(pack)
        self._graph.learn(footer)
        self._store.keep({pack, *footer.needed})
        return self._graph.load(identifier, pack)

    def withdraw(self, journal: Journal) -> None:
        """Delete the packs of a commit that nothing came to name; what is refused now is found later."""
        with suppress(MvcsError):
            self._delete(journal.packs)
            journal.close()

    def _delete(self, paths: Iterable[str]) -> None:
        self._store.catalog.forget(pack_name(path) or "" for path in paths)
        for path in paths:
            self._store.backend.delete(path)


def _timings(total: float, writing: float, pool: float) -> dict[str, float]:
    """Return milliseconds by name, from seconds."""
    return {"encode_ms": 1000 * (total - writing), "write_ms": 1000 * writing, "pool_ms": 1000 * pool}
