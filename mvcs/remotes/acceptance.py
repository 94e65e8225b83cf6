"""Commits that come from outside: kept apart until all they promise was read and hashed, then linked in."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

from mvcs.errors import CorruptionError, MvcsError, NotFoundError
from mvcs.history import Revision
from mvcs.machine import processors
from mvcs.objects import Commit, ObjectId, short_id
from mvcs.remotes.completeness import Completeness
from mvcs.remotes.pack_transfer import STREAMS, Presence, TransferSide, each_of, is_whole, retried
from mvcs.remotes.push import TransferTerms, carried
from mvcs.remotes.quarantine import Quarantine
from mvcs.store import (
    MAX_FILE,
    MAX_PACKS,
    UNREADABLE_ERRORS,
    Footer,
    Inspection,
    ListedManifests,
    Manifest,
    Manifests,
    ObjectStore,
    Placement,
    WrittenCommit,
    exact_packs,
    inspect_pack,
    pack_path,
)

# Commits are looked at in runs: the footers of a run are in memory, and its packs lie in quarantine.
RUN_PACKS, RUN_BYTES = 256, 8 << 30
AHEAD = 64
MOST_THREADS = 8
Run = dict[ObjectId, tuple[Revision, Placement]]


@dataclass
class Acceptance:
    """Takes commits into a store, parents first.

    Attributes:
        here: the receiving side.
        there: where they come from.
        known: the commits that are here already, with all behind them.
        quarantine: where packs lie until they are believed.
        terms: how the exchange goes.
        taken: the commits that were taken, parents first.
        refused: why commits were not taken.
        copied: bytes of the packs that were linked, by name.
        mended: those of them that were missing or damaged here.
    """

    here: TransferSide
    there: TransferSide
    known: Mapping[ObjectId, Revision]
    quarantine: Quarantine
    terms: TransferTerms
    taken: dict[ObjectId, Revision] = field(default_factory=dict)
    refused: dict[ObjectId, MvcsError] = field(default_factory=dict)
    copied: dict[str, int] = field(default_factory=dict)
    mended: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """List both ends."""
        self._packs = Presence.of(self.here.store.backend, self.there.store.backend)
        self._whole: dict[str, bool] = {}
        self.progress, self.damaged = self.terms.progress, self.terms.damaged

    def mend(self, *, verify: bool) -> set[str]:
        """Bring again what commits here need and is missing or damaged; return what could not be had.

        Commits here name the packs, and a name is the hash of the bytes: nothing else needs to be believed.

        Args:
            verify: whether every pack here is hashed; otherwise those of another size than over there, and
                those that were found damaged before.
        """
        names = self._needed_here()
        if verify:
            self._verify(name for name in self._packs.here if name not in self._whole)
            names |= dict.fromkeys(self._packs.here)
        owed = [name for name in names if not self._has(name)]
        footers, _ = self._bring(name for name in owed if name in self._packs.there)
        for name in footers:
            self._link(name)
        self.mended.update(footers)
        lost = set(owed) - self.mended
        self.damaged |= lost.intersection(self._packs.here)
        self.damaged -= {name for name, whole in self._whole.items() if whole}
        return lost

    def _needed_here(self) -> dict[str, None]:
        """Return the packs that commits here need; those whose manifests cannot be read are left to fsck."""
        manifests, names = ListedManifests(self.here.store.backend, self.terms.known), dict[str, None]()
        for commit in self.known:
            with suppress(*UNREADABLE_ERRORS):
                line = next(manifests.lines([(commit, manifests.numbers(commit)[0])]))
                names |= dict.fromkeys(line.packs)
        return names

    @property
    def most_owed(self) -> int:
        """Bytes of all packs that are there and not here, whatever they are for."""
        return self._bytes_of(self._packs.there.keys() - self._packs.here.keys())

    def owed(self, revisions: Iterable[Revision]) -> int:
        """Return the bytes of packs that commits need and that are not here, by manifests over there."""
        names = set[str]()
        for _, placement in self._placed(revisions):
            if isinstance(placement, Placement):
                names.update(name for name in placement.packs if not self._has(name))
        return self._bytes_of(names)

    def take(self, revisions: Iterable[Revision]) -> None:
        """Take commits, parents first; those that are not what they promise are refused.

        Raises:
            StorageError: a store or the disk refused; what was linked stays, and what came waits.
        """
        for run in self._runs(revisions):
            self._take_run(run)

    def _placed(self, revisions: Iterable[Revision]) -> Iterator[tuple[Revision, Placement | MvcsError]]:
        """Yield commits, each with where it is said to lie over there, or with why that cannot be told."""
        remaining = iter(revisions)
        with ThreadPoolExecutor(STREAMS) as pool:
            while part := list(islice(remaining, AHEAD)):
                yield from zip(part, pool.map(self._placement, part), strict=True)

    def _placement(self, revision: Revision) -> Placement | MvcsError:
        try:
            found = self.there.store.manifests.placement(revision.id)
            if len(found.packs) > MAX_PACKS:
                raise CorruptionError(f"it is said to need {len(found.packs)} packs; {MAX_PACKS} are allowed")
        except UNREADABLE_ERRORS as error:
            return error
        return found

    def _runs(self, revisions: Iterable[Revision]) -> Iterator[Run]:
        """Yield commits, each with where it is said to lie, some at a time."""
        run: Run = {}
        names: set[str] = set()
        for revision, placement in self._placed(revisions):
            if isinstance(placement, MvcsError):
                self._refuse(revision, placement)
                continue
            run[revision.id] = revision, placement
            names.update(name for name in placement.packs if not self._has(name))
            if len(names) >= RUN_PACKS or self._bytes_of(names) >= RUN_BYTES:
                yield run
                run, names = {}, set()
        if run:
            yield run

    def _bytes_of(self, names: set[str]) -> int:
        return sum(self._packs.there.get(name, 0) for name in names)

    def _take_run(self, run: Run) -> None:
        names = list(dict.fromkeys(name for _, placement in run.values() for name in placement.packs))
        footers, good = self._look_at(run, names)
        if not self.refused.keys().isdisjoint(run) and self._mend_believed(names):
            for identifier in run:
                self.refused.pop(identifier, None)
            footers, good = self._look_at(run, names)
        needed = {name for manifest in good for name in manifest.placement.packs}
        for name in footers:
            if name in needed:
                self._link(name)
            else:
                self.quarantine.drop(name)
        for manifest in good:
            ancestors = self.here.graph.ancestors(map(self.here.graph.load, _parents(manifest)))
            own = [replace(manifest, ancestors=ancestors)]
            self.here.refs.duties.record(self.here.store.manifests, own, self.terms.author)
            self.taken[manifest.written.id] = self.here.graph.load(manifest.written.id)

    def _mend_believed(self, names: list[str]) -> bool:
        """Hash the packs here that refused commits lean on; tell whether damaged ones came again."""
        self._verify(name for name in names if name in self._packs.here and name not in self._whole)
        damaged = [name for name in names if not self._whole.get(name, True)]
        self.damaged.update(damaged)
        footers, _ = self._bring(name for name in damaged if name in self._packs.there)
        for name in footers:
            self._link(name)
        self.mended.update(footers)
        self.damaged.difference_update(footers)
        return bool(footers)

    def _look_at(self, run: Run, names: list[str]) -> tuple[dict[str, Footer], list[Manifest]]:
        """Bring packs and judge commits; return the footers, and what good commits are recorded as."""
        footers, problems = self._bring(name for name in names if not self._has(name))
        store = ObjectStore(self.quarantine.beside(self.here.store.backend), self.here.store.memory)
        with suppress(*UNREADABLE_ERRORS):  # what lacks it says so
            store.catalog.attach_all(name for name in names if name not in footers and name not in problems)
        inspection = Inspection(store, footers, min(processors(), MOST_THREADS))
        problems |= {name: self._named(name, error) for name, error in inspection.run(self.progress).items()}
        completeness, good = Completeness(store), list[Manifest]()
        for revision, placement in run.values():
            try:
                good.append(self._judge(revision, placement, completeness, problems))
            except UNREADABLE_ERRORS as error:
                self._refuse(revision, error)
        return footers, good

    def _judge(
        self,
        revision: Revision,
        placement: Placement,
        completeness: Completeness,
        problems: Mapping[str, MvcsError],
    ) -> Manifest:
        """Return what a commit is recorded as when all it promises is there, in packs that it needs.

        Raises:
            MvcsError: it is not.
        """
        for parent in revision.commit.parents:
            if parent in self.refused:
                raise self.refused[parent]
        for name in placement.packs:
            if name in problems:
                raise problems[name]
        self._claims.check(revision.written)
        needed = completeness.check(revision, placement.packs, data=placement.dropped is None)
        own, others = (
            tuple(one for one in some if one in needed) for some in (placement.own, placement.others)
        )
        found = replace(placement, own=own, others=others, number=0)
        return Manifest(revision.written, carried(found, self.terms))

    @cached_property
    def _claims(self) -> "Claims":
        return Claims(self.known, exact_packs(self.here.store.backend), self.here.store.manifests)

    def _refuse(self, revision: Revision, error: MvcsError) -> None:
        if error not in self.refused.values():
            kind = CorruptionError if isinstance(error, NotFoundError) else type(error)
            error = kind(f"commit {short_id(revision.id)}: {error.message}", hint=error.hint)
        self.refused[revision.id] = error

    def _link(self, name: str) -> None:
        self.quarantine.link(name, self.here.store.backend)
        self.copied[name] = self._packs.there.get(name, 0)
        self._whole[name] = True

    def _has(self, name: str) -> bool:
        """Tell whether a pack is here, as far as listings and what was found before tell."""
        size = self._packs.here.get(name)
        doubtful = name in self.damaged or self._packs.there.get(name, size) != size
        if name in self._whole or (size is not None and doubtful):
            return self._is_whole(name)
        return size is not None

    def _is_whole(self, name: str) -> bool:
        if name not in self._whole:
            self._whole[name] = is_whole(self.here.store.backend, name)
        return self._whole[name]

    def _verify(self, names: Iterable[str]) -> None:
        wanted = list(names)
        self.progress.start("checking packs here", len(wanted), "packs")
        backend = self.here.store.backend
        for name, whole in zip(wanted, each_of(wanted, lambda name: is_whole(backend, name)), strict=True):
            self._whole[name] = whole
            self.progress.advance(1)
        self.progress.finish()

    def _bring(self, names: Iterable[str]) -> tuple[dict[str, Footer], dict[str, MvcsError]]:
        """Copy packs into quarantine, checked from the outside; return their footers, and what is wrong."""
        wanted = list(names)
        self.progress.start("copying packs", len(wanted), "packs")
        found = dict(zip(wanted, each_of(wanted, self._brought), strict=True))
        self.progress.finish()
        footers = {name: item for name, item in found.items() if isinstance(item, Footer)}
        return footers, {name: item for name, item in found.items() if isinstance(item, MvcsError)}

    def _brought(self, name: str) -> Footer | MvcsError:
        try:
            return self._taken_over(name) or self._copied(name)
        except UNREADABLE_ERRORS as error:
            self.quarantine.drop(name)
            return self._named(name, error)
        finally:
            self.progress.advance(1)

    def _taken_over(self, name: str) -> Footer | None:
        """Return the footer of a pack that an earlier fetch left, if it is what its name says."""
        left = self.quarantine.left(name)
        with suppress(*UNREADABLE_ERRORS):
            return None if left is None else self._inspected(name, left)
        return None

    def _copied(self, name: str) -> Footer:
        data = retried(lambda: self.there.store.backend.read_small(pack_path(name), MAX_FILE))
        footer = self._inspected(name, data)
        self.quarantine.put(name, data)
        return footer

    def _inspected(self, name: str, data: bytes) -> Footer:
        footer = inspect_pack(name, data)
        self.terms.allow(sum(placed.entry.raw_bytes for placed in footer.entries))
        return footer

    def _named(self, name: str, error: MvcsError) -> MvcsError:
        kind = CorruptionError if isinstance(error, NotFoundError) else type(error)
        where = f"pack '{pack_path(name)}' in '{self.there.store.backend.url}'"
        hint = (
            "'mvcs push --verify' from a clone that has it whole mends it; "
            "over there 'mvcs repair' does, or with --give-up goes on without what is lost"
        )
        return kind(f"{where}: {error.message}", hint=error.hint or hint)


def _parents(manifest: Manifest) -> tuple[ObjectId, ...]:
    return Commit.decode(manifest.written.content).parents


@dataclass
class Claims:
    """Sees that commits which come take no exact layer for their own that is another's.

    Attributes:
        known: the commits that are here.
        lying: the packs of exact layers that are here.
        manifests: those of this store; all are read only where one of `lying` is claimed.
    """

    known: Mapping[ObjectId, Revision]
    lying: Collection[str]
    manifests: Manifests
    _came: dict[str, ObjectId] = field(default_factory=dict)

    def check(self, written: WrittenCommit) -> None:
        """Check what a commit that came says of its exact layer.

        Raises:
            CorruptionError: it is another commit's.
        """
        for pack in written.exact_packs:
            owners = {self._came.setdefault(pack, written.id)} | self._owned.get(pack, set())
            if pack in self.lying:
                owners |= self._told.get(pack, set())
            if owners != {written.id}:
                raise CorruptionError(
                    f"it is said to keep its exact layer in pack {pack[:12]}, "
                    "which belongs to another commit of this store"
                )

    @cached_property
    def _owned(self) -> dict[str, set[ObjectId]]:
        return {pack: {one.id} for one in self.known.values() for pack in one.written.exact_packs}

    @cached_property
    def _told(self) -> dict[str, set[ObjectId]]:
        """By exact packs, the commits whose manifests here say that they are theirs, known or not."""
        found: dict[str, set[ObjectId]] = defaultdict(set)
        for commit in self.manifests.listed():
            with suppress(*UNREADABLE_ERRORS):
                for pack in self.manifests.first(commit).written.exact_packs:
                    found[pack].add(commit)
        return found
