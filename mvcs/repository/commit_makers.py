"""What makes commits in an open repository, as its settings have it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from mvcs.commits import Committer, LayerWriters, Mechanisms
from mvcs.config import Config
from mvcs.delta import CodeCoder
from mvcs.history import Graph
from mvcs.local import StoreWatch
from mvcs.machine import processors
from mvcs.progress import SILENT, Progress
from mvcs.repository.restore_budget import configured_limits
from mvcs.store import CodingWorth, DryRun, ObjectStore, RestoreRates

MOST_THREADS = 8  # by itself; more do not help one disk


@dataclass(frozen=True)
class CommitMakers:
    """Makes what makes commits.

    Attributes:
        config: the repository's settings.
        mechanisms: of bounded commits, that are at work.
        rates: gives how quick this machine is with the store; asked where a setting limits seconds.
    """

    config: Config
    mechanisms: Mechanisms
    rates: Callable[[], RestoreRates | None] = lambda: None

    def writing(self, store: ObjectStore, graph: Graph, watch: StoreWatch, progress: Progress) -> Committer:
        """Return what makes commits in a store."""
        threads = self.config.integer("commit.threads") or min(processors(), MOST_THREADS)
        keeps = self.config.integer("retention.exact_layers") > 0
        worth = CodingWorth() if self.config.get("retention.exact_coding") == "auto" else None
        writers = self._writers(store, worth, watch, keeps_exact=keeps)
        return Committer(writers, graph, threads, progress)

    def rehearsing(self, store: ObjectStore) -> Committer:
        """Return what makes commits that are kept nowhere, without exact layers, to learn what they take."""
        dry = ObjectStore(DryRun(store.backend), store.memory)
        writers = self._writers(dry, None, None, keeps_exact=False)
        return Committer(writers, Graph(dry), threads=1, progress=SILENT)

    def _writers(
        self, store: ObjectStore, worth: CodingWorth | None, watch: StoreWatch | None, *, keeps_exact: bool
    ) -> LayerWriters:
        return LayerWriters(
            store,
            configured_limits(self.config, self.rates),
            worth,
            keeps_exact=keeps_exact,
            max_tensor_error=self.config.number("commit.max_tensor_error"),
            watch=watch,
            mechanisms=self.mechanisms,
            coder=cast("CodeCoder", self.config.get("delta.coder")),
        )
