"""Repair: what checks found damaged is made good again from other stores, or from what is left of it.

Everything is compared with the hash that names it before it takes the place of anything. What lay there is
kept aside. So a repair can be stopped anywhere, run again, and run beside writers.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from mvcs.errors import MvcsError
from mvcs.history import Graph, GraphNeeds, Revision
from mvcs.local import Findings, Place, known_damaged, note_damaged, save_findings
from mvcs.local_files import scratch_folder
from mvcs.progress import Progress
from mvcs.refs import RefStore
from mvcs.reports import FsckReport, Loss, Mended, RepairReport
from mvcs.retention import DataDrops, DropLog
from mvcs.store import EXACT_FOLDER, VALUE_FOLDER, Backend, ObjectStore, pack_name, refuse_changes
from mvcs.upkeep.checking.fsck import CheckedClone, check_store
from mvcs.upkeep.checking.pack_check import FULL, Level
from mvcs.upkeep.repairing.losses import Losses, Restorable
from mvcs.upkeep.repairing.repair_packs import EndedElsewhere, PackRepair
from mvcs.upkeep.repairing.repair_records import DropRepair, RefRepair, RuleRepair
from mvcs.upkeep.repairing.wanted_packs import PackKey, WantedPacks
from mvcs.upkeep.repairing.workspace import Rehearsal, SetAside, Source

PACK = "pack"


@dataclass
class Repair:
    """One repair of a clone's store.

    Attributes:
        place: the clone.
        clone: what it knows of its store.
        sources: stores of the same project that may have good copies.
        author: who repairs.
        progress: is told the work.
        allow: is told what packs of other names unpack to, and raises where that is too much.
        notes: what is worth knowing.
    """

    place: Place
    clone: CheckedClone
    sources: Sequence[Source]
    author: str
    progress: Progress
    allow: Callable[[int], None] = lambda _: None
    notes: list[str] = field(default_factory=list)

    def run(self, *, execute: bool) -> RepairReport:
        """Mend what is wrong; without `execute` say what that would come to, and change nothing.

        Raises:
            UnsupportedFormatError: a newer mvcs upgraded the store.
            StorageError: the store cannot be read or written.
        """
        refuse_changes(self.place.backend)
        suspects = self._suspects()
        with self._backend(execute=execute) as backend:
            aside = SetAside(self.clone.local, backend) if execute else None
            store = self._fresh(backend)
            packs = self._packs(store, aside)
            lost = packs.run(suspects)
            if execute:
                self._remember(packs, lost)
            refs = self._refs(store, aside)
            refs.run()
            # Records that came again may name more.
            lost |= packs.run(())
            drops = DropRepair(self._wanted(store), aside, self.notes.append)
            drops.run()
            rules = RuleRepair(backend, aside, self.author, self.notes.append)
            rules.run()
            mended = [*packs.mended, *packs.elsewhere.mended, *refs.mended, *drops.mended, *rules.mended]
            return self._told(backend, mended, lost, aside)

    def _packs(self, store: ObjectStore, aside: SetAside | None) -> PackRepair:
        wanted, note = self._wanted(store), self.notes.append
        local, told = self.clone.local, (self.author, self.progress, self.allow, note)
        elsewhere = EndedElsewhere(wanted, self.sources, local, aside, *told)
        return PackRepair(store, wanted, self.sources, aside, self.progress, note, elsewhere)

    def _refs(self, store: ObjectStore, aside: SetAside | None) -> RefRepair:
        unpublished = set() if self.clone.unpublished is None else self.clone.unpublished()
        memory = None if aside is None else self.clone.seen
        refs = RefStore(store.backend, memory=memory, needs=GraphNeeds(store, Graph(store)))
        return RefRepair(store, refs, self.sources, aside, self.author, unpublished, self.notes.append)

    def _fresh(self, backend: Backend) -> ObjectStore:
        return ObjectStore(backend, self.place.memory)

    def _wanted(self, store: ObjectStore) -> WantedPacks:
        head = None
        with contextlib.suppress(MvcsError):
            stands = self.clone.check_head()
            head = None if stands is None else stands.id
        return WantedPacks(store, RefStore(store.backend), head)

    @contextlib.contextmanager
    def _backend(self, *, execute: bool) -> Iterator[Backend]:
        if execute:
            yield self.place.backend
            return
        with scratch_folder(self.place.local) as folder:
            yield Rehearsal(self.place.backend, folder)

    def _suspects(self) -> set[PackKey]:
        """Return the packs that checks found damaged; where none found any, everything is checked first."""
        local = self.clone.local
        found = Findings.load(local).problems
        if not found:
            report = check_store(self._fresh(self.place.backend), self.progress, FULL, self.clone)
            save_findings(local, report)
            found = tuple(report.problems)
        keys = {key for problem in found if problem.kind == PACK and (key := _key(problem.subject))}
        return keys | set(map(PackKey, known_damaged(local)))

    def _remember(self, packs: PackRepair, lost: set[PackKey]) -> None:
        mended = {key for one in packs.mended if one.whole and (key := _key(one.path))}
        mended |= packs.elsewhere.needless
        self.clone.watch.mended((key.name, key.exact) for key in mended)
        damaged = {key.name for key in lost if not key.exact and self.place.backend.size(key.path)}
        note_damaged(self.clone.local, damaged, {key.name for key in mended if not key.exact})

    def _told(
        self, backend: Backend, mended: list[Mended], lost: set[PackKey], aside: SetAside | None
    ) -> RepairReport:
        """Look at what is left: names, footers, and all that could not be mended."""
        store = self._fresh(backend)
        report = self._checked(store, lost)
        if aside is not None:
            save_findings(self.clone.local, report, lambda _: True)
        wanted = self._wanted(store)
        dropped = DataDrops.of(store.backend)
        revisions = [one for one in wanted.revisions() if dropped.get(one.id) is None]
        losses = self._losses(store, revisions) if report.problems else []
        restorable = Restorable(revisions, losses)
        newest = restorable.newest(store, wanted.refs) if losses else ()
        return RepairReport(
            aside is not None,
            mended,
            [] if aside is None else aside.kept,
            report.problems,
            losses,
            len(revisions),
            [*self.notes, *report.notes],
            restorable.whole,
            list(newest),
        )

    def _checked(self, store: ObjectStore, lost: set[PackKey]) -> FsckReport:
        return check_store(store, self.progress, Level({key.path for key in lost}), self.clone)

    @staticmethod
    def _losses(store: ObjectStore, revisions: Iterable[Revision]) -> list[Loss]:
        given_up = set[str]()
        with contextlib.suppress(MvcsError):  # it was told what is wrong with them
            given_up = {name for drop in DropLog(store.backend).survey()[0] for name in drop.packs}
        return list(Losses(store, given_up).of(revisions))


def _key(path: str) -> PackKey | None:
    name = pack_name(path)
    folder = path.partition("/")[0]
    if name is None or folder not in (VALUE_FOLDER, EXACT_FOLDER):
        return None
    return PackKey(name, exact=folder == EXACT_FOLDER)
