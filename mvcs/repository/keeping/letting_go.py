"""Retention applied: commits that stay are stored without what goes, drops are recorded, and refs move."""

import pathlib
import random
import secrets
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import cast

from mvcs.compaction import Anew, StoredAnew, StoringAnew, chosen_of
from mvcs.delta import CodeCoder
from mvcs.errors import ConflictError
from mvcs.history import Revision
from mvcs.local import Journal
from mvcs.objects import ObjectId
from mvcs.refs import now_microseconds
from mvcs.reports import PlannedCommit, RetentionApplied
from mvcs.repository.keeping.journaled_work import run_journaled
from mvcs.repository.keeping.retained import Retained, planned
from mvcs.repository.restore_budget import configured_limits
from mvcs.retention import (
    DataDrop,
    DataDrops,
    Layer,
    Plan,
    Ruling,
    drop_layers,
    layer_bytes,
    record_drops,
)
from mvcs.store import LocalBackend, ObjectStore, Overlay

NOTHING = StoredAnew()
_STAYED = "rules or pins changed meanwhile, so every exact layer stayed: run it again"


@dataclass
class LettingGo:
    """One application of the rules of a store.

    Attributes:
        kept: the store.
        plan: what becomes of each commit.
    """

    kept: Retained
    plan: Plan

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
        return cls(kept, plan)

    @property
    def _unkept(self) -> list[Revision]:
        return self.plan.going(Layer.DATA)

    @property
    def _without(self) -> frozenset[ObjectId]:
        """Return the commits on whose data nothing may lean: those that went before are among them."""
        before = self.plan.dropped.found.keys() & self.plan.surveyed.revisions.keys()
        return frozenset(before).union(revision.id for revision in self._unkept)

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
        found = self._stored_anew() if self._without else NOTHING
        layers: int | None = layer_bytes(backend, self._layers)
        if not drop_layers(backend, self._layers, self.plan.ruling):
            layers = None
        if self.kept.remote is None:
            session.graph.replace(found.revisions)
            session.forget_dropped()
        return self._report(found, layers, executed=True)

    def rehearse(self) -> RetentionApplied:
        """Do all of it in a folder of its own, and keep nothing."""
        found = NOTHING
        if self._without:
            with tempfile.TemporaryDirectory(prefix="mvcs-retention-") as folder:
                backend = Overlay(self.kept.store.backend, LocalBackend(pathlib.Path(folder)))
                salts = random.Random(0).randbytes  # noqa: S311 - so that each rehearsal gives one answer
                work = self._work(ObjectStore(backend, self.kept.store.memory), None, salts)
                found = work.run(lambda: None, publish=False)
        return self._report(found, layer_bytes(self.kept.store.backend, self._layers), executed=False)

    def _stored_anew(self) -> StoredAnew:
        return run_journaled(self.kept.session.place, self._journaled, self._record)

    def _journaled(self, journal: Journal, lost: frozenset[str]) -> StoringAnew:
        return self._work(self.kept.store.apart(), journal, lost=lost)

    def _record(self) -> None:
        """Record what goes, before the first ref moves to what is left of it."""
        backend, ruling = self.kept.store.backend, self.plan.ruling
        if Ruling.of(backend) != ruling:
            raise ConflictError(
                "rules or pins changed while commits were stored anew; nothing was dropped",
                hint="run it again: it goes by what is in force now",
            )
        time = now_microseconds()
        drops = (DataDrop(revision.id, time, ruling.number) for revision in self._unkept)
        record_drops(backend, drops, self.kept.session.author)

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
        announce = None if journal is None else journal.pack
        if journal is not None and remote is not None:
            announce = partial(_note_copy, journal, remote)
        anew = Anew(limits, chosen_of(frozenset()), self._without, coder, salts=salts, lost=lost)
        return StoringAnew(store, self.kept.refs, anew, session.author, session.progress, announce=announce)

    def _report(self, found: StoredAnew, layers: int | None, *, executed: bool) -> RetentionApplied:
        """Say what went; None for layers that stayed, since rules or pins changed meanwhile."""
        commits = list(planned(self.plan))
        dropped = [commit for commit in commits if not commit.keeps]
        if layers is None:
            dropped = [commit for commit in dropped if commit.layer != Layer.EXACT.text]
        return RetentionApplied(
            executed,
            self.kept.remote,
            dropped,
            [commit for commit in commits if commit.keeps],
            max(0, found.before - found.after) + (layers or 0),
            found.bytes,
            [
                *self.plan.unmatched(),
                *self.plan.missing(),
                *self._lost_to_others(dropped),
                *([_STAYED] if layers is None else []),
            ],
        )

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


def _note_copy(journal: Journal, remote: str, path: str) -> None:
    journal.copies(remote, [path])
