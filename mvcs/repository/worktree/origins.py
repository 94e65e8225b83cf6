"""Which layer of which commit a state continued from, as far as anything tells."""

from dataclasses import dataclass, replace

from mvcs.checkpoint import Captured
from mvcs.commits import CommitRequest
from mvcs.errors import UsageError
from mvcs.history import Revision
from mvcs.objects import BOUNDED
from mvcs.repository.lineage_record import LineageRecord
from mvcs.repository.session import UNREADABLE, Session
from mvcs.repository.worktree.file_index import Index
from mvcs.restore import HANDED_OUT, traced_commit


@dataclass(frozen=True)
class Origin:
    """What a state continued from.

    Attributes:
        lossy: whether that was restored lossily; None where nothing tells.
        restored_from: the bounded commit it was restored from, where that is known and here.
        nothing_left: whether no lossy values left the store, as far as this clone and process know.
    """

    lossy: bool | None = False
    restored_from: Revision | None = None
    nothing_left: bool = False

    def asked(self, request: CommitRequest) -> CommitRequest:
        """Return a request for a commit that says so."""
        return replace(
            request, lossy=self.lossy, restored_from=self.restored_from, nothing_left=self.nothing_left
        )


EXACT = Origin()


class Origins:
    """Finds out where states come from, for the commits of one open repository."""

    def __init__(self, session: Session) -> None:
        """Ask what `session` and this process know."""
        self._session = session
        self._record = LineageRecord(session)

    def of_state(
        self, state: object, captured: Captured, told: str | None, parent: Revision | None
    ) -> Origin:
        """Return where a state comes from.

        Args:
            state: as it was handed over.
            captured: the same.
            told: the bounded commit it was restored from, as its owner says; "" for none, None for no word.
            parent: what the commit continues.

        Raises:
            NotFoundError: there is no such commit.
        """
        if told is not None:
            return Origin(True, self._session.resolver.resolve(told)) if told else EXACT
        marked = HANDED_OUT.find(state)
        if marked is not None:
            return self._lossy(marked)
        return EXACT if self._continues(parent) else self._by_values(captured, parent)

    def _continues(self, parent: Revision | None) -> bool:
        """Tell whether this process has the commit before from itself or whole, and nothing lossy."""
        given = self._session.given
        if parent is None or given.lossy:
            return False
        return parent.id in given.exact or (parent.id in given.made and self._record.gave_nothing())

    def of_files(self, captured: Captured, index: Index, parent: Revision | None) -> Origin:
        """Return where files come from: by what is known of their paths, their marks, and their values."""
        paths = [entry.path for entry in captured.files or ()]
        seen = [index.files.get(path) for path in paths]
        lossy = [found.commit for found in seen if found is not None and found.lossy]
        lossy += [captured.restored[path] for path in paths if path in captured.restored]
        if lossy:
            return self._lossy(lossy[0])
        known = None not in seen and self._record.gave_nothing()
        found = self._by_values(captured, parent, strict=known)
        return EXACT if known and found.lossy is None else found

    def _by_values(self, captured: Captured, parent: Revision | None, *, strict: bool = False) -> Origin:
        """Return what the history, or at last the values themselves, tell; `strict`, against a proof."""
        nothing_left = not self._session.given.lossy and self._record.gave_nothing()
        if nothing_left and (parent is None or not self._is_behind_bounded(parent)):
            return EXACT
        store, graph = self._session.store, self._session.graph
        found = traced_commit(store, graph, parent, captured, strict=strict) if parent else None
        return Origin(True, found) if found else Origin(None, nothing_left=nothing_left)

    def _lossy(self, commit: str) -> Origin:
        try:
            return Origin(True, self._session.resolver.resolve(commit))
        except (*UNREADABLE, UsageError):
            return Origin(True)  # such as a commit of another clone that was never fetched

    def _is_behind_bounded(self, parent: Revision) -> bool:
        """Tell whether a commit or an ancestor is bounded; taken to be so where history cannot be read."""
        known = self._record.unbounded
        try:
            line = self._session.graph.walk([parent], without={known} if known else set())
            if any(revision.commit.exactness == BOUNDED for revision in line):
                return True
        except UNREADABLE:
            return True
        if parent.id != known:
            self._record.remember_unbounded(parent.id)
        return False
