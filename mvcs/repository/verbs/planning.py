"""Verbs that say what others would do: what a restore reads, and how long it takes."""

import pathlib
from dataclasses import replace
from typing import TYPE_CHECKING

from mvcs.objects import ObjectId
from mvcs.reports import CheckoutPlan, CommitInfo, RestoreFigures, as_utc
from mvcs.repository.verbs.base import Verbs

if TYPE_CHECKING:
    from mvcs.history import Revision
    from mvcs.objects import FileFormat, Tree
    from mvcs.repository.worktree.checkout import PlanningSession
    from mvcs.restore import PlannedReads
    from mvcs.store import Counted, RestoreCost


class Planning(Verbs):
    """Verbs that say what others would do."""

    def checkout_plan(
        self,
        rev: str = "HEAD",
        target: str | pathlib.Path | None = None,
        *,
        in_place: bool = False,
        tensors: str | None = None,
        strip_prefix: str | None = None,
        exact: bool = False,
        force: bool = False,
        measure: bool = False,
    ) -> CheckoutPlan:
        """Say what a restore reads: as `checkout` does, `export` to `target`, or `checkout_files` in place.

        Footers and trees are read for it, and no values. Requests and bytes of packs are those of the restore
        by a process that has just opened the repository, to a `target` that is not there yet. Where something
        else fills its memory for decoded entries, it reads some of them more than once.

        Args:
            rev: the commit; or `REV:FILE`, which is that file alone, or that part of a state.
            target: where an export would go.
            in_place: restore files in the folder, as `checkout_files` does.
            tensors: only the tensors whose path matches this glob.
            strip_prefix: only the tensors whose paths begin like this, or match `tensors`.
            exact: the exact layer of a bounded commit.
            force: in place, as `checkout_files` is forced.
            measure: measure this machine and the store anew, for two seconds; else that is done once.

        Raises:
            NotFoundError: no such commit, no matching tensor, or the exact layer is not stored any more.
            UsageError: without the prefix two tensors would have one name.
        """
        from mvcs.repository.restore_budget import rates_of
        from mvcs.store import Counted

        counted = Counted(self._session.place.backend)
        session = self._fresh(counted)
        if in_place:
            plan, cost = self._in_place(session, counted, rev, exact=exact, force=force)
        else:
            plan, cost = self._elsewhere(session, counted, rev, target, tensors, strip_prefix, exact=exact)
        revision = session.graph.load(ObjectId(bytes.fromhex(plan.commit.id)), None)
        found = rates_of(self._session.place, revision, anew=measure)
        seconds = cost.reading(plan.requests, plan.read_bytes).seconds(found.rates, plan.raw_bytes)
        return replace(plan, commit=self._told(revision), seconds=seconds, measured=as_utc(found.time))

    def _told(self, revision: "Revision") -> CommitInfo:
        """Return a commit as people see it; of dropped data that are there still a note says so."""
        from mvcs.repository.opened_commit import looked_at, open_for

        return looked_at(self._session, open_for(self._session, revision, exact=False))

    def restore_figures(self, rev: str = "HEAD") -> RestoreFigures:
        """Say what restoring all values of a commit reads, and how long that takes where that was measured.

        Raises:
            NotFoundError: no such commit, or something of it is nowhere in the store.
        """
        from mvcs.repository import restore_budget

        return restore_budget.restore_figures(self._session.place, self._session.resolver.resolve(rev))

    def _fresh(self, counted: "Counted") -> "PlanningSession":
        from mvcs.repository.worktree.checkout import PlanningSession

        session = self._session
        return PlanningSession(
            replace(session.place, backend=counted), session.progress, allowance=session.allowance
        )

    def _in_place(
        self, session: "PlanningSession", counted: "Counted", rev: str, *, exact: bool, force: bool
    ) -> "tuple[CheckoutPlan, RestoreCost]":
        from mvcs.repository.worktree.checkout import plan_in_place

        revision = session.resolver.resolve(rev)
        found = plan_in_place(session, revision, exact=exact, force=force)
        plan = CheckoutPlan(
            self._session.info(revision),
            found.reading.layer,
            None,
            found.reads.raw_bytes,
            counted.requests,
            counted.bytes,
            found.cost.entries,
            found.cost.depth,
            written=list(found.written),
            unchanged=list(found.unchanged),
            checked_bytes=found.checked_bytes,
        )
        return plan, found.cost

    def _elsewhere(
        self,
        session: "PlanningSession",
        counted: "Counted",
        rev: str,
        target: str | pathlib.Path | None,
        tensors: str | None,
        strip_prefix: str | None,
        *,
        exact: bool,
    ) -> "tuple[CheckoutPlan, RestoreCost]":
        from mvcs.progress import SILENT
        from mvcs.repository.opened_commit import asked_branches
        from mvcs.repository.sharing.remote_stores import addresses
        from mvcs.restore import open_reading, planned

        revision, path = session.resolver.resolve_file(rev)
        store = session.reader()
        branches = asked_branches(self._session, rev)
        reading = open_reading(
            store, revision, SILENT, exact=exact, elsewhere=addresses(session), branches=branches
        )
        if path is not None:
            reading = reading.at(path)
        reads = _reads(reading.tree, target, tensors, strip_prefix)
        cost = planned(store, reading, reads)
        plan = CheckoutPlan(
            self._session.info(revision),
            reading.layer,
            None if target is None else str(target),
            reads.raw_bytes,
            counted.requests,
            counted.bytes,
            cost.entries,
            cost.depth,
        )
        return plan, cost


def _reads(
    tree: "Tree", target: str | pathlib.Path | None, tensors: str | None, strip_prefix: str | None
) -> "PlannedReads":
    from mvcs.restore import ExportTarget, reads_of_export, reads_of_state

    if target is None:
        return reads_of_state(tree, tensors, strip_prefix)
    chosen: FileFormat | None = ExportTarget.of(target).format
    return reads_of_export(tree, chosen, tensors, strip_prefix)
