"""Commits are stored anew, proven, and ended anew, with every commit and ref that has to follow."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import isqrt

from mvcs.compaction.movement import Hanging, Movement
from mvcs.compaction.rewriting import Anew, Rewriting, never_rest
from mvcs.errors import ConflictError, CorruptionError
from mvcs.history import CountingGraph, Revision
from mvcs.local import CompactionSteps
from mvcs.objects import ObjectId
from mvcs.progress import Progress
from mvcs.refs import HEADS, REMOTES, TAGS, GoingError, RefChange, RefRecord, RefStore, now_microseconds
from mvcs.restore import PartlyNeeded, partly_needed
from mvcs.store import (
    MOVED_BASES,
    VALUE_FOLDER,
    Backend,
    ObjectStore,
    Overlay,
    RestoreLimits,
    is_whole_pack,
    pack_name,
    pack_path,
    read_footer,
    upgrade,
)

_LONG = 8  # commits from which on it pays to have snapshots on the way
_BLOCK = 64
_ROUNDS, _FEW = 8, 4
Announce = Callable[[str], None]
ACTION = "compact"
KINDS = (HEADS, TAGS, REMOTES)


@dataclass(frozen=True)
class NamedCommit:
    """A ref: its kind and name, and its newest record."""

    kind: str
    name: str
    record: RefRecord


@dataclass(frozen=True)
class StoredAnew:
    """What was stored anew.

    Attributes:
        commits: how many commits were looked at.
        ended: how many of them were ended anew.
        encoded: objects that were encoded anew.
        packs: packs that were written.
        bytes: their bytes.
        before: bytes of all packs that refs needed for value layers.
        after: bytes of those that they need now.
        moved: refs that got a record.
        revisions: the commits that were ended anew, as they are ended now.
        has_exact_layers: whether commits have, or had, exact layers, which stay what they are.
        left: packs on which nothing leans any more, since too much of them was of no use.
    """

    commits: int = 0
    ended: int = 0
    encoded: int = 0
    packs: tuple[str, ...] = ()
    bytes: int = 0
    before: int = 0
    after: int = 0
    moved: tuple[str, ...] = ()
    revisions: tuple[Revision, ...] = ()
    has_exact_layers: bool = False
    left: tuple[PartlyNeeded, ...] = ()


class NothingGainedError(Exception):
    """What was stored anew is not worth it, and no ref leads to it."""

    def __init__(self, found: StoredAnew) -> None:
        """Keep what was found out."""
        super().__init__()
        self.found = found


@dataclass
class StoringAnew:
    """One rewriting of a store's history. Old packs stay: `mvcs gc` finds what nothing needs any more.

    It runs beside writers. Where it stops, refs lead to what they led to, or to what is complete; run again
    with the same `steps`, it goes on behind what was stored and verified.

    Attributes:
        store: the store.
        refs: its refs.
        anew: how commits are stored.
        author: who does it.
        progress: is told the commits done.
        hangs: whether chosen commits are stored near later ones.
        announce: is told the path of each pack before it is there.
        scratch: has room for snapshots of commits that are to hang, each of which is decoded from the end of
            its chain otherwise; None for none. It holds as many commits as `block` says.
        steps: of one that was broken off, and where those of this one go.
        block: commits of which there are snapshots in `scratch` at a time.
        rest: is called again and again until refs move, and may wait.
        worth: tells before refs move whether what was stored is worth it; None where it always is.
        paths: of the packs that were announced so far.
    """

    store: ObjectStore
    refs: RefStore
    anew: Anew
    author: str
    progress: Progress
    hangs: bool = False
    announce: Announce | None = None
    scratch: Backend | None = None
    steps: CompactionSteps = field(default_factory=CompactionSteps)
    block: int = _BLOCK
    rest: Callable[[], None] = never_rest
    worth: Callable[[StoredAnew], bool] | None = None
    paths: list[str] = field(default_factory=list, init=False)
    _met: set[ObjectId] = field(default_factory=set)
    _proven: int = 0
    _publishes: bool = False
    _upgraded: bool = False
    _is_moving: bool = False
    _left: list[PartlyNeeded] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Look at nothing yet."""
        self._graph = CountingGraph(self.store.apart(), dict(self.anew.back))
        self._work = self._working(self.anew)

    def _working(self, anew: Anew) -> Rewriting:
        return Rewriting(self.store, self._graph, anew, self._announced, steps=self.steps, rest=self._rest)

    def run(self, before_refs: Callable[[], None], *, publish: bool = True) -> StoredAnew:
        """Store anew what has to be, and move the refs.

        Args:
            before_refs: is called before the first ref moves.
            publish: whether refs move at all.

        Raises:
            NothingGainedError: it is not worth it; no ref was moved.
            CorruptionError: something is damaged; no ref was moved.
            NotFoundError: or gone; likewise.
            StorageError: the store could not be written.
            UnsupportedFormatError: a newer mvcs upgraded the store.
        """
        self._publishes = publish
        named = named_commits(self.refs)
        revisions = self._behind(one.record for one in named)
        if self.anew.without or self.anew.back:
            self._upgrade()
        self._leave_waste(revisions)
        self._store(revisions)
        moved: list[str] = []
        if publish and self.worth is not None and not self.worth(found := self._told(revisions, [])):
            raise NothingGainedError(found)
        if publish and (self._work.ends or any(self._work.ending(one.record) for one in named)):
            self._upgrade()
            named = self._drawn_near(named)
            self._is_moving = True
            before_refs()
            moving = MovedRefs(self.refs, self._work.ending, self.author, self._catch_up)
            moved = [one.name for one in named if moving.move(one)]
        return self._told(revisions, moved)

    def _leave_waste(self, revisions: list[Revision]) -> None:
        """Let nothing lean on packs of commits that are gone, where too much of them is of no use."""
        most = self.anew.max_waste
        if most < 1:
            found = partly_needed(self.store, revisions, self.anew.without, self._rest)
            self._left = [each for each in found if each.is_waste(most)]
        if self._left:
            lost = {*self.anew.lost, *(each.pack for each in self._left)}
            self._work = self._working(replace(self.anew, lost=lost))

    def _upgrade(self) -> None:
        """Keep older writers away, before the first pack is written that they would not understand."""
        if self._publishes and not self._upgraded:
            upgrade(self.store.backend, MOVED_BASES, now_microseconds(), self.author)
            self._upgraded = True

    def _drawn_near(self, named: list[NamedCommit]) -> list[NamedCommit]:
        """Store what was committed meanwhile, until that is little: once refs move nothing rests."""
        for _ in range(_ROUNDS if self.rest is not never_rest else 0):
            named = named_commits(self.refs)
            new = self._behind(one.record for one in named)
            self._store(new)
            if len(new) <= _FEW:
                break
        return named

    def _rest(self) -> None:
        if not self._is_moving:
            self.rest()

    def _announced(self, path: str) -> None:
        self._upgrade()
        self.paths.append(path)
        if self.announce is not None:
            self.announce(path)

    @property
    def unfinished(self) -> list[str]:
        """Paths of the packs that were announced so far, and with which no other run could go on."""
        return [path for path in self.paths if pack_name(path) not in self.steps.packs]

    def _behind(self, records: Iterable[RefRecord]) -> list[Revision]:
        """Return the commits behind refs that were not met yet, parents first."""
        tips = [self._graph.load(one.target) for one in records if one.target is not None]
        found = []
        for revision in self._graph.walk(tips, without=self._met):
            found.append(revision)
            self._rest()
        self._met.update(revision.id for revision in found)
        return found[::-1]

    def _store(self, revisions: list[Revision]) -> None:
        movement = Movement(self._work)
        for revision in revisions:
            if self.anew.without:
                movement.give_up(revision)
            if not self.hangs:
                movement.number(revision)
        hanging = [one for one in revisions if self.hangs and self.anew.chosen(one.id)]
        self.progress.start("rewriting", 2 * len(hanging) + len(revisions), "commits")
        self._hang(hanging)
        for revision in revisions:
            movement.advance(revision)
            self.progress.advance(1)
            self._rest()
        self.progress.finish()
        self._prove()

    def _hang(self, revisions: list[Revision]) -> None:
        children: dict[ObjectId, list[Revision]] = defaultdict(list)
        for revision in revisions:
            for parent in revision.commit.parents:
                children[parent].append(revision)
        hanging = Hanging(self._work)
        for start in reversed(range(0, len(revisions), self.block)):
            block = revisions[start : start + self.block]
            with self._unfolded(block):
                for revision in reversed(block):
                    hanging.hang(revision, children[revision.id])
                    self.progress.advance(1)
        for revision in revisions:
            hanging.hung(revision)

    @contextmanager
    def _unfolded(self, revisions: list[Revision]) -> Iterator[None]:
        """Store commits with short chains beside the store meanwhile: they are read newest first."""
        if self.scratch is None or len(revisions) < _LONG or all(map(self._is_done, revisions)):
            self.progress.advance(len(revisions))
            yield
            return
        limits = RestoreLimits(max(2, isqrt(len(revisions)) - 1), self.anew.limits.max_cost)
        beside = ObjectStore(Overlay(self.store.backend, self.scratch), self.store.memory)
        anew = Anew(limits, self.anew.chosen, merged_bytes=0)
        unfolded = Rewriting(beside, self._graph, anew, rest=self._rest)
        for revision in revisions:
            Movement(unfolded).advance(revision)
            self.progress.advance(1)
        self._work.read_from(unfolded)
        yield
        self._work.read_from(None)
        for name in unfolded.written:
            self.scratch.delete(pack_path(name))

    def _is_done(self, revision: Revision) -> bool:
        return (revision.id.hex(), False) in self.steps.found

    def _prove(self) -> None:
        """Read back what was written: each pack has to hash to its name.

        Raises:
            CorruptionError: one does not.
            GoingError: a collector deleted some.
        """
        backend, names = self.store.backend, self._work.written[self._proven :]
        for name in names:
            self._rest()
            if not is_whole_pack(backend, name):
                gone = [one for one in names if backend.size(pack_path(one)) is None]
                if gone:
                    raise GoingError(gone)
                raise CorruptionError(
                    f"pack '{pack_path(name)}' was written and reads back as something else",
                    hint="no branch was moved; look after the disk",
                )
        self._proven = len(self._work.written)

    def _catch_up(self, record: RefRecord) -> None:
        self._store(self._behind([record]))

    def _told(self, revisions: list[Revision], moved: list[str]) -> StoredAnew:
        work, footer_of = self._work, partial(read_footer, self.store.backend)
        sizes = self.store.backend.sizes(VALUE_FOLDER)
        needed: list[set[str]] = [set(), set()]
        for revision in revisions:
            for names, ended in zip(needed, (revision, work.now(revision)), strict=True):
                names.update((ended.written.pack, *footer_of(ended.written.pack).needed))
        before, after = (sum(sizes.get(pack_path(name), 0) for name in names) for names in needed)
        return StoredAnew(
            len(self._met),
            len(work.ends),
            work.encoded,
            tuple(work.written),
            work.bytes,
            before,
            after,
            tuple(moved),
            tuple(work.ends.values()),
            any(revision.written.exact_packs for revision in revisions),
            tuple(self._left),
        )


