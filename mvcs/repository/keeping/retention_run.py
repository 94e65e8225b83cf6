"""Retention applied: commits that stay are stored without what goes, then the drops are written.

It also makes room where a store has a quota.
"""

import random
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

from mvcs.compaction import Repack, Repacked, Terms, chosen_of
from mvcs.config import DAY_SECONDS, GRACE_DAYS, WAIT_DAYS
from mvcs.delta import CodeCoder
from mvcs.errors import ConflictError, CorruptionError, MvcsError
from mvcs.history import Revision
from mvcs.local_files import scratch_folder
from mvcs.objects import ObjectId, short_id
from mvcs.refs import now_microseconds
from mvcs.reports import PlannedCommit, RetentionApplied
from mvcs.repository.keeping.journaled_work import (
    JournaledPacks,
    frees,
    is_sole_writer,
    pack_bytes,
    stages,
    without_lost,
)
from mvcs.repository.keeping.retained import KEPT_NOW, Retained, data_there, planned
from mvcs.repository.restore_budget import configured_limits
from mvcs.repository.session import Session
from mvcs.retention import (
    Layer,
    Plan,
    Ruling,
    commit_names,
    drop_layers,
    dropped_before,
    layer_bytes,
    try_drop_old_layers,
)
from mvcs.store import DROPPED_DATA, DataDrop, LocalBackend, ObjectStore, Overlay, Placement, has_upgrade
from mvcs.upkeep import collect_garbage, remove_leftovers

NOTHING = Repacked()
_GAINS_NOTHING = (
    "nothing is changed: without these data the other commits take as much room; --force drops them anyway"
)
_STAYED = "rules or pins changed meanwhile, so every exact layer stayed: run it again"


