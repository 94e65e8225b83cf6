"""Verbs that restore states, some files in place, and exports, or say what that would read and take."""

import pathlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mvcs.errors import UsageError
from mvcs.memory import rare_full_collections
from mvcs.objects import ObjectId
from mvcs.reports import (
    CheckoutPlan,
    CommitInfo,
    ExportReport,
    Restored,
    RestoreFigures,
    RestoreReport,
    as_utc,
)
from mvcs.repository.verbs.base import Verbs

if TYPE_CHECKING:
    from mvcs.history import Revision
    from mvcs.objects import FileFormat, Tree
    from mvcs.repository.worktree.checkout import PlanningSession
    from mvcs.restore import PlannedReads, Reading
    from mvcs.store import Counted, RestoreCost


class Restoring(Verbs):
    """Verbs that restore."""

    @rare_full_collections()
    def checkout(
        self,
        rev: str = "HEAD",
        *,
        exact: bool = False,
        numpy: bool = False,
        tensors: str | None = None,
        strip_prefix: str | None = None,
    ) -> Any:  # noqa: ANN401 - a state is anything
        """Return the state of a commit: torch tensors, or numpy arrays on request, each verified.

        Args:
            rev: the commit; or `REV:FILE`, which gives that file alone, or that part of a state.
            exact: the exact layer of a bounded commit, all leaves or none.
            numpy: arrays instead of tensors; torch is not needed then, and torch's sizes come as tuples, its
                dtypes and devices by their names.
            tensors: only the tensors whose path matches this glob, as a flat dict.
            strip_prefix: a flat dict of the tensors whose paths begin like this, or match `tensors`, without
                it: `model.load_state_dict(repo.checkout(strip_prefix="model."))`.

        Raises:
            NotFoundError: no such commit, no matching tensor, or the exact layer is not stored any more.
            UsageError: without the prefix two tensors would have one name; or torch is not installed.
            CorruptionError: stored bytes are damaged.
        """
        from mvcs.restore import build_state

        reading = self._reading(rev, exact=exact)
        self._note_lossy(reading)
        state = build_state(reading, numpy=numpy, pattern=tensors, prefix=strip_prefix)
        if tensors is None and strip_prefix is None:
            self._note_whole(reading)
        return state

    @rare_full_collections()
    def restore(self, rev: str = "HEAD", *, prefer_exact: bool = True, numpy: bool = False) -> Restored:
        """Return a state and how exact it is: the exact layer when it is there and whole, else the values.

        Raises:
            NotFoundError: no such commit.
            UsageError: torch is not installed, and arrays are not asked for.
            CorruptionError: the values are damaged.
        """
        from mvcs.repository.opened_commit import looked_at, read_state, tell_left

        revision = self._session.resolver.resolve(rev)
        found = read_state(self._session, revision, prefer_exact=prefer_exact, numpy=numpy)
        reading = found.reading
        self._note_lossy(reading)
        self._note_whole(reading)
        tell_left(self._session, revision, reading.store, reading.tree)
        info = looked_at(self._session, reading)
        return Restored(found.state, info, reading.layer, reading.lossy, list(found.damaged))

    def is_whole(self, rev: str = "HEAD") -> bool:
        """Tell whether the values of a commit can be restored: stored bytes are compared with checksums.

        Raises:
            NotFoundError: no such commit.
        """
        from mvcs.repository.opened_commit import is_whole

        return is_whole(self._session, self._session.resolver.resolve(rev))

    def restore_files(
        self,
        paths: Sequence[str | pathlib.Path] = (),
        *,
        rev: str = "HEAD",
        exact: bool = False,
        force: bool = False,
    ) -> RestoreReport:
        """Restore some files of a commit in place; HEAD and all other files stay.

        Args:
            paths: files and folders, by where they lie.
            rev: the commit; or `REV:FILE`, a file or folder of it by its path in the commit.
            exact: the exact layer of a bounded commit.
            force: overwrite also what is stored nowhere.

        Raises:
            NotFoundError: no such commit, or it has no such file.
            ConflictError: something that is stored nowhere would be overwritten; or a pull was stopped.
            UsageError: no file is named.
        """
        from mvcs.repository.opened_commit import looked_at, open_for
        from mvcs.repository.worktree.checkout import place_files
        from mvcs.repository.worktree.file_index import names_of
        from mvcs.repository.worktree.whereabouts import head_to_leave, refuse_unfinished
        from mvcs.upkeep import remove_leftovers

        session = self._session
        revision, inner = session.resolver.resolve_file(rev)
        names = [*names_of(session, paths), *([] if inner is None else [inner])]
        if not names:
            raise UsageError("no file is named", hint="mvcs restore FILE, or '.' for all of them")
        session.require_top()
        refuse_unfinished(session, head_to_leave(session, forced=force))
        remove_leftovers(session.place)
        reading = open_for(session, revision, exact=exact, rev=rev).of_files(names)
        changed, unchanged = place_files(session, reading, force=force)
        return RestoreReport(looked_at(session, reading), changed, unchanged, reading.layer)

    def export(
        self,
        rev: str,
        target: str | pathlib.Path,
        *,
        tensors: str | None = None,
        strip_prefix: str | None = None,
        exact: bool = False,
        force: bool = False,
    ) -> ExportReport:
        """Write a commit, a file or part of it, or tensors that match elsewhere; the suffix tells the format.

        A commit of several files goes to a folder; a text that ends in a slash names one. Of a folder of the
        commit the files lie in `target` as they lie in that folder. With `strip_prefix` one file holds the
        tensors whose paths begin like this, or match `tensors`, without it.

        Raises:
            ConflictError: a file is there that no commit has and that was not exported before, or somebody
                writes to it meanwhile.
            NotFoundError: no such commit, or no matching tensor.
            UsageError: `target` lies in `.mvcs` or in a store, or is a pipe or a device, whatever is
                forced; its suffix is that of no format, or of torch, which is not installed; or without
                the prefix two tensors have one name. Or files go to a folder, and a name is unfit for some
                system.
            CorruptionError: files go to a folder, and version control tools would act on one.
        """
        from mvcs.local import ExportLanding, Exports, Journal, stamps_of_files
        from mvcs.repository.opened_commit import looked_at
        from mvcs.repository.worktree.checkout import refuse_export, refuse_odd
        from mvcs.restore import ExportTarget, export_to, from_folder, refuse_inside
        from mvcs.upkeep import remove_leftovers

        reading, where = self._reading(rev, exact=exact), ExportTarget.of(target)
        inner, files = self._session.resolver.resolve_file(rev)[1], reading.tree.files
        if inner is not None and files and inner not in [entry.path for entry in files]:
            reading, where = from_folder(reading, inner), where.of_folder()
        path = where.path
        refuse_inside(self._session.place.local, self._session.place.top, path)
        where.refuse_names(reading.tree)
        before = None if force else stamps_of_files(where.files(reading))
        refuse_odd(reading, where)
        if not force:
            refuse_export(self._session, reading, where)
        self._note_lossy(reading)
        remove_leftovers(self._session.place)
        with closing(Journal(self._session.place.local)) as journal:
            landing = ExportLanding(journal.file, before)
            done = export_to(reading, where, tensors, strip_prefix, landing)
        Exports(self._session.place.local).note(landing.written)
        size = sum(written.stamp.size for written in landing.written.values())
        info = looked_at(self._session, reading)
        left_out = list(done.left_out)
        return ExportReport(
            info, str(path), done.tensors, size, left_out, reading.layer, done.kind, done.files
        )

    def _note_lossy(self, reading: "Reading") -> None:
        from mvcs.repository.lineage_record import LineageRecord

        if reading.lossy:
            LineageRecord(self._session).give(reading.revision.id)

    def _note_whole(self, reading: "Reading") -> None:
        if not reading.lossy and not reading.partial:
            self._session.given.exact.add(reading.revision.id)

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
        revision = session.graph.load(ObjectId(bytes.fromhex(plan.commit.id)))
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
