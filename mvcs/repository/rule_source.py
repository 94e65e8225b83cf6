"""What rules of retention go by, in any store: one answer after a commit and when rules are applied."""

from collections.abc import Callable

from mvcs.history import Graph, Revision
from mvcs.refs import RefStore, later_metrics
from mvcs.retention import Source
from mvcs.store import Backend


def rule_source(
    backend: Backend,
    graph: Graph,
    refs: RefStore,
    head: Callable[[], Revision | None],
    tell: Callable[[str], None],
) -> Source:
    """Return what facts are read from.

    Args:
        backend: the store.
        graph: its commits.
        refs: its branches, tags and notes.
        head: gives where HEAD stands; that of a store which others work in, nobody here knows.
        tell: hears of notes that are damaged.
    """

    def heads() -> tuple[Revision, ...]:
        found = head()
        return () if found is None else (found,)

    return Source(backend, graph, refs, heads=heads, later=lambda commit: later_metrics(refs, commit, tell))
