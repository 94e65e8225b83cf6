"""Retention applied: commits that stay are stored without what goes, drops are recorded, and refs move.

It also makes room where a store has a quota.
"""

import random
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

from mvcs.compaction import Anew, NothingGainedError, StoredAnew, StoringAnew, chosen_of
from mvcs.config import DAY_SECONDS, GRACE_DAYS, WAIT_DAYS
from mvcs.delta import CodeCoder
from mvcs.errors import ConflictError, CorruptionError, MvcsError
from mvcs.history import Revision
from mvcs.local import Journal
from mvcs.local_files import scratch_folder
from mvcs.objects import ObjectId, short_id
from mvcs.refs import now_microseconds
from mvcs.reports import PlannedCommit, RetentionApplied
from mvcs.repository.keeping.journaled_work import (
    frees,
    give_up_broken_off,
    is_sole_writer,
    pack_bytes,
    run_journaled,
    stages,
)
from mvcs.repository.keeping.retained import Retained, planned, with_data
from mvcs.repository.restore_budget import configured_limits
from mvcs.repository.session import Session
from mvcs.retention import (
    DataDrop,
    DataDrops,
    Layer,
    Plan,
    Ruling,
    commit_names,
    drop_layers,
    dropped_before,
    layer_bytes,
    record_drops,
    record_there,
    try_drop_old_layers,
)
from mvcs.store import VALUE_FOLDER, LocalBackend, ObjectStore, Overlay, pack_path
from mvcs.upkeep import collect_garbage, remove_leftovers

NOTHING = StoredAnew()
_GAINS_NOTHING = (
    "nothing is changed: without these data the other commits take as much room; --force drops them anyway"
)
_STAYED = "rules or pins changed meanwhile, so every exact layer stayed: run it again"


