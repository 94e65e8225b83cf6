"""The commit flow: capture, store, describe, and only then move the ref."""

import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice

from mvcs.checkpoint import Captured
from mvcs.commits import nothing_new
from mvcs.commits.before.earlier_weights import EarlierWeights, WeightHistory
from mvcs.commits.before.snap_back import guard_of
from mvcs.commits.bounded.groups import BoundedGroups
from mvcs.commits.branch_errors import DamagedBranchError, LostRaceError, SetBackError
from mvcs.commits.damage_found import Damage
from mvcs.commits.describe import CommitRequest, Content, described, said
from mvcs.commits.kept_files import KeptFiles
from mvcs.commits.layers import Layers, LayerWriters
from mvcs.commits.leaves.bounded import BoundedLeaves
from mvcs.commits.leaves.exact import Bases, ExactLeaves, store_tree
from mvcs.commits.leaves.tensor_errors import TensorErrors
from mvcs.commits.lineage_proof import brings_no_tensor, brings_nothing
from mvcs.commits.plan.anatomy import Anatomy
from mvcs.commits.pool_time import PoolTime
from mvcs.errors import ConflictError, CorruptionError, MvcsError, NotFoundError
from mvcs.history import Graph, Revision
from mvcs.local import Journal
from mvcs.objects import Commit, Kind, ObjectId, Tree
from mvcs.progress import SILENT, Progress
from mvcs.quantize import LatticeConfig, QuantizerConfig
from mvcs.refs import CONFLICT, HEADS, RefChange, RefRecord, RefStore, RolledBackError
from mvcs.restore import open_reading
from mvcs.store import ObjectStore, ObjectWriter, WrittenCommit, pack_name

CONFLICT_DIGITS = 8
ATTEMPTS = 8  # each but the last has found damage that was not known
FARTHEST = 1024  # commits of weights alone that are passed over for bases


@dataclass(frozen=True)
class BranchPosition:
    """Where a commit goes: its parent, and the branch that has to move.

    Attributes:
        parent: the commit it continues, or takes the place of; None for the first.
        branch: the branch; None when HEAD is detached.
        record: the newest record of the branch when the commit began; None for a new branch.
        overtaken: the branch has already moved on from the parent.
        beside: the branch's tip, when the commit continues an earlier one of its commits instead.
        ancestors: what `parent` continues, where the commit takes its place; None where it continues it.
        damage: what is wrong with the newest record of the branch, which is not moved then.
    """

    parent: Revision | None
    branch: str | None
    record: RefRecord | None
    overtaken: bool = False
    beside: Revision | None = None
    ancestors: tuple[Revision, ...] | None = None
    damage: MvcsError | None = None

    @property
    def parents(self) -> tuple[Revision, ...]:
        """The commit it continues first."""
        if self.ancestors is not None:
            return self.ancestors
        return tuple(revision for revision in (self.parent, self.beside) if revision is not None)


@dataclass(frozen=True)
class MadeCommit:
    """A commit that is durable.

    Attributes:
        revision: the commit.
        tree: what it holds.
        notes: what to tell the user.
        timings: milliseconds by name.
        branch: the branch it was published on.
    """

    revision: Revision
    tree: Tree
    notes: tuple[str, ...]
    timings: dict[str, float]
    branch: str | None = None