def chosen_of(identifiers: Collection[ObjectId] | None) -> Callable[[ObjectId], bool]:
    """Return what tells of the commits that are chosen; all where None are named."""
    return (lambda _: True) if identifiers is None else frozenset(identifiers).__contains__


def named_commits(refs: RefStore) -> list[NamedCommit]:
    """Return every branch, tag, and what is known of remotes.

    A name without a record is passed over: another writer may just begin it. Nothing is deleted here.

    Raises:
        CorruptionError: one is damaged, so that nobody knows what it needs.
        UnsupportedFormatError: another version wrote it.
    """
    return [
        NamedCommit(kind, name, record)
        for kind in KINDS
        for name, record in refs.survey(kind).readable().items()
    ]


@dataclass(frozen=True)
class MovedRefs:
    """Moves refs to the packs that end their commits now.

    Attributes:
        refs: the refs.
        ending: tells what is to end the commit of a ref; None where it may stay.
        author: who moves them.
        catch_up: stores anew what a ref leads to that moved on meanwhile.
    """

    refs: RefStore
    ending: Callable[[RefRecord], Revision | None]
    author: str
    catch_up: Callable[[RefRecord], None]

    def move(self, named: NamedCommit) -> bool:
        """Write the next record of a ref; tell whether that was needed, and nobody else had done it.

        Raises:
            StorageError: it could not be written.
        """
        record: RefRecord | None = named.record
        while record is not None and record.target is not None:
            ended = self.ending(record)
            if ended is None:
                return False
            try:
                self.refs.update(named.kind, named.name, record, self._change(record, ended))
            except GoingError:
                raise
            except ConflictError:
                newest = self.refs.newest(named.kind, named.name)
                if newest is not None and newest.target == record.target:
                    return False  # another compaction was first
                record = newest
                if record is not None and record.target is not None:
                    self.catch_up(record)
                continue
            return True
        return False

    def _change(self, record: RefRecord, ended: Revision) -> RefChange:
        return RefChange(record.target, self.author, ACTION, record.content)