@dataclass
class LettingGo:
    """One application of the rules of a store.

    Attributes:
        kept: the store.
        plan: what becomes of each commit.
        there: commits that count as dropped, have all of their data and keep them, as packs end them that do.
        force: drop data also where that frees nothing.
    """

    kept: Retained
    plan: Plan
    there: Mapping[ObjectId, Revision] = field(default_factory=dict)
    force: bool = False

    @classmethod
    def begin(cls, kept: Retained, *, force: bool) -> "LettingGo":
        """Judge all commits.

        Raises:
            ConflictError: the rules keep nothing beyond what stays anyway, and `force` is false.
            MvcsError: something cannot be read, or a rule cannot be applied: then nothing goes.
        """
        plan = kept.plan(Ruling.of(kept.store.backend))
        for error in plan.dropped.damaged:
            raise error
        if not force:
            plan.refuse_everything()
        return cls(kept, plan, with_data(kept.store, plan.dropped_and_kept()), force)

    @property
    def _unkept(self) -> list[Revision]:
        return self.plan.going(Layer.DATA)

    @property
    def _without(self) -> frozenset[ObjectId]:
        """Return the commits on whose data nothing may lean: those that went before are among them."""
        before = self.plan.dropped.found.keys() & self.plan.surveyed.revisions.keys()
        return frozenset(before).difference(self.there).union(revision.id for revision in self._unkept)

    @property
    def _layers(self) -> list[Revision]:
        """Return the commits whose exact layers go: their own values may be what they are stored near.

        So it is with commits whose data went before, where the layers outlived a process that was stopped.
        """
        plan = self.plan
        bare = self._without - plan.ruling.pins.keys()
        without = (one for key, one in plan.surveyed.revisions.items() if key in bare)
        return list({one.id: one for one in (*plan.going(Layer.EXACT), *without)}.values())

    def execute(self) -> RetentionApplied:
        """Let go what the rules do not keep.

        Raises:
            ConflictError: rules or pins changed meanwhile; nothing went.
            StorageError: the store could not be written.
        """
        session, backend = self.kept.session, self.kept.store.backend
        before, known = pack_bytes(backend), backend.sizes(VALUE_FOLDER)
        try:
            found = NOTHING
            if self._without or self.there:
                found = run_journaled(session.place, self._journaled, self._record)
        except NothingGainedError as nothing:
            for path in map(pack_path, nothing.found.packs):
                if path not in known and is_sole_writer(session):  # others may have written the same
                    backend.delete(path)
            return self._report(nothing.found, 0, before, executed=False)
        record_there(backend, self.there)
        layers: int | None = layer_bytes(backend, self._layers)
        if not drop_layers(backend, self._layers, self.plan.ruling, self._layers_kept_now):
            layers = None
        if self.kept.remote is None:
            session.graph.replace(found.revisions)
            session.forget_dropped()
        return self._report(found, layers, before, executed=True)

    def _layers_kept_now(self) -> set[ObjectId]:
        """Return the commits that keep their exact layers by the branches, tags and HEAD of now."""
        plan = self.kept.plan(self.plan.ruling)
        going = {it.id for layer in (Layer.EXACT, Layer.DATA) for it in plan.going(layer)}
        stay = [it.id for it in self._layers if it.id not in going]
        return {key for key in stay if plan.keeps_data(key)}

    def rehearse(self) -> RetentionApplied:
        """Do all of it in a folder of its own, and keep nothing."""
        found = NOTHING
        if self._without or self.there:
            with scratch_folder(self.kept.session.place.local) as folder:
                backend = Overlay(self.kept.store.backend, LocalBackend(folder))
                salts = random.Random(0).randbytes  # noqa: S311 - so that each rehearsal gives one answer
                work = self._work(ObjectStore(backend, self.kept.store.memory), None, salts)
                found = work.run(lambda: None, publish=False)
        real = self.kept.store.backend
        return self._report(found, layer_bytes(real, self._layers), pack_bytes(real), executed=False)

    def _journaled(self, journal: Journal, lost: frozenset[str]) -> StoringAnew:
        return self._work(self.kept.store.apart(), journal, lost=lost)

    def _record(self) -> None:
        """Record what goes, before the first ref moves to what is left of it."""
        backend, ruling = self.kept.store.backend, self.plan.ruling
        if Ruling.of(backend) != ruling:
            raise ConflictError(
                "rules or pins changed while commits were rewritten; nothing was dropped",
                hint="run it again: it goes by what is in force now",
            )
        self._refuse_kept_meanwhile()
        time = now_microseconds()
        drops = (DataDrop(revision.id, time, ruling.number) for revision in self._unkept)
        record_drops(backend, drops, self.kept.session.author)

    def _refuse_kept_meanwhile(self) -> None:
        """Look at branches, tags and HEADs again, which may have come to keep what was about to go."""
        going = {revision.id for revision in self.kept.plan(self.plan.ruling).going(Layer.DATA)}
        kept = [short_id(revision.id) for revision in self._unkept if revision.id not in going]
        if kept:
            raise ConflictError(
                f"something keeps commit {kept[0]} since commits are being rewritten; nothing was dropped",
                hint="run it again: it goes by the branches, tags and HEAD of now",
            )

    def _work(
        self,
        store: ObjectStore,
        journal: Journal | None,
        salts: Callable[[int], bytes] = secrets.token_bytes,
        *,
        lost: frozenset[str] = frozenset(),
    ) -> StoringAnew:
        session, remote = self.kept.session, self.kept.remote
        config = session.place.config
        limits = configured_limits(config, lambda: None)  # no commit has to become quicker
        coder = cast("CodeCoder", config.get("delta.coder"))
        announce = None
        if journal is not None:
            announce = journal.pack if remote is None else lambda path: journal.copies(remote, [path])
        anew = Anew(
            limits, chosen_of(frozenset()), self._without, coder, salts=salts, lost=lost, back=self.there
        )
        worth = None if self.force or self.there or layer_bytes(store.backend, self._layers) else frees
        return StoringAnew(
            store, self.kept.refs, anew, session.author, session.progress, announce=announce, worth=worth
        )

    def _report(
        self, found: StoredAnew, layers: int | None, before: tuple[int, int], *, executed: bool
    ) -> RetentionApplied:
        """Say what went; None for layers that stayed, since rules or pins changed meanwhile."""
        commits = list(planned(self.plan, self.there, self._branch))
        dropped = [commit for commit in commits if not commit.keeps]
        if layers is None:
            dropped = [commit for commit in dropped if commit.layer != Layer.EXACT.text]
        session = self.kept.session
        told = session.quota.told
        return RetentionApplied(
            executed,
            self.kept.remote,
            dropped,
            [commit for commit in commits if commit.keeps],
            max(0, found.before - found.after) + (layers or 0),
            found.bytes,
            [
                *self.plan.unmatched(),
                *self.plan.missing(self.there),
                *self._back(),
                *self._lost_to_others(dropped),
                *([_STAYED] if layers is None else []),
                *(
                    [_GAINS_NOTHING]
                    if self._unkept and not self.force and not frees(found) and not layers
                    else []
                ),
                *([told] if executed and self.kept.remote is None and told is not None else []),
            ],
            layers or 0,
            stages(before, found, layers or 0),
            is_sole_writer(session) and self.kept.remote is None,
        )

    @property
    def _branch(self) -> str | None:
        with suppress(CorruptionError):
            return self.kept.session.branch
        return None

    def _back(self) -> list[str]:
        names = commit_names(self.plan.surveyed)
        return dropped_before(list(self.there), names, ", are still there and are kept now")

    def _lost_to_others(self, dropped: Collection[PlannedCommit]) -> Iterator[str]:
        """Say whose commits lose their data, and which of these are in no other store that is known here."""
        session = self.kept.session
        data = {commit.commit: commit.author for commit in dropped if commit.layer == Layer.DATA.text}
        authors = Counter(author for author in data.values() if author != session.author)
        for author, count in authors.most_common():
            yield f"{author} made {count} of the commits whose data go"
        if self.kept.remote is not None and data:
            gone = DataDrops.of(session.place.backend)
            names = [ObjectId(bytes.fromhex(name)) for name in data]
            here = sum(session.graph.stored(name) is not None and gone.get(name) is None for name in names)
            yield (
                f"whoever fetches from '{self.kept.remote}' gets {len(data)} commits without their data; "
                f"this clone has {here} of them whole"
            )