class Committer:
    """Makes commits in one store."""

    def __init__(
        self,
        writers: LayerWriters,
        graph: Graph,
        refs: RefStore,
        threads: int,
        progress: Progress,
    ) -> None:
        """Write with so many threads, publish in `refs`."""
        self._writers = writers
        self._store = writers.store
        self._threads = threads
        self._graph = graph
        self._refs = refs
        self._progress = progress
        self._weight_history = WeightHistory(writers.store, graph)

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
        started, pool = time.perf_counter(), PoolTime()
        damage = self._look(captured.raw_bytes)
        try:
            for _ in range(ATTEMPTS):
                with closing(self._writers.layers(request, journal, kept)) as layers:
                    made = self._make(captured, request, position, layers, pool, kept)
                if made is not None:
                    break
                self._delete(journal.packs)
        except BaseException:
            self._undo(journal)
            raise
        if made is None:
            raise damage.unending()
        revision, tree, notes = made
        total = time.perf_counter() - started
        timings = {
            "encode_ms": 1000 * (total - layers.write_seconds),
            "write_ms": 1000 * layers.write_seconds,
            "pool_ms": 1000 * pool.seconds,
        }
        return MadeCommit(revision, tree, (*request.notes, *notes, *damage.notes()), timings)

    def _look(self, raw_bytes: int) -> Damage:
        """Look at a part of the store in turn; return what will tell of damage that is found from here on."""
        watch = self._writers.watch
        if watch is None:
            return Damage(self._store)
        watch.learn()
        damage = Damage(self._store)
        watch.look(raw_bytes)
        return damage

    def _undo(self, journal: Journal) -> None:
        """Delete packs that nobody needs; what is refused now is found by the journal later."""
        with suppress(MvcsError):
            self._delete(journal.packs)
            journal.close()

    def _delete(self, paths: Iterable[str]) -> None:
        self._store.catalog.forget(pack_name(path) or "" for path in paths)
        for path in paths:
            self._store.backend.delete(path)

    def _make(
        self,
        captured: Captured,
        request: CommitRequest,
        position: BranchPosition,
        layers: Layers,
        pool: PoolTime,
        kept: KeptFiles | None,
    ) -> tuple[Revision, Tree, tuple[str, ...]] | None:
        """Make a commit; None where damage was found that what is stored so far may refer to."""
        parent, value, damage = position.parent, layers.value, Damage(self._store)
        parent_tree = self._tree_of(parent)
        notes = self._keep(kept, layers) if kept else ()
        keeper = self._keeper(Anatomy(captured), parent, parent_tree, value)
        quantizing = self._quantizing(request, parent, keeper, layers.exact)
        stored = self._stored(captured, keeper, quantizing, pool)
        tree = kept.beside(stored) if kept else stored
        near = parent.commit.tree if parent and parent_tree else None
        tree_id = value.put(Kind.TREE, tree.encode(), near)
        nothing_new.refuse_same_tree(request, tree_id, parent)
        layers.gather()
        if damage.grew:
            return None
        if request.lossy is None and _is_exact(request, parent_tree, stored):
            request = replace(request, lossy=False)
        content = Content(tree_id, stored, kept.tree, kept.names) if kept else Content(tree_id, stored)
        commit = described(content, request, position.parent, position.parents, quantizing)
        revision = self._seal(commit, tree, layers, position.parents)
        if isinstance(request.quantizer, LatticeConfig):
            self._weight_history.keep(revision, keeper.anatomy)
        return revision, tree, (*notes, *said(quantizing, evaluated=request.evaluation is not None))

    def _keep(self, kept: KeptFiles, layers: Layers) -> tuple[str, ...]:
        """Lean on the files that are kept; without their exact values there is no exact layer."""
        kept.hold(self._store, layers.value)
        exact = layers.exact
        if exact is None or not kept.lossy or kept.write_exact(ObjectStore(self._store.backend), exact):
            return ()
        exact.close()
        layers.exact = None
        return ("there is no exact layer: that of the files kept is not stored (any more)",)

    def tried(
        self, captured: Captured, request: CommitRequest, position: BranchPosition
    ) -> Callable[[QuantizerConfig], BoundedGroups]:
        """Return a function that gives, by settings, what a bounded commit would do; nothing is stored."""
        parent = position.parent
        anatomy = Anatomy(captured)
        keeper = self._keeper(anatomy, parent, self._tree_of(parent), ObjectWriter(self._store))
        earlier = self._earlier(anatomy, request, parent)
        before = parent.commit if parent else None

        def quantizing(config: QuantizerConfig) -> BoundedGroups:
            bounded = self._bounded(config, request, parent, keeper, earlier)
            return BoundedGroups.prepare(config, bounded, keeper, request.importance, before)

        return quantizing

    def _keeper(
        self, anatomy: Anatomy, parent: Revision | None, tree: Tree | None, writer: ObjectWriter
    ) -> ExactLeaves:
        bases = Bases.of(tree, anatomy.captured, self._behind(parent))
        return ExactLeaves(anatomy, bases, writer, self._store)

    def _quantizing(
        self, request: CommitRequest, parent: Revision | None, keeper: ExactLeaves, exact: ObjectWriter | None
    ) -> BoundedGroups | None:
        if request.quantizer is None:
            return None
        earlier = self._earlier(keeper.anatomy, request, parent)
        bounded = self._bounded(request.quantizer, request, parent, keeper, earlier, exact)
        before = parent.commit if parent else None
        return BoundedGroups.prepare(request.quantizer, bounded, keeper, request.importance, before)

    def _earlier(
        self, anatomy: Anatomy, request: CommitRequest, parent: Revision | None
    ) -> Callable[[], EarlierWeights | None]:
        """Return what tells, once it is wanted, where moves are measured from."""
        return cache(lambda: self._weight_history.before(anatomy, request.restored_from, parent))

    def _bounded(
        self,
        config: QuantizerConfig,
        request: CommitRequest,
        parent: Revision | None,
        keeper: ExactLeaves,
        earlier: Callable[[], EarlierWeights | None],
        exact: ObjectWriter | None = None,
    ) -> BoundedLeaves:
        guard = guard_of(self._store, self._graph, request.restored_from, parent)
        keeps_codes = isinstance(config, LatticeConfig) and config.hysteresis > 0
        errors = TensorErrors(self._writers.max_tensor_error, config.pruned_power)
        known = earlier() if keeps_codes else None
        return BoundedLeaves(self._store, keeper.writer, exact, guard, known, errors=errors)

    def _stored(
        self, captured: Captured, keeper: ExactLeaves, quantizing: BoundedGroups | None, pool: PoolTime
    ) -> Tree:
        groups = keeper.groups() if quantizing is None else quantizing.groups()
        store = pool.counted(keeper.keep_all if quantizing is None else quantizing.store)
        return store_tree(captured, groups, store, keeper.writer, self._threads, self._progress)

    def publish(self, made: MadeCommit, position: BranchPosition, author: str) -> MadeCommit:
        """Move the branch to a commit that was made.

        Raises:
            ConflictError: the branch moved meanwhile; the commit is on the branch that its `branch` names.
            CorruptionError: the branch is damaged or was set back; the commit is kept in the same way.
        """
        commit = made.revision.commit
        verb = "commit" if position.ancestors is None else "commit (amend)"
        change = RefChange(
            made.revision.id, made.revision.written.pack, author, f"{verb}: {reflog_message(commit)}"
        )
        if position.branch is None:
            return made
        try:
            if position.damage is None and self._moved(position.branch, position, change):
                return MadeCommit(made.revision, made.tree, made.notes, made.timings, position.branch)
        except RolledBackError as error:
            raise SetBackError(error, self._keep_beside(position.branch, change), made) from error
        name = self._keep_beside(position.branch, change)
        if position.damage is not None:
            raise DamagedBranchError(position.damage, name, made)
        raise LostRaceError(position.branch, name, made)

    def _keep_beside(self, branch: str, change: RefChange) -> str:
        target = change.target or ObjectId(b"")
        name = f"{branch}{CONFLICT}{target.hex()[:CONFLICT_DIGITS]}"
        self._refs.update(HEADS, name, self._refs.newest(HEADS, name), change)
        return name

    def _moved(self, branch: str, position: BranchPosition, change: RefChange) -> bool:
        if position.overtaken:
            return False
        try:
            self._refs.update(HEADS, branch, position.record, change)
        except ConflictError:
            return False
        return True

    def _tree_of(self, parent: Revision | None) -> Tree | None:
        if parent is None:
            return None
        try:
            return open_reading(self._store, parent, SILENT).tree
        except (CorruptionError, NotFoundError):
            return None  # fsck tells of the damage; the new state is in hand and is stored alone

    def _behind(self, parent: Revision | None) -> Tree | None:
        """Return the newest tree behind commits of weights alone: it has the bases of all else."""
        if parent is None or not parent.commit.weights_only:
            return None
        line = islice(self._graph.first_parents(parent), FARTHEST)
        return self._tree_of(next((found for found in line if not found.commit.weights_only), None))

    def _seal(self, commit: Commit, tree: Tree, layers: Layers, parents: tuple[Revision, ...]) -> Revision:
        """End both layers' packs; the pack that ends the value layer describes the commit."""
        exact_packs, exact_bytes = self._end_exact(layers.exact)
        value = layers.value
        content = commit.encode()
        identifier = value.put(Kind.COMMIT, content)
        value.settle()
        sizes = (tree.raw_bytes, value.stored_bytes, exact_bytes, value.depth)
        own = WrittenCommit(identifier, content, "", *sizes, exact_packs)
        pack = value.finish((own, *self._graph.copies(parents)))
        footer = self._store.catalog.attach(pack or "")
        self._graph.learn(footer)
        self._store.keep({pack or "", *footer.needed})
        return self._graph.load(identifier, pack)

    @staticmethod
    def _end_exact(writer: ObjectWriter | None) -> tuple[tuple[str, ...], int]:
        if writer is None:
            return (), 0
        writer.finish()
        return tuple(writer.packs), writer.stored_bytes


def _is_exact(request: CommitRequest, parent: Tree | None, tree: Tree) -> bool:
    """Tell whether content alone proves that a state of unknown origin is no lossily restored one.

    Where nothing lossy left the store, what stands beside tensors is not asked: settings, a counter of steps.
    """
    if request.nothing_left and (tree.leaves or tree.files is not None):
        return brings_no_tensor(parent, tree)
    return brings_nothing(parent, tree)


def reflog_message(commit: Commit) -> str:
    """Return what the reflog says of a commit: its message, else its step."""
    step = "(no message)" if commit.step is None else f"step {commit.step}"
    return commit.message.partition("\n")[0][:72] or step
