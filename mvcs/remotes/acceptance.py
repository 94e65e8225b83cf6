"""Commits that come from outside: kept apart until all they promise was read and hashed, then linked in."""

from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

from mvcs.errors import CorruptionError, MvcsError, NotFoundError
from mvcs.history import Revision
from mvcs.machine import processors
from mvcs.objects import ObjectId, short_id
from mvcs.progress import Progress
from mvcs.remotes.completeness import Completeness
from mvcs.remotes.pack_transfer import (
    Needs,
    Presence,
    RememberedPacks,
    TransferSide,
    each_of,
    is_whole,
    retried,
)
from mvcs.remotes.quarantine import Quarantine
from mvcs.store import (
    MAX_FILE,
    MOVED_BASES,
    UNREADABLE_ERRORS,
    Backend,
    Footer,
    Inspection,
    ObjectStore,
    WrittenCommit,
    exact_packs,
    has_upgrade,
    inspect_pack,
    pack_path,
    read_footer,
    value_packs,
)

# Commits are looked at in runs: the footers of a run are in memory, and its packs lie in quarantine.
RUN_PACKS, RUN_BYTES = 256, 8 << 30
AHEAD = 64
MOST_THREADS = 8
FooterOf = Callable[[str], Footer]


@dataclass
class Acceptance:
    """Takes commits into a store, parents first.

    Attributes:
        here: the receiving side.
        there: where they come from.
        known: the commits that are here already, with all behind them.
        quarantine: where packs lie until they are believed.
        remembered: what this side remembers of its packs; what is learnt is added.
        progress: is told the packs done.
        allow: is told what a pack unpacks to, and raises where that is too much.
        dropped: commits whose data were given up over there, on record: they come without.
        taken: the commits that were taken, parents first, as their own packs describe them.
        refused: why commits were not taken.
        copied: bytes of the packs that were linked, by name.
        mended: those of them that were missing or damaged here.
    """

    here: TransferSide
    there: TransferSide
    known: Mapping[ObjectId, Revision]
    quarantine: Quarantine
    remembered: RememberedPacks
    progress: Progress
    allow: Callable[[int], None]
    dropped: Container[ObjectId] = frozenset()
    taken: dict[ObjectId, Revision] = field(default_factory=dict)
    refused: dict[ObjectId, MvcsError] = field(default_factory=dict)
    copied: dict[str, int] = field(default_factory=dict)
    mended: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """List both ends."""
        self._packs = Presence.of(self.here.store.backend, self.there.store.backend)
        self._whole: dict[str, bool] = {}
        self._needs = Needs(self.here.store.backend, self.remembered.needs)
        anew = any(has_upgrade(side.store.backend, MOVED_BASES) for side in (self.here, self.there))
        backend = self.here.store.backend
        self._claims = Claims(self.known, exact_packs(backend), lambda: _footers(backend), anew)

    def mend(self, *, verify: bool) -> set[str]:
        """Bring again what commits here need and is missing or damaged; return what could not be had.

        Commits here name the packs, and a name is the hash of the bytes: nothing else needs to be believed.

        Args:
            verify: whether every pack here is hashed; otherwise those of another size than over there, and
                those that were found damaged before.
        """
        tried: set[str] = set()
        while True:
            names, unread = self._needs.of(self.known.values())
            if verify:
                self._verify(name for name in self._packs.here if name not in self._whole)
                names += self._packs.here
            suspects = {name for name in unread if not self._is_whole(name)}
            owed = [name for name in names if name not in tried and (name in suspects or not self._has(name))]
            if not owed:
                break
            tried.update(owed)
            footers, _ = self._bring(name for name in dict.fromkeys(owed) if name in self._packs.there)
            for name in footers:
                self._link(name)
            self.mended.update(footers)
        lost = tried - self.mended
        self.remembered.damaged |= lost.intersection(self._packs.here)
        self.remembered.damaged -= {name for name, whole in self._whole.items() if whole}
        return lost

    @property
    def most_owed(self) -> int:
        """Bytes of all packs that are there and not here, whatever they are for."""
        return self._bytes_of(self._packs.there.keys() - self._packs.here.keys())

    def owed(self, revisions: Iterable[Revision]) -> int:
        """Return the bytes of packs that commits need and that are not here, by footers over there."""
        names: set[str] = set()
        for part in _parts(revisions):
            with suppress(*UNREADABLE_ERRORS):  # the one that fails is refused when it is looked at
                self.there.store.catalog.attach_all(revision.written.pack for revision in part)
            for revision in part:
                with suppress(*UNREADABLE_ERRORS):
                    needed = self.there.store.catalog.attach(revision.written.pack).needed
                    names.update(name for name in (*needed, revision.written.pack) if not self._has(name))
            self.there.store.catalog.keep(())
        return self._bytes_of(names)

    def take(self, revisions: Iterable[Revision]) -> None:
        """Take commits, parents first; those that are not what they promise are refused.

        Raises:
            StorageError: a store or the disk refused; what was linked stays, and what came waits.
        """
        for run in self._runs(revisions):
            self._take_run(run)
            self.there.store.catalog.keep(())

    def _runs(self, revisions: Iterable[Revision]) -> Iterator[dict[ObjectId, tuple[Revision, list[str]]]]:
        """Yield commits, each with the packs that it is said to need, some at a time."""
        run: dict[ObjectId, tuple[Revision, list[str]]] = {}
        names: set[str] = set()
        for part in _parts(revisions):
            with suppress(*UNREADABLE_ERRORS):  # the one that fails is met again below
                self.there.store.catalog.attach_all(revision.written.pack for revision in part)
            for revision in part:
                try:
                    footer = self.there.store.catalog.attach(revision.written.pack)
                except UNREADABLE_ERRORS as error:
                    self._refuse(revision, error)
                    continue
                needed = [*footer.needed, revision.written.pack]
                run[revision.id] = revision, needed
                names.update(name for name in needed if not self._has(name))
                if len(names) >= RUN_PACKS or self._bytes_of(names) >= RUN_BYTES:
                    yield run
                    run, names = {}, set()
        if run:
            yield run

    def _bytes_of(self, names: set[str]) -> int:
        return sum(self._packs.there.get(name, 0) for name in names)

    def _take_run(self, run: dict[ObjectId, tuple[Revision, list[str]]]) -> None:
        names = list(dict.fromkeys(name for _, needed in run.values() for name in needed))
        footers, good = self._look_at(run, names)
        if not self.refused.keys().isdisjoint(run) and self._mend_believed(names):
            for identifier in run:
                self.refused.pop(identifier, None)
                self.taken.pop(identifier, None)
            footers, good = self._look_at(run, names)
        for name, footer in footers.items():
            if name in good:
                self._link(name)
                self.here.graph.learn(footer)
            else:
                self.quarantine.drop(name)

    def _mend_believed(self, names: list[str]) -> bool:
        """Hash the packs here that refused commits lean on; tell whether damaged ones came again."""
        self._verify(name for name in names if name in self._packs.here and name not in self._whole)
        damaged = [name for name in names if not self._whole.get(name, True)]
        self.remembered.damaged.update(damaged)
        footers, _ = self._bring(name for name in damaged if name in self._packs.there)
        for name in footers:
            self._link(name)
        self.mended.update(footers)
        self.remembered.damaged.difference_update(footers)
        return bool(footers)

    def _look_at(
        self, run: dict[ObjectId, tuple[Revision, list[str]]], names: list[str]
    ) -> tuple[dict[str, Footer], set[str]]:
        """Bring packs and judge commits; return the footers, and the packs that good commits need."""
        footers, problems = self._bring(name for name in names if not self._has(name))
        store = ObjectStore(self.quarantine.beside(self.here.store.backend), self.here.store.memory)
        with suppress(*UNREADABLE_ERRORS):  # what lacks it says so
            store.catalog.attach_all(name for name in names if name not in footers and name not in problems)
        inspection = Inspection(store, footers, min(processors(), MOST_THREADS))
        problems |= {name: self._named(name, error) for name, error in inspection.run(self.progress).items()}
        completeness, good = Completeness(store), set[str]()
        for revision, needed in run.values():
            try:
                good |= self._judge(revision, needed, completeness, problems)
            except UNREADABLE_ERRORS as error:
                self._refuse(revision, error)
        return footers, good

    def _judge(
        self,
        revision: Revision,
        needed: list[str],
        completeness: Completeness,
        problems: Mapping[str, MvcsError],
    ) -> set[str]:
        """Take a commit when all it promises is there; return the packs it needs."""
        catalog, pack = completeness.store.catalog, revision.written.pack
        for parent in revision.commit.parents:
            if parent in self.refused:
                raise self.refused[parent]
        for name in needed:
            if name in problems:
                raise problems[name]
        footer = catalog.attach(pack)
        written = ended_by(footer, revision.id, pack)
        packs = {pack, *footer.needed}
        for name in packs:
            if not self._has(name):
                self._claims.check(name, catalog.attach(name), catalog.attach)
        completeness.check(Revision(written), data=revision.id not in self.dropped)
        self.taken[revision.id] = Revision(written)
        self._note(revision, footer)
        return packs

    def _note(self, revision: Revision, footer: Footer) -> None:
        """Remember what a commit needs while its footer is at hand."""
        parents = revision.commit.parents
        parent = (self.taken.get(parents[0]) or self.known.get(parents[0])) if parents else None
        self._needs.learn(revision.written.pack, footer.needed)
        self._needs.note(revision.written.pack, parent.written.pack if parent else "")

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
        doubtful = name in self.remembered.damaged or self._packs.there.get(name, size) != size
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
        self.allow(sum(placed.entry.raw_bytes for placed in footer.entries))
        return footer

    def _named(self, name: str, error: MvcsError) -> MvcsError:
        kind = CorruptionError if isinstance(error, NotFoundError) else type(error)
        where = f"pack '{pack_path(name)}' in '{self.there.store.backend.url}'"
        hint = "run 'mvcs fsck' over there; 'mvcs push --verify' from a clone that has it whole mends it"
        return kind(f"{where}: {error.message}", hint=error.hint or hint)