@dataclass
class RetentionRun:
    """One application of the rules of a store.

    Attributes:
        kept: the store.
        plan: what becomes of each commit.
        there: where the data lie of commits whose drops are taken back: something keeps them by now.
        force: drop data also where that frees nothing.
    """

    kept: Retained
    plan: Plan
    there: Mapping[ObjectId, Placement] = field(default_factory=dict)
    force: bool = False

    @classmethod
    def begin(cls, kept: Retained, *, force: bool) -> "RetentionRun":
        """Judge all commits.

        Raises:
            ConflictError: the rules keep nothing beyond what stays anyway, and `force` is false.
            MvcsError: something cannot be read, or a rule cannot be applied: then nothing goes.
        """
        plan = kept.plan(Ruling.of(kept.store.backend))
        if not force:
            plan.refuse_everything()
        return cls(kept, plan, data_there(kept.store, plan.dropped_and_kept()), force)

    @cached_property
    def _dropping(self) -> list[Revision]:
        """The commits whose data go."""
        return self.plan.going(Layer.DATA)

    @property
    def _layers(self) -> list[Revision]:
        """Return the commits whose exact layers go: their own values may be what they are stored near.

        So it is with commits whose data went before, where the layers outlived a process that was stopped.
        """
        plan = self.plan
        bare = plan.dropped.keys() - self.there.keys() - plan.ruling.pins.keys()
        without = (plan.surveyed.revisions[key] for key in bare)
        return list({one.id: one for one in (*plan.going(Layer.EXACT), *self._dropping, *without)}.values())

    def execute(self) -> RetentionApplied:
        """Drop what the rules do not keep.

        Raises:
            ConflictError: rules or pins changed meanwhile; nothing went.
            StorageError: the store could not be written.
        """
        backend = self.kept.store.backend
        before, found, executed = pack_bytes(backend), NOTHING, True
        if self._has_to_repack:
            found, executed = without_lost(self._attempt)
        if not executed:
            return self._report(found, 0, before, executed=False)
        layers: int | None = layer_bytes(backend, self._layers)
        if not drop_layers(backend, self._layers, self.plan.ruling, self._layers_kept_now):
            layers = None
        return self._report(found, layers, before, executed=True)

    @property
    def _has_to_repack(self) -> bool:
        return bool(self.plan.dropped or self.there or self._dropping)

    def _attempt(self, lost: frozenset[str]) -> tuple[Repacked, bool]:
        """Store again what has to be; tell whether that was worth it, and published."""
        kept, author = self.kept, self.kept.session.author
        store, place = kept.store.apart(), kept.session.place if kept.remote is None else None
        with closing(JournaledPacks(place, kept.refs, store.manifests, author)) as packs:
            found = self._rewrite(store, packs.announce, lost=lost).run()
            if not self._is_worth(found, layer_bytes(store.backend, self._layers)):
                return found, False
            self._refuse_kept_meanwhile()
            if found.moves:
                # What commits need that stay is written before what they needed is dropped.
                packs.publish(sorted(found.moves, key=lambda move: move.now.dropped is not None))
            return found, True

    def _is_worth(self, found: Repacked, layers: int) -> bool:
        return bool(not self._dropping or self.force or self.there or frees(found) or layers)

    def _layers_kept_now(self) -> set[ObjectId]:
        """Return the commits that keep their exact layers by the branches, tags and HEAD of now."""
        plan = self.kept.plan(self.plan.ruling)
        going = {it.id for layer in (Layer.EXACT, Layer.DATA) for it in plan.going(layer)}
        stay = [it.id for it in self._layers if it.id not in going]
        return {key for key in stay if plan.keeps_data(key)}

    def rehearse(self) -> RetentionApplied:
        """Do all of it in a folder of its own, and keep nothing."""
        found, real = NOTHING, self.kept.store.backend
        if self._has_to_repack:
            with scratch_folder(self.kept.session.place.local) as folder:
                store = ObjectStore(Overlay(real, LocalBackend(folder)), self.kept.store.memory)
                salts = random.Random(0).randbytes  # noqa: S311 - so that each rehearsal gives one answer
                found = self._rewrite(store, None, salts).run()
        return self._report(found, layer_bytes(real, self._layers), pack_bytes(real), executed=False)

    def _refuse_kept_meanwhile(self) -> None:
        """Look at rules, pins, branches, tags and HEADs again: what was about to go may be kept by now."""
        if Ruling.of(self.kept.store.backend) != self.plan.ruling:
            raise ConflictError(
                "rules or pins changed while commits were rewritten; nothing was dropped",
                hint="run it again: it goes by what is in force now",
            )
        going = {revision.id for revision in self.kept.plan(self.plan.ruling).going(Layer.DATA)}
        kept = [short_id(revision.id) for revision in self._dropping if revision.id not in going]
        if kept:
            raise ConflictError(
                f"something keeps commit {kept[0]} since commits are being rewritten; nothing was dropped",
                hint="run it again: it goes by the branches, tags and HEAD of now",
            )

    def _rewrite(
        self,
        store: ObjectStore,
        announce: Callable[[str], None] | None,
        salts: Callable[[int], bytes] = secrets.token_bytes,
        *,
        lost: frozenset[str] = frozenset(),
    ) -> Repack:
        kept, session = self.kept, self.kept.session
        drop = DataDrop(now_microseconds(), self.plan.ruling.number)
        terms = Terms(
            configured_limits(session.place.config, lambda: None),
            chosen_of(frozenset()),  # no commit has to become quicker
            drops={revision.id: drop for revision in self._dropping},
            back={key: where for key, where in self.there.items() if lost.isdisjoint(where.packs)},
            coder=cast("CodeCoder", session.place.config.get("delta.coder")),
            lost=lost,
            salts=salts,
        )
        return Repack(store, kept.source, terms, session.progress, announce=announce)

    def _report(
        self, found: Repacked, layers: int | None, before: tuple[int, int], *, executed: bool
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
                *([_GAINS_NOTHING] if layers is not None and not self._is_worth(found, layers) else []),
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
        return dropped_before(list(self.there), names, KEPT_NOW)

    def _lost_to_others(self, dropped: Collection[PlannedCommit]) -> Iterator[str]:
        """Say whose commits lose their data, and which of these are in no other store that is known here."""
        session = self.kept.session
        data = {commit.commit: commit.author for commit in dropped if commit.layer == Layer.DATA.text}
        authors = Counter(author for author in data.values() if author != session.author)
        for author, count in authors.most_common():
            yield f"{author} made {count} of the commits whose data go"
        if self.kept.remote is not None and data:
            names = [ObjectId(bytes.fromhex(name)) for name in data]
            stored = [name for name in names if session.graph.stored(name) is not None]
            here = len(stored) - len(session.store.manifests.dropped(stored))
            yield (
                f"whoever fetches from '{self.kept.remote}' gets {len(data)} commits without their data; "
                f"this clone has {here} of them whole"
            )


@dataclass
class MadeRoom:
    """Makes room for what is to be written; what cannot be done is a warning, and hinders nothing.

    What killed commands of this clone left goes at once, and so do exact layers that no rule keeps. Of the
    rest others may know: it is condemned first, and goes a day later at the earliest, as with `gc`.

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
        """Delete what may go until it fits, the cheapest first."""
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

    def _exact_layers(self) -> None:
        session = self.session
        kept = session.place.config.integer("retention.exact_layers")
        problem = try_drop_old_layers(session.retention_source, kept)
        if problem is not None:
            raise problem

    def _apply_rules(self) -> None:
        """Drop what no rule keeps. What stays is stored again for that, which takes room for a while."""
        own = Retained.of(self.session, None)
        if Ruling.of(own.store.backend).of_layer(Layer.DATA):
            done = RetentionRun.begin(own, force=False).execute()
            self._collect()
            if done.executed:  # a collector may count them as needed a while longer
                self.waiting = max(self.waiting, done.bytes - done.layer_bytes)

    def _collect(self) -> None:
        """Delete what has waited, and condemn what is old enough."""
        session, wait = self.session, WAIT_DAYS * DAY_SECONDS
        take_back_drops(Retained.of(session, None))
        grace = GRACE_DAYS * DAY_SECONDS
        report = collect_garbage(session.place, grace, wait=wait, execute=True, author=session.author)
        self.waiting = sum(item.bytes for item in (*report.condemned, *report.waiting))


def take_back_drops(kept: Retained) -> list[str]:
    """Take drops back of commits that something keeps by now and whose data are there, before these go.

    Return what to say of it.

    Raises:
        MvcsError: something cannot be read, or a rule cannot be applied, so that nobody can tell.
    """
    backend = kept.store.backend
    if not has_upgrade(backend, DROPPED_DATA):
        return []

    def attempt(lost: frozenset[str]) -> list[str]:
        plan = kept.plan(Ruling.of(backend))
        there = data_there(kept.store, plan.dropped_and_kept(), lost)
        if not there:
            return []
        kept.take_back(there)
        return dropped_before(list(there), commit_names(plan.surveyed), KEPT_NOW)

    return without_lost(attempt)
