"""A compaction of an open repository: which commits, under which limits, and what stays of it."""

import errno
import hashlib
import json
import pathlib
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from mvcs.compaction import Anew, StoredAnew, StoringAnew, chosen_of, never_rest
from mvcs.delta import CodeCoder
from mvcs.errors import MvcsError, StorageError
from mvcs.history import Revision
from mvcs.local import CompactionSteps, Journal, LocalRecords, forget_background
from mvcs.local_files import scratch_folder
from mvcs.objects import ObjectId
from mvcs.reports import CompactReport, StoreStats, as_size
from mvcs.repository.keeping.beside_others import BesideOthers
from mvcs.repository.keeping.journaled_work import (
    is_sole_writer,
    pack_bytes,
    remove_unfinished,
    run_journaled,
    stages,
)
from mvcs.repository.keeping.letting_go import LettingGo
from mvcs.repository.keeping.retained import Retained, those_with_data
from mvcs.repository.quota import NoRoomError
from mvcs.repository.restore_budget import RestoreBudget
from mvcs.repository.session import Session
from mvcs.retention import DataDrops
from mvcs.store import LocalBackend, ObjectStore, Overlay, RestoreLimits
from mvcs.upkeep import remove_leftovers

EXACT_LAYERS = "exact layers were left alone: they are near nothing but the values of their own commits"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True)
class Compaction:
    """What is asked for.

    Attributes:
        session: the repository.
        limits: how long chains may be.
        hangs: whether older commits are stored near later ones.
        chosen: the commits that are to be stored so; None for all.
        beside: what it rests by, and is told how far it is; None to do it at once.
    """

    session: Session
    limits: RestoreLimits
    hangs: bool
    chosen: Collection[ObjectId] | None
    beside: BesideOthers | None = None

    @classmethod
    def asked(
        cls,
        session: Session,
        words: str | None,
        budget: RestoreBudget,
        *,
        for_archive: bool,
    ) -> "Compaction":
        """Check what is asked for.

        Raises:
            UsageError: limits go with nothing.
            NotFoundError: the range names no commit.
        """
        limits = budget.limits(session.place.config, session.rates, for_archive=for_archive)
        chosen = None if words is None else _commits_in(session, words)
        return cls(session, limits, for_archive, chosen)

    def run(self) -> CompactReport:
        """Store anew what has to be, and move the refs; go on where one like it was broken off."""
        session, place = self.session, self.session.place
        remove_leftovers(place)
        before = pack_bytes(place.backend)
        with CompactionSteps.opened(place.local, self._terms) as steps:
            remove_unfinished(place, steps.abandoned)
            try:
                with scratch_folder(place.local) as folder:
                    found = self._run_journaled(folder, steps)
            except StorageError as error:
                if _is_full(error):
                    remove_unfinished(place, steps.packs)
                    steps.forget()
                raise
            remove_unfinished(place, (name for name in steps.packs if name not in set(found.packs)))
            steps.forget()
            forget_background(LocalRecords(place.local))
        session.graph.replace(found.revisions)
        return self._summary(found, before, executed=True)

    def _run_journaled(self, folder: pathlib.Path, steps: CompactionSteps) -> StoredAnew:
        begin = None if self.beside is None else self.beside.begin_moving
        return run_journaled(self.session.place, partial(self._journaled, folder, steps), begin)

    def _journaled(
        self, folder: pathlib.Path, steps: CompactionSteps, journal: Journal, lost: frozenset[str]
    ) -> StoringAnew:
        work = self._work(self.session.store.apart(), folder, lost)
        return replace(work, announce=partial(self._announce, journal), steps=steps)

    def _announce(self, journal: Journal, path: str) -> None:
        if self.beside is not None:
            self.beside.check_room()
        journal.pack(path)

    @property
    def _terms(self) -> str:
        """What steps have to have in common with those that are gone on with, beside the commits chosen."""
        dropped = sorted(one.hex() for one in _dropped(self.session))
        limits = self.limits
        asked = [self.hangs, limits.max_depth, limits.max_cost, limits.max_seconds, self._coder, dropped]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()

    def rehearse(self) -> CompactReport:
        """Do all of it in a folder of its own, and keep nothing."""
        with scratch_folder(self.session.place.local) as top:
            backend = Overlay(self.session.place.backend, LocalBackend(top / "kept"))
            work = self._work(ObjectStore(backend, self.session.place.memory), top / "read")
            # So that each rehearsal gives one answer: bases go by the names of packs.
            salts = random.Random(0).randbytes  # noqa: S311
            work = replace(work, anew=replace(work.anew, salts=salts))
            before = pack_bytes(self.session.place.backend)
            return self._summary(work.run(lambda: None, publish=False), before, executed=False)

    def _work(
        self, store: ObjectStore, folder: pathlib.Path, lost: frozenset[str] = frozenset()
    ) -> StoringAnew:
        session = self.session
        waste = session.place.config.number("compaction.max_waste") if self.chosen is None else 1.0
        anew = Anew(
            self.limits, chosen_of(self.chosen), _dropped(session), self._coder, lost=lost, max_waste=waste
        )
        return StoringAnew(
            store,
            session.refs,
            anew,
            session.author,
            session.progress if self.beside is None else self.beside,
            hangs=self.hangs,
            scratch=LocalBackend(folder),
            rest=never_rest if self.beside is None else self.beside.rest,
        )

    @property
    def _coder(self) -> CodeCoder:
        return cast("CodeCoder", self.session.place.config.get("delta.coder"))

    def _summary(self, found: StoredAnew, before: tuple[int, int], *, executed: bool) -> CompactReport:
        return CompactReport(
            executed,
            found.commits,
            found.commits if self.chosen is None else len(self.chosen),
            found.ended,
            found.encoded,
            len(found.packs),
            found.bytes,
            found.before,
            found.after,
            list(found.moved),
            [*_left(found), *([EXACT_LAYERS] if found.has_exact_layers else []), *self._full(executed)],
            stages(before, found),
            is_sole_writer(self.session),
        )

    def _full(self, executed: bool) -> list[str]:  # noqa: FBT001 - as in the report
        told = self.session.quota.told if executed else None
        return [] if told is None else [told]


