"""Verbs that *look* at stored bytes, which means to compare them with what names them, and mend them."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from mvcs.errors import ConflictError, MvcsError, UsageError
from mvcs.reports import FsckReport, RepairReport, SampleReport, as_utc
from mvcs.repository.sharing.remote_stores import RemoteStore
from mvcs.repository.verbs.base import Verbs

if TYPE_CHECKING:
    from mvcs.upkeep import CheckedClone, Source


class Checking(Verbs):
    """Verbs that look at every stored byte, and mend what is wrong."""

    def fsck(self, *, full: bool = True, decode: bool = True, sample: float | None = None) -> FsckReport:
        """Check the store; it only reads, and `repair` goes on from what it finds.

        Args:
            full: read every byte; otherwise refs, history and footers.
            decode: decode and hash every object as well; otherwise bytes are compared with checksums.
            sample: read so large a part of all bytes, from 0 to 1, and go on from there the next time.

        Raises:
            UsageError: the sample is no part of anything, or this is a bare store.
        """
        from mvcs.local import note_checked, save_findings
        from mvcs.upkeep import FULL, PACKS, QUICK, check_store

        if sample is not None:
            return self._sampled(sample)
        session = self._session
        level = (FULL if decode else PACKS) if full else QUICK
        report = check_store(session.store.apart(), session.progress, level, self._clone())
        report = replace(report, level=("full" if decode else "packs") if full else "quick")
        local = session.place.local
        if level == FULL:
            note_checked(local, report)
        save_findings(local, report, None if level == FULL else level.takes)
        return self._with_earlier(report)

    def _with_earlier(self, report: FsckReport) -> FsckReport:
        """Add a note on what earlier checks found, and this one did not look for."""
        from mvcs.local import Findings

        told = Findings.load(self._session.place.local).told([one.subject for one in report.problems])
        return report if told is None else replace(report, notes=[*report.notes, told])

    def _sampled(self, share: float) -> FsckReport:
        from mvcs.local import Sample, note_damaged, save_findings
        from mvcs.store import EXACT_FOLDER, VALUE_FOLDER, pack_name
        from mvcs.upkeep import Level, check_store

        if not 0 < share <= 1:
            raise UsageError("a sample is a part of all: more than 0 %, and at most 100 %")
        session, backend = self._session, self._session.place.backend
        local = session.place.local
        if local is None:
            raise UsageError(
                "a bare store does not remember where a sample ended", hint="sample from a clone"
            )
        sizes = backend.sizes(VALUE_FOLDER) | backend.sizes(EXACT_FOLDER)
        due = Sample.due(local, sizes, share)
        level = Level(frozenset(due.paths))
        report = check_store(session.store.apart(), session.progress, level, self._clone())
        due.looked(local)
        damaged = (problem.subject for problem in report.problems)
        note_damaged(
            local,
            {name for path in damaged if path.startswith(f"{VALUE_FOLDER}/") and (name := pack_name(path))},
        )
        save_findings(local, report, level.takes)
        read = sum(sizes[path] for path in due.paths)
        since = None if due.since is None else as_utc(due.since * 1_000_000)
        told = SampleReport(len(due.paths), read, due.done, as_utc(due.begun * 1_000_000), since)
        return self._with_earlier(replace(report, sample=told))

    def repair(self, *, source: str | None = None, execute: bool = True) -> RepairReport:
        """Make good what checks found damaged, or what a check finds now where none found anything.

        What a remote has is copied from there, and compared with the hash that names it before it takes the
        place of anything. What lay there is kept below `.mvcs/damaged`.

        Args:
            source: the remote to copy from; by default all of them, those that cannot be reached left out.
            execute: mend; otherwise nothing is changed, and the report says what would become of it.

        Raises:
            ConflictError: the remote holds another project.
            NotFoundError: there is no such remote.
            UsageError: this is a bare store.
        """
        from mvcs.upkeep import Repair

        session, clone = self._session, self._clone()
        if clone is None:
            raise UsageError(
                "a bare store has no place to keep what is damaged",
                hint="'mvcs push --verify' from a clone sends again what is damaged here",
            )
        notes: list[str] = []
        sources = [self._source(source)] if source is not None else list(self._sources(notes))
        allow = partial(session.allowance.check_pack, folder=clone.local)
        repair = Repair(session.place, clone, sources, session.author, session.progress, allow, notes)
        report = repair.run(execute=execute)
        lineage = session.indexing.mend() if execute else None
        return report if lineage is None else replace(report, notes=[*report.notes, lineage])

    def _sources(self, notes: list[str]) -> Iterator["Source"]:
        """Yield the remotes that can be used, the one that is fetched from by default first."""
        names = sorted(self._session.place.config.names("remote"), key=lambda name: name != "origin")
        for name in names:
            try:
                yield self._source(name)
            except MvcsError as error:
                hint = "" if error.hint is None else f"; {error.hint}"
                notes.append(f"remote '{name}' was left out: {error.message}{hint}")

    def _source(self, name: str) -> "Source":
        from mvcs.local import Description
        from mvcs.upkeep import Source

        session = self._session
        there = RemoteStore.named(session, name).open(session, make=False).store.backend
        if Description.read(there, name).project_id != session.place.description.project_id:
            raise ConflictError(
                f"remote '{name}' holds another project, so nothing is taken from it",
                hint=f"'mvcs push {name}' makes it one of this project where it has no history of its own; "
                "if this one has the packs, copy files of those names: a name is the hash of the content",
            )
        return Source(f"'{name}'", there)

    def _clone(self) -> "CheckedClone | None":
        """Return what the clone knows that is open here; None for a bare store."""
        from mvcs.local import packs_on_record
        from mvcs.upkeep import CheckedClone

        session, local = self._session, self._session.place.local
        if local is None or session.seen is None:
            return None
        unpublished = partial(packs_on_record, local) if session.has_head else None
        return CheckedClone(local, session.seen, session.watch, session.check_head, unpublished)
