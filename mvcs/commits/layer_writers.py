"""The writers of a commit's two layers."""

from collections.abc import Iterable
from dataclasses import dataclass

from mvcs.commits.kept_files import KeptFiles
from mvcs.commits.mechanisms import ALL, Mechanisms
from mvcs.commits.request import CommitRequest
from mvcs.config import MAX_TENSOR_ERROR
from mvcs.delta import CodeCoder, release_idle
from mvcs.local import Journal, StoreWatch
from mvcs.objects import Commit, Kind, ObjectId, Tree
from mvcs.store import CodingWorth, ObjectStore, ObjectWriter, RestoreLimits, WrittenCommit


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

    def finish(self, commit: Commit, tree: Tree, ancestors: Iterable[WrittenCommit]) -> tuple[ObjectId, str]:
        """End both layers' packs; the pack that ends the value layer describes the commit.

        Args:
            commit: what it says of itself.
            tree: what it holds.
            ancestors: earlier commits that the pack describes as well.

        Returns:
            the commit's id, and the name of that pack.
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
        pack = self.value.finish((WrittenCommit(identifier, content, "", *sizes, exact_packs), *ancestors))
        return identifier, pack or ""

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
        value = ObjectWriter(self.store, limits=self.limits, announce=note, coder=coder)
        return Layers(value, exact if keeps else None)