def _footers(backend: Backend) -> Iterator[Footer]:
    for name in value_packs(backend):
        with suppress(*UNREADABLE_ERRORS):
            yield read_footer(backend, name)


def _parts(revisions: Iterable[Revision]) -> Iterator[list[Revision]]:
    remaining = iter(revisions)
    while part := list(islice(remaining, AHEAD)):
        yield part


@dataclass
class Claims:
    """Compares what footers say with what is known here, and with the pack that ends each commit.

    Attributes:
        known: the commits that are here, as this store describes them.
        lying: the packs of exact layers that are here.
        footers: gives all footers of packs that are here; asked for only where one of `lying` is claimed.
        anew: whether commits of these stores may have been ended anew, by other packs.
    """

    known: Mapping[ObjectId, Revision]
    lying: Collection[str]
    footers: Callable[[], Iterable[Footer]]
    anew: bool = False
    _ends: dict[ObjectId, WrittenCommit] = field(default_factory=dict)
    _copies: dict[ObjectId, list[WrittenCommit]] = field(default_factory=dict)

    def check(self, name: str, footer: Footer, footer_of: FooterOf) -> None:
        """Check what the footer of a pack that came says.

        Args:
            name: the pack.
            footer: its footer.
            footer_of: gives the footers of others, those included that came with it.

        Raises:
            CorruptionError: it speaks of a commit otherwise than this store or the commit's own pack does, or
                takes an exact layer for its own that is another's.
            NotFoundError: a pack that it names is not there.
        """
        for written in footer.commits:
            if written.id in self.known:
                self._compare(written, self.known[written.id].written)
            elif written.pack == name:
                self._check_new(written)
            else:
                self._check_copy(written, footer_of)

    def _check_copy(self, written: WrittenCommit, footer_of: FooterOf) -> None:
        """Compare a copy with the commit's own pack; where that is gone, with the pack that ends it now."""
        if self.anew and written.id in self._ends:
            self._compare(written, self._ends[written.id])
            return
        try:
            footer = footer_of(written.pack)
        except NotFoundError:
            if not self.anew:
                raise
            self._copies.setdefault(written.id, []).append(written)
            return
        self._compare(written, ended_by(footer, written.id, written.pack))

    def _compare(self, said: WrittenCommit, known: WrittenCommit) -> None:
        # Where another pack may end it by now, that cannot always say how much was stored.
        if self.anew and said.pack != known.pack:
            known = replace(known, pack=said.pack, stored_bytes=said.stored_bytes)
        if said != known:
            raise CorruptionError(f"its footer speaks of commit {short_id(said.id)} otherwise than is known")

    def _check_new(self, written: WrittenCommit) -> None:
        self._compare(written, self._ends.setdefault(written.id, written))
        for copy in self._copies.pop(written.id, ()):
            self._compare(copy, written)
        for pack in written.exact_packs:
            self._check_layer(pack, written.id)

    def _check_layer(self, pack: str, identifier: ObjectId) -> None:
        """Check that no other commit has an exact pack; one that lies here alone is of a lost commit."""
        claimed = pack in self._claimed
        if not claimed and pack in self.lying:
            claimed = bool(self._told[pack] - {identifier})
            self._told[pack].add(identifier)
        if claimed:
            raise CorruptionError(
                f"its footer says that commit {short_id(identifier)} keeps its exact layer "
                f"in pack {pack[:12]}, which belongs to another commit of this store"
            )

    @cached_property
    def _claimed(self) -> frozenset[str]:
        return frozenset(pack for one in self.known.values() for pack in one.written.exact_packs)

    @cached_property
    def _told(self) -> dict[str, set[ObjectId]]:
        """By exact packs, the commits of which any footer here says that they are theirs, known or not."""
        found: dict[str, set[ObjectId]] = defaultdict(set)
        for footer in self.footers():
            for written in footer.commits:
                for pack in written.exact_packs:
                    found[pack].add(written.id)
        return found


def ended_by(footer: Footer, identifier: ObjectId, pack: str) -> WrittenCommit:
    """Return what the pack that ends a commit says of it.

    Raises:
        CorruptionError: this pack does not end the commit.
    """
    for written in footer.commits:
        if written.id == identifier and written.pack == pack:
            return written
    raise CorruptionError(f"pack {pack[:12]} does not end commit {short_id(identifier)}, as it is said to")
