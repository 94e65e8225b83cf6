"""Verbs that keep a store in order: checks, repair, gc, compaction, retention and figures."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal, Unpack

from mvcs.config import DAY_SECONDS, GRACE_DAYS, WAIT_DAYS
from mvcs.errors import (
    ConflictError,
    CorruptionError,
    MvcsError,
    NotFoundError,
    StorageError,
    UsageError,
    one_of,
)
from mvcs.objects import short_id
from mvcs.refs import now_microseconds
from mvcs.reports import FsckReport, RepairReport, SampleReport, as_utc
from mvcs.repository.sharing.remote_stores import RemoteStore, store_of
from mvcs.repository.verbs.base import Verbs

if TYPE_CHECKING:
    from mvcs.reports import CompactReport, RetentionApplied, RetentionShown, StoreStats, Why
    from mvcs.retention import RuleWords
    from mvcs.upkeep import CheckedClone, GcReport, Source

LayerName = Literal["data", "exact"]


class Maintaining(Verbs):
    """Verbs that keep a store in order."""

    def retention(self, remote: str | None = None) -> "RetentionShown":
        """Return the rules and pins of this store, or of a remote's.

        Raises:
            CorruptionError: the newest record of either cannot be read.
        """
        from mvcs.repository.keeping.retained import Retained

        return Retained.of(self._session, remote).shown()

    def set_retention(
        self,
        *,
        layer: LayerName = "data",
        remote: str | None = None,
        force: bool = False,
        **words: Unpack["RuleWords"],
    ) -> "RetentionShown":
        """Set all rules of one layer; a commit that any of them keeps stays, and without any nothing goes.

        Data are dropped by `apply_retention` alone, exact layers after each bounded commit.

        Args:
            layer: "data", or "exact" for the exact layers of bounded commits.
            remote: set them in the store of this remote.
            force: also where they keep nothing beyond tips, pins and HEAD, or nobody recorded a metric.
            words: `last=20`, `every=1000`, `best="3:val_loss"` or `"3:max:score"`, `newer="14d"`,
                `tagged=True`. Where `best` does not say which way is better, `metric.NAME.goal` does.

        Raises:
            UsageError: a rule is none, or two contradict each other.
            NotFoundError: nobody recorded the metric of a rule.
            ConflictError: the rules keep nothing beyond what stays anyway.
        """
        from mvcs.repository.keeping.retained import Retained
        from mvcs.retention import Layer, Ruling, rules_from, set_rules

        one_of("layer", layer, ("data", "exact"))
        chosen = Layer.DATA if layer == "data" else Layer.EXACT
        rules = rules_from(chosen, words, self._session.goals)
        kept = Retained.of(self._session, remote)
        backend = kept.store.backend
        notes = kept.tried(Ruling.of(backend).with_rules(chosen, rules), force=force)
        set_rules(backend, chosen, rules, now_microseconds(), self._session.author)
        return kept.shown(notes)

    def apply_retention(
        self, *, remote: str | None = None, dry_run: bool = False, force: bool = False
    ) -> "RetentionApplied":
        """Drop what no rule keeps: data, and exact layers where rules are about them.

        Commits, trees and metrics stay. Commits that stay are stored without what goes first; the bytes are
        free once `gc` has deleted the packs that nothing needs any more.

        Args:
            remote: in the store of this remote; its own rules count.
            dry_run: change nothing, and say what would go.
            force: also where the rules keep nothing beyond tips, pins and HEAD.

        Raises:
            ConflictError: the rules keep nothing beyond what stays anyway; or they changed meanwhile.
            CorruptionError: something cannot be read, so that nobody can tell what is to be kept.
            NotFoundError: nobody recorded the metric of a rule.
        """
        from mvcs.repository.keeping.retained import Retained
        from mvcs.repository.keeping.retention_run import RetentionRun
        from mvcs.upkeep import remove_leftovers

        if not dry_run:
            remove_leftovers(self._session.place)
        run = RetentionRun.begin(Retained.of(self._session, remote), force=force)
        if dry_run:
            return run.rehearse()
        try:
            return run.execute()
        finally:
            self._session.look_for_drops()

    def pin(self, rev: str, reason: str = "", remote: str | None = None) -> "RetentionShown":
        """Keep a commit with both layers, whatever the rules say.

        Raises:
            NotFoundError: there is no such commit, or the remote does not have it.
        """
        from mvcs.repository.keeping.retained import Retained
        from mvcs.retention import pin, pins_row, unpin

        author = self._session.author
        kept = Retained.of(self._session, remote)
        revision = kept.revision(rev)
        newest = pins_row(kept.store.backend).newest()
        before = None if newest is None else newest.pins.get(revision.id)

        def undo() -> None:
            if before is None:
                unpin(kept.store.backend, revision.id, author)

        with kept.refs.naming(revision.id, author, undo):
            pin(kept.store.backend, revision.id, reason, author)
        again = [] if before is None else ["it was pinned before" + (f": {before}" if before else "")]
        self._session.look_for_drops()
        return kept.shown([*again, *kept.bring_back(revision)])

    def unpin(self, rev: str, remote: str | None = None) -> "RetentionShown":
        """Let rules decide of a commit again.

        Raises:
            NotFoundError: it is not pinned.
        """
        from mvcs.reports import of_remote
        from mvcs.repository.keeping.retained import Retained
        from mvcs.retention import Ruling, unpin

        revision = self._session.resolver.resolve(rev)
        kept = Retained.of(self._session, remote)
        if revision.id not in Ruling.of(kept.store.backend).pins:
            there = of_remote(remote)
            raise NotFoundError(
                f"commit {short_id(revision.id)} is not pinned",
                hint=f"'mvcs retention show{there}' lists the pins",
            )
        unpin(kept.store.backend, revision.id, self._session.author)
        return kept.shown()

    def compact(
        self,
        commits: str | None = None,
        *,
        max_depth: int | None = None,
        max_cost: float | None = None,
        max_seconds: float | None = None,
        budget: str | None = None,
        for_archive: bool = False,
        dry_run: bool = False,
        share: float | None = None,
        beside: int | None = None,
    ) -> "CompactReport":
        """Store commits again under limits of what restoring them reads; no id changes.

        What is encoded again is decoded and compared before any commit is read from it. Others may commit
        meanwhile. Old packs stay until `gc` finds that nothing needs them. After an error or a kill the next
        call finds the commits done that were verified, and continues behind them.

        Args:
            commits: a revision, which means it and all behind it, or "A..B"; by default all commits.
            max_depth: deltas between a chunk and its snapshot; by default `compaction.max_depth`, and 1000
                for an archive.
            max_cost: how many times the cost of a snapshot a restore may cost; by default `restore.max_cost`.
            max_seconds: seconds that restoring a GB of values is estimated to take; by default
                `compaction.max_restore_seconds`, and any for an archive.
            budget: a limit in a text, such as "4x" or "2s", or both with a comma.
            for_archive: as few bytes as possible: the newest commit is alone, and older ones are near it.
            dry_run: keep nothing of it, and tell what it takes.
            share: rest in between, so that this process takes this share of one processor, such as 0.01;
                None to do it at once.
            beside: the number of a process with whose end this one ends too, where it rests.

        Raises:
            NotFoundError: `commits` names none, or something that commits need is gone.
            UsageError: limits are none, or were given twice.
            CorruptionError: something that they need is damaged; commits that were done before stay so.
            ConflictError: another compaction of this clone is at work, or the process `beside` has ended.
            StorageError: the store cannot be written, or what is stored again in between could take the room
                of commits under `store.max_bytes`; of the commit at work nothing is left.
        """
        from mvcs.processes import Process
        from mvcs.repository.keeping.beside_others import BesideOthers, Pace
        from mvcs.repository.keeping.compacting import Compaction
        from mvcs.repository.restore_budget import RestoreBudget

        limits = RestoreBudget(max_depth, max_cost, max_seconds)
        if budget is not None:
            limits = limits.joined(RestoreBudget.parse(budget))
        asked = Compaction.asked(self._session, commits, limits, for_archive=for_archive)
        if dry_run or share is None:
            return asked.rehearse() if dry_run else asked.run()
        pace = Pace(share, None if beside is None else Process.numbered(beside))
        others = BesideOthers(self._session, pace)
        return others.run(replace(asked, beside=others).run)

    def gc(
        self,
        *,
        grace_days: float = GRACE_DAYS,
        wait_days: float | None = None,
        execute: bool = False,
        remote: str | None = None,
    ) -> "GcReport":
        """Find packs that no commit needs; when told to, condemn them, and delete what has waited.

        Args:
            grace_days: how old a pack has to be by the store's clock.
            wait_days: how long it is condemned before it is deleted; by default a day, or the grace where
                that is shorter. With 0 it is deleted at once.
            execute: do it; otherwise nothing is changed.
            remote: the store of a remote, instead of this one.

        Raises:
            UsageError: the grace or the wait is no length of time.
            StorageError: the store does not tell when its files were written.
            CorruptionError: a history is damaged, so that nobody can tell what it needs.
            NotFoundError: there is no such remote.
        """
        from mvcs.repository.keeping.retained import Retained
        from mvcs.repository.keeping.retention_run import take_back_drops
        from mvcs.upkeep import collect_garbage, remembered_history, remove_leftovers

        place = self._session.place if remote is None else store_of(self._session, remote)
        wait = min(grace_days, WAIT_DAYS) if wait_days is None else wait_days
        if place.local is not None and self._session.branch is None:
            self._session.head()  # says how to go on from a commit that is gone
        kept = take_back_drops(Retained.of(self._session, remote)) if execute else []
        with remembered_history(self._session.place.local, place.description.store_id) as known:
            report = collect_garbage(
                place,
                grace_days * DAY_SECONDS,
                execute=execute,
                wait=wait * DAY_SECONDS,
                author=self._session.author,
                known=known,
            )
        if execute:
            remove_leftovers(self._session.place)
        return replace(report, remote=remote, notes=[*kept, *report.notes])

    def stats(self, *, price: float | None = None, plan: bool = False) -> "StoreStats":
        """Tell where the bytes of the store are, what restores cost, and what could be freed.

        Args:
            price: of a GB (10^9 bytes) for a month.
            plan: also try what retention and compaction would give back; that reads and encodes what they
                would, and takes as long.

        Raises:
            UsageError: the price is no amount.
            CorruptionError: a history is damaged.
        """
        from mvcs.repository.restore_budget import remembered_rates
        from mvcs.upkeep import store_stats

        rates = remembered_rates(self._session.place)
        found = store_stats(self._session.place, self._session.progress, price, rates)
        if not plan:
            return found
        from mvcs.repository.keeping.compacting import with_trial_runs

        return with_trial_runs(found, self._session)

    def why(self, name: str) -> "Why":
        """Say what keeps something in the store, or that nothing does, or what gave it up.

        Args:
            name: a revision, an object's id or a prefix of it, a pack's name, or the path of a pack or of a
                manifest, as `fsck` prints it.

        Raises:
            NotFoundError: nothing of that name is there, or was.
            UsageError: it names several things.
        """
        from mvcs.objects import is_prefix
        from mvcs.store import pack_name, parse_path
        from mvcs.upkeep import explain

        record = parse_path(name)
        name = pack_name(name) or (name if record is None else record[0].hex())
        try:
            revision = self._session.resolver.resolve(name)
        except (CorruptionError, NotFoundError):
            if not is_prefix(name):
                raise
            revision = None
        return explain(self._session.place, name, revision)

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

    def repair(
        self, *, source: str | None = None, execute: bool = True, give_up: bool = False
    ) -> RepairReport:
        """Make good what checks found damaged, or what a check finds now where none found anything.

        What a remote has is copied from there, and compared with the hash that names it before it takes the
        place of anything. What lay there is kept below `.mvcs/damaged`.

        Args:
            source: the remote to copy from; by default all of them, those that cannot be reached left out.
            execute: mend; otherwise nothing is changed, and the report says what would become of it.
            give_up: record of commits of which something stays lost that their data, or their exact layers,
                are given up. Their history stays, and `gc`, `compact`, `push` and `clone` go on without them.
                A later repair brings data back where a remote has them again, exact layers not. Of commits
                that branches or HEAD stand on nothing is given up.

        Raises:
            ConflictError: the remote holds another project.
            NotFoundError: there is no such remote.
            UsageError: this is a bare store; or a remote is named, and data are to be given up.
            StorageError: data are to be given up, and a remote cannot be asked for them.
        """
        from mvcs.upkeep import Repair

        session, clone = self._session, self._clone()
        if clone is None:
            raise UsageError(
                "a bare store has no place to keep what is damaged",
                hint="'mvcs push --verify' from a clone sends again what is damaged here",
            )
        if give_up and source is not None:
            raise UsageError("what another remote has is not lost", hint="give up without naming a remote")
        notes: list[str] = []
        sources = [self._source(source)] if source is not None else list(self._sources(notes))
        if give_up and notes:
            raise StorageError(
                f"{notes[0]}: it may have what is lost here, so nothing is given up",
                hint="try again when it can be reached; 'mvcs remote rm' forgets one that is gone for good",
            )
        allow = partial(session.allowance.check_pack, folder=clone.local)
        asked = source is None and not notes
        repair = Repair(
            session.place, clone, sources, session.author, session.progress, allow, asked, give_up, notes
        )
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
        from mvcs.local import packs_at_work
        from mvcs.upkeep import CheckedClone

        session, local = self._session, self._session.place.local
        if local is None or session.seen is None:
            return None
        unpublished = partial(packs_at_work, local, killed=True) if session.has_head else None
        return CheckedClone(local, session.seen, session.watch, session.check_head, unpublished)
