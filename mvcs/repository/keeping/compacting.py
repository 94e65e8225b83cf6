"""A compaction of an open repository: which commits, under which limits, and what stays of it."""

import pathlib
import random
import secrets
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from mvcs.compaction import Repack, Repacked, Terms, chosen_of, never_rest
from mvcs.delta import CodeCoder
from mvcs.errors import MvcsError
from mvcs.history import Revision
from mvcs.local import LocalRecords, compaction_lock, forget_background
from mvcs.local_files import scratch_folder
from mvcs.objects import ObjectId
from mvcs.refs import Moved
from mvcs.reports import CompactReport, StoreStats, as_size
from mvcs.repository.keeping.beside_others import BesideOthers
from mvcs.repository.keeping.journaled_work import (
    JournaledPacks,
    is_sole_writer,
    pack_bytes,
    stages,
    without_lost,
)
from mvcs.repository.keeping.retained import Retained
from mvcs.repository.keeping.retention_run import RetentionRun
from mvcs.repository.restore_budget import RestoreBudget
from mvcs.repository.session import Session
from mvcs.store import LocalBackend, ObjectStore, Overlay, Placement, RestoreLimits
from mvcs.upkeep import remove_leftovers

EXACT_LAYERS = "exact layers were left alone: they are near nothing but the values of their own commits"


@dataclass(frozen=True)
class Compaction:
    """What is asked for.

    Attributes:
        session: the repository.
        limits: how long chains may be.
        for_archive: whether older commits are stored near later ones.
        chosen: the commits that are to be stored so; None for all.
        beside: what it rests by, and its progress then; None to do it at once.
    """

    session: Session
    limits: RestoreLimits
    for_archive: bool
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
        """Store again what has to be; where one was broken off, this one continues behind it."""
        place = self.session.place
        remove_leftovers(place)
        before = pack_bytes(place.backend)
        with compaction_lock(place.local), scratch_folder(place.local) as folder:
            found = without_lost(partial(self._attempt, folder))
            forget_background(LocalRecords(place.local))
        return self._summary(found, before, executed=True)

    def _attempt(self, folder: pathlib.Path, lost: frozenset[str]) -> Repacked:
        session, store = self.session, self.session.store.apart()
        with closing(JournaledPacks(session.place, session.refs, store.manifests, session.author)) as packs:

            def announce(path: str) -> None:
                if self.beside is not None:
                    self.beside.check_room()
                packs.announce(path)

            def publish(move: Moved) -> Placement:
                done = packs.publish([move])
                return done[0].now if done else store.manifests.placement(move.commit)

            return self._repack(store, folder, lost, announce=announce, publish=publish).run()

    def rehearse(self) -> CompactReport:
        """Do all of it in a folder of its own, and keep nothing."""
        place = self.session.place
        with scratch_folder(place.local) as top:
            store = ObjectStore(Overlay(place.backend, LocalBackend(top / "kept")), place.memory)
            # So that each rehearsal gives one answer: bases go by the names of packs.
            salts = random.Random(0).randbytes  # noqa: S311
            found = self._repack(store, top / "read", salts=salts).run()
            return self._summary(found, pack_bytes(place.backend), executed=False)

    def _repack(
        self,
        store: ObjectStore,
        folder: pathlib.Path,
        lost: frozenset[str] = frozenset(),
        salts: Callable[[int], bytes] = secrets.token_bytes,
        announce: Callable[[str], None] | None = None,
        publish: Callable[[Moved], Placement] | None = None,
    ) -> Repack:
        session, beside = self.session, self.beside
        waste = session.place.config.number("compaction.max_waste") if self.chosen is None else 1.0
        terms = Terms(
            self.limits,
            chosen_of(self.chosen),
            self.for_archive,
            coder=self._coder,
            lost=lost,
            max_waste=waste,
            salts=salts,
        )
        return Repack(
            store,
            session.retention_source,
            terms,
            session.progress if beside is None else beside,
            announce=announce,
            publish=publish,
            scratch=LocalBackend(folder),
            rest=never_rest if beside is None else beside.rest,
        )

    @property
    def _coder(self) -> CodeCoder:
        return cast("CodeCoder", self.session.place.config.get("delta.coder"))

    def _summary(self, found: Repacked, before: tuple[int, int], *, executed: bool) -> CompactReport:
        over = self.session.quota.told if executed else None
        return CompactReport(
            executed,
            found.commits,
            found.commits if self.chosen is None else len(self.chosen),
            len(found.moves),
            found.encoded,
            len(found.packs),
            found.bytes,
            found.before,
            found.after,
            [
                *_left(found),
                *([EXACT_LAYERS] if found.has_exact_layers else []),
                *([] if over is None else [over]),
            ],
            stages(before, found),
            is_sole_writer(self.session),
        )


def _left(found: Repacked) -> list[str]:
    if not found.left:
        return []
    unused, taken = sum(it.unused for it in found.left), sum(it.bytes for it in found.left)
    packs = "a pack" if len(found.left) == 1 else f"{len(found.left)} packs"
    gone = f"of commits that nothing leads to any more, {as_size(taken)}, of which {as_size(unused)} unused"
    return [f"commits no longer depend on {packs} {gone}"]


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
        return RetentionRun.begin(Retained.of(session, None), force=False).rehearse().bytes

    def compact() -> int:
        done = Compaction.asked(session, None, RestoreBudget(), for_archive=False).rehearse()
        return done.before - done.after

    freeable = replace(
        found.freeable,
        retention=tried("'mvcs retention apply'", retention),
        compact=tried("'mvcs compact'", compact),
    )
    return replace(found, freeable=freeable, notes=[*found.notes, *notes])