def _left(found: StoredAnew) -> list[str]:
    if not found.left:
        return []
    unused, taken = sum(it.unused for it in found.left), sum(it.bytes for it in found.left)
    packs = "a pack" if len(found.left) == 1 else f"{len(found.left)} packs"
    gone = f"of commits that nothing leads to any more, {as_size(taken)}, of which {as_size(unused)} unused"
    return [f"commits no longer depend on {packs} {gone}"]


def _dropped(session: Session) -> frozenset[ObjectId]:
    """Return the commits whose data were dropped: only the history is there, and nothing may lean on them.

    Where the data are there all the same, retention was stopped, and what it keeps is not decided here.
    """
    dropped = frozenset(DataDrops.of(session.place.backend).found)
    return dropped - those_with_data(session.store, session.refs, dropped)


def _is_full(error: StorageError) -> bool:
    """Tell whether there is no room, on the disk or under a quota: what is unfinished goes."""
    cause = error.__cause__
    return isinstance(error, NoRoomError) or (isinstance(cause, OSError) and cause.errno in _FULL)


def _commits_in(session: Session, words: str) -> frozenset[ObjectId]:
    """Return the commits of `REV`, with all behind it, or of `A..B`: behind B, and not behind A."""
    start, dots, end = words.partition("..")
    last = (end or "HEAD") if dots else words
    excluded = frozenset(one.id for one in _behind(session, start)) if dots and start else frozenset()
    return frozenset(one.id for one in _behind(session, last)) - excluded


def _behind(session: Session, rev: str) -> list[Revision]:
    return list(session.graph.walk([session.resolver.resolve(rev)]))


def with_trial_runs(found: StoreStats, session: Session) -> StoreStats:
    """Return figures of a store with what retention and compaction would give back.

    Each is as if it were the only one, under today's rules and limits. What cannot be tried is noted.
    """
    notes = list[str]()

    def tried(what: str, trial: Callable[[], int]) -> int | None:
        try:
            return trial()
        except MvcsError as error:
            notes.append(f"what {what} would give back is not known: {error.message}")
            return None

    def retention() -> int:
        return LettingGo.begin(Retained.of(session, None), force=False).rehearse().bytes

    def compact() -> int:
        done = Compaction.asked(session, None, RestoreBudget(), for_archive=False).rehearse()
        return done.before - done.after

    freeable = replace(
        found.freeable,
        retention=tried("'mvcs retention apply'", retention),
        compact=tried("'mvcs compact'", compact),
    )
    return replace(found, freeable=freeable, notes=[*found.notes, *notes])
