"""What one rewriting of a history knows, and what its steps share."""

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from mvcs.compaction.values import CommitValues, KnownValues
from mvcs.compaction.views import Views
from mvcs.delta import CodeCoder
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.history import Graph, Revision
from mvcs.local import CompactionSteps, Step
from mvcs.objects import EXACT, ObjectId
from mvcs.refs import RefRecord
from mvcs.store import ObjectStore, Placed, RestoreLimits, Rewriter, is_whole_pack, pack_fits

MERGED_BYTES = 1 << 18
_LENIENT = RestoreLimits(max_depth=1 << 10, max_cost=1e15)
LONGEST = 8


@dataclass(frozen=True)
class Data:
    """Where the data of a commit lie that was stored anew before it is ended.

    Attributes:
        own: its packs.
        leant_on: other packs that it leans on.
    """

    own: tuple[str, ...]
    leant_on: tuple[str, ...]

    @property
    def packs(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.own, *self.leant_on)


@dataclass(frozen=True)
class Place:
    """What a commit has at hand, when the target of the views knows what it may lean on.

    Attributes:
        revision: the commit, as it is.
        chosen: whether it has to keep to the limits.
        own: the packs that are its own.
        leant_on: those that it may lean on.
        values: gives what it holds.
    """

    revision: Revision
    chosen: bool
    own: tuple[str, ...]
    leant_on: Collection[str]
    values: Callable[[], CommitValues]


def never_rest() -> None:
    """Rest not at all."""


@dataclass(frozen=True)
class Anew:
    """How commits are stored anew.

    Attributes:
        limits: how long the chains of chosen commits may be.
        chosen: tells which commits are to keep to the limits; the others only follow.
        without: commits whose data go: nothing leans on them then, and of themselves history alone stays.
        coder: of codes of one byte.
        merged_bytes: an ending pack below this is not kept beside another: what it holds goes over.
        lost: packs that nothing may lean on, since a collector deletes them.
        salts: gives so many random bytes for each pack; a rehearsal takes the same ones each time.
        back: commits whose data come back, as packs end them that hold these.
        max_waste: of a pack of a commit that nothing leads to any more: the share that may be of no use.
            Where it is more, nothing leans on the pack afterwards.
    """

    limits: RestoreLimits
    chosen: Callable[[ObjectId], bool]
    without: Collection[ObjectId] = frozenset()
    coder: CodeCoder = "auto"
    merged_bytes: int = MERGED_BYTES
    lost: Collection[str] = frozenset()
    salts: Callable[[int], bytes] = secrets.token_bytes
    back: Mapping[ObjectId, Revision] = field(default_factory=dict)
    max_waste: float = 1.0