@dataclass
class MadeRoom:
    """Makes room for what is to be written; what cannot be done is told, and hinders nothing.

    What killed commands and a compaction of this clone left that was broken off goes at once, and so do exact
    layers that no rule keeps. Of the rest others may know: it is condemned first, and goes a day later at the
    earliest, as with `gc`.

    Attributes:
        session: the repository.
        more: bytes that are to fit.
        waiting: bytes of packs that nothing needs any more, and that are not deleted yet.
    """

    session: Session
    more: int
    waiting: int = 0

    @property
    def suffices(self) -> bool:
        """Whether it fits now."""
        self.session.quota.look()
        return not self.session.quota.is_near(self.more)

    def make(self) -> None:
        """Let go what may go until it fits, the cheapest first."""
        for step in (self._leftovers, self._exact_layers, self._collect, self._apply_rules):
            self._attempt(step)
            if self.suffices:
                return

    def _attempt(self, step: Callable[[], None]) -> None:
        try:
            step()
        except MvcsError as error:
            self.session.warn(f"room could not be made: {error.message}")

    def _leftovers(self) -> None:
        remove_leftovers(self.session.place)
        give_up_broken_off(self.session.place)

    def _exact_layers(self) -> None:
        session = self.session
        kept = session.place.config.integer("retention.exact_layers")
        problem = try_drop_old_layers(session.retention_source, kept)
        if problem is not None:
            raise problem

    def _apply_rules(self) -> None:
        """Drop what no rule keeps. What stays is stored anew for that, which takes room for a while."""
        own = Retained.of(self.session, None)
        if Ruling.of(own.store.backend).of_layer(Layer.DATA):
            LettingGo.begin(own, force=False).execute()
            self._collect()

    def _collect(self) -> None:
        """Delete what has waited, and condemn what is old enough."""
        session, wait = self.session, WAIT_DAYS * DAY_SECONDS
        grace = GRACE_DAYS * DAY_SECONDS
        report = collect_garbage(session.place, grace, wait=wait, execute=True, author=session.author)
        self.waiting = sum(item.bytes for item in (*report.condemned, *report.waiting))