@dataclass
class Rewriting:
    """What is known of one rewriting of a history, in which commits come parents first.

    Attributes:
        store: the store.
        graph: its commits, as they were.
        anew: how they are stored.
        announce: is told the path of each pack before it is there.
        unfolded: the same history with short chains, from which commits are read that are to hang.
        steps: where each step goes on record when it was verified, and those that were made before.
        ends: the commits that were ended anew, by what ends them now.
        written: names of the packs that were written, here or by what this goes on with.
        bytes: of those that were written here.
        encoded: objects that were encoded anew.
        gone: packs of commits whose data go.
        numbers: how many commits come before each, where commits jump over others to have short chains.
        rest: is called between entries, and may wait.
        moved: packs that commits no longer need, by what took their place.
        data: where the data lie of commits that hang and are not ended yet.
    """

    store: ObjectStore
    graph: Graph
    anew: Anew
    announce: Callable[[str], None] | None = None
    unfolded: "Rewriting | None" = None
    steps: CompactionSteps = field(default_factory=CompactionSteps)
    ends: dict[ObjectId, Revision] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    bytes: int = 0
    encoded: int = 0
    gone: set[str] = field(default_factory=set)
    numbers: dict[ObjectId, int] = field(default_factory=dict)
    rest: Callable[[], None] = never_rest
    moved: dict[str, tuple[str, ...]] = field(default_factory=dict)
    data: dict[ObjectId, Data] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Know no pack yet."""
        self.graph_now = Graph(self.store.apart())
        self.read_from(self.unfolded)

    def read_from(self, unfolded: "Rewriting | None") -> None:
        """Read commits that are to hang from another rewriting from now on; None for as they are."""
        self.unfolded = unfolded
        self.views = Views(self.store if unfolded is None else unfolded.store, self.store)
        self.known = KnownValues(self.store, self.views.footer, self.anew.without)
        self.going_on = GoingOn(self.steps, self.views, self.anew.lost)

    def now(self, old: Revision) -> Revision:
        """Return a commit as it is ended now."""
        return self.ends.get(old.id, old)

    def ending(self, record: RefRecord) -> Revision | None:
        """Return what is to end the commit of a ref; None where that is what the ref names, or may stay.

        Where data go, a ref that a process which was stopped did not move any more follows those that it did.
        """
        if record.target is None:
            return None
        ended = self.ends.get(record.target)
        if ended is None and self.anew.without and record.pack is not None:
            ended = self._counting(record.target, record.pack)
        return None if ended is None or ended.written.pack == record.pack else ended

    def _counting(self, target: ObjectId, pack: str) -> Revision | None:
        """Return a commit as another pack ends it that tells the same of it, and counts."""
        known = self.graph.load(target)
        with suppress(CorruptionError, NotFoundError):
            for told in self.views.footer(pack).commits[:1]:
                if replace(told, pack=known.written.pack) == known.written:
                    return known
        return None

    def place(self, revision: Revision, leant_on: Iterable[str]) -> Place:
        """Return what a commit has at hand, which may lean on these packs but for lost ones."""
        pack = revision.written.pack
        own = (*self.views.footer(pack).own, pack)
        leant = tuple(dict.fromkeys(name for name in leant_on if name not in self.anew.lost))
        return Place(revision, self.anew.chosen(revision.id), own, leant, partial(self.known.of, revision))

    def kept(self, revision: Revision) -> list[str]:
        """Return the packs of a commit that may stay as they are; the target knows them then."""
        old, limits = revision.written, self.limits(revision)
        names = (*self.views.footer(old.pack).own, old.pack)
        names = tuple(name for name in names if name not in self.anew.lost)
        if revision.id in self.anew.without:
            wanted = self.known.of(revision).kinds
            names = tuple(name for name in names if self._is_history(name, wanted))
        return [name for name in names if pack_fits(self.views.target, name, self.views.footer(name), limits)]

    def _is_history(self, name: str, wanted: Collection[ObjectId]) -> bool:
        """Tell whether a pack holds nothing else but what is wanted."""
        return all(identifier in wanted for placed in self.contents(name) for identifier in placed.ids)

    def contents(self, name: str) -> tuple[Placed, ...]:
        """Return the entries of a pack, but for the last one of what ends a commit: it tells of that."""
        footer = self.views.footer(name)
        return footer.entries[:-1] if footer.commits else footer.entries

    def in_order(self, names: Iterable[str]) -> list[str]:
        """Return the packs that were written here last to first, then others: names tell no order."""
        written = {name: number for number, name in enumerate(self.written)}
        return sorted(names, key=lambda name: -written.get(name, -1))

    def limits(self, revision: Revision) -> RestoreLimits:
        """Return how long the chains of a commit may be."""
        if not self.anew.chosen(revision.id):
            return _LENIENT
        number, most = self.numbers.get(revision.id), self.anew.limits.max_depth
        if revision.commit.exactness == EXACT:
            number = None  # near a base, values take hardly less than alone: jumps only make chains longer
        return replace(self.anew.limits, near_depth=None if number is None else depth_at(number, most))

    def rewriter(self, revision: Revision) -> Rewriter:
        """Return what writes the packs of a commit."""
        views, limits = self.views, self.limits(revision)
        return Rewriter(views.source, views.target, limits, self.announce, self.anew.coder, self.anew.salts)

    def take(self, packs: Iterable[str], rewriter: Rewriter | None = None) -> None:
        """Count packs among those that were written, here or before."""
        self.written += packs
        if rewriter is not None:
            self.bytes += rewriter.stored_bytes
            self.encoded += rewriter.encoded

    def step(self, place: Place, wrote: tuple[str, ...], data: Data | None = None) -> Step:
        """Return what goes on record of a commit: which packs were written, and its data if it hangs."""
        own, leant_on = (None, ()) if data is None else (data.own, data.leant_on)
        return Step(place.revision.id.hex(), place.own[-1], wrote, own, leant_on, place.chosen)


@dataclass(frozen=True)
class GoingOn:
    """Takes over what was stored and verified, where everything around it is as it was then.

    Nothing is believed that can be looked at: packs have to hash to their names, and to hold all that their
    commit needs with the packs around it.

    Attributes:
        steps: those on record.
        views: of the store.
        lost: packs that nothing may lean on.
    """

    steps: CompactionSteps
    views: Views
    lost: Collection[str] = frozenset()

    def end(self, place: Place, ancestors: Iterable[tuple[ObjectId, str]]) -> tuple[str, ...]:
        """Return the packs of a step that ended a commit anew, the last of which does; none where none holds.

        Args:
            place: the commit.
            ancestors: the nearest, with the packs that end them now.
        """
        step = self._of(place, ends=True)
        if step is None or not self._whole(step):
            return ()
        footer = self.views.footer(step.wrote[-1])
        told = [(one.id, one.pack) for one in footer.commits[1:]]
        # A footer may leave out copies of the farthest.
        if (
            footer.commits[:1]
            and footer.commits[0].id == place.revision.id
            and told == list(ancestors)[: len(told)]
        ):
            packs = (*footer.needed, step.wrote[-1])
            return step.wrote if self._holds(place, step, packs) else ()
        return ()

    def hang(self, place: Place) -> Data | None:
        """Return where the data lie of a commit that was hung from later ones; None where that holds not."""
        step = self._of(place, ends=False)
        if step is None or step.own is None or not self._whole(step):
            return None
        data = Data(step.own, step.leant_on)
        return data if self._holds(place, step, data.packs) else None

    def _of(self, place: Place, *, ends: bool) -> Step | None:
        step = self.steps.found.get((place.revision.id.hex(), ends))
        if step is None or step.was != place.revision.written.pack or step.chosen is not place.chosen:
            return None
        return step

    def _whole(self, step: Step) -> bool:
        return all(is_whole_pack(self.views.source.backend, name) for name in step.wrote)

    def _holds(self, place: Place, step: Step, packs: Collection[str]) -> bool:
        """Tell whether a commit needs nothing but packs that it may need, and everything is in them."""
        allowed = {*place.own, *place.leant_on, *step.wrote}
        if not allowed.issuperset(packs) or not set(packs).isdisjoint(self.lost):
            return False
        catalog = self.views.target.catalog
        came = [name for name in packs if name not in place.leant_on]
        try:
            for name in came:
                catalog.add(name, self.views.footer(name))
            needed = place.values().kinds.keys() - {place.revision.id}
            if all(catalog.find(name) is not None for name in needed):
                return True
        except (CorruptionError, NotFoundError):
            pass  # what is damaged is met again where it is stored anew
        catalog.forget(came)
        return False


"""Chains above are cut by snapshots alone: jumps save less there than longer ways to most commits cost."""


def period(most: int) -> int:
    """Return after how many commits the next one is a snapshot."""
    return (most + 1) * (most + 2) // 2


def depth_at(number: int, most: int) -> int | None:
    """Return how many deltas a commit may have below it; None where `most` alone tells.

    The first ones are a chain of `most` deltas. The next commit is near the one at its beginning, and begins
    a chain that is one delta shorter; and so on, until a chain is a single commit.

    Args:
        number: how many commits come before, along first parents.
        most: deltas between a chunk and its snapshot.
    """
    if most > LONGEST:
        return None
    left, start = number % period(most), 0
    while left > most - start:
        left -= most - start + 1
        start += 1
    return start + left
