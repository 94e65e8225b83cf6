"""Commits are stored anew one by one, each as far as it has to be, and ended anew where its packs moved."""

import secrets
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field

from mvcs.compaction.filling import fill
from mvcs.compaction.neighbours import Neighbours
from mvcs.compaction.sound_packs import sound_packs
from mvcs.compaction.values import KnownValues
from mvcs.compaction.views import Views
from mvcs.delta import CodeCoder, Encoding
from mvcs.history import Graph, Revision
from mvcs.objects import ObjectId
from mvcs.store import ObjectStore, RestoreLimits, Rewriter, pack_fits

MERGED_BYTES = 1 << 18
_LENIENT = RestoreLimits(max_depth=1 << 10, max_ratio=1e15)


@dataclass(frozen=True)
class Anew:
    """How commits are stored anew.

    Attributes:
        limits: how long the chains of chosen commits may be.
        chosen: tells which commits are to keep to the limits; the others only follow.
        without: commits whose data go: nothing leans on them then, and of themselves history alone stays.
        coder: of codes of one byte.
        merged_bytes: an ending pack below this is not kept beside another: what it holds goes over.
        salts: gives so many random bytes for each pack; a rehearsal takes the same ones each time.
    """

    limits: RestoreLimits
    chosen: Callable[[ObjectId], bool]
    without: Collection[ObjectId] = frozenset()
    coder: CodeCoder = "auto"
    merged_bytes: int = MERGED_BYTES
    salts: Callable[[int], bytes] = secrets.token_bytes


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


@dataclass
class Movement:
    """One rewriting of a history, in which commits come parents first.

    Attributes:
        store: the store.
        graph: its commits, as they were.
        anew: how they are stored.
        announce: is told the path of each pack before it is there.
        unfolded: the same history with short chains, from which commits are read that are to hang.
        ends: the commits that were ended anew, by what ends them now.
        written: names of the packs that were written.
        bytes: their bytes.
        encoded: objects that were encoded anew.
        gone: packs of commits whose data go.
    """

    store: ObjectStore
    graph: Graph
    anew: Anew
    announce: Callable[[str], None] | None = None
    unfolded: "Movement | None" = None
    ends: dict[ObjectId, Revision] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    bytes: int = 0
    encoded: int = 0
    gone: set[str] = field(default_factory=set)
    _moved: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _data: dict[ObjectId, Data] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Know no pack yet."""
        self.views = Views(self.store if self.unfolded is None else self.unfolded.store, self.store)
        self._now = Graph(self.store.apart())
        self._known = KnownValues(self.store, self.views.footer, self.anew.without)

    def now(self, old: Revision) -> Revision:
        """Return a commit as it is ended now."""
        return self.ends.get(old.id, old)

    def give_up(self, revision: Revision) -> None:
        """Note the packs of a commit whose data go, before the first commit is looked at."""
        self.gone.update((*self.views.footer(revision.written.pack).own, revision.written.pack))

    def advance(self, revision: Revision) -> bool:
        """Store a commit anew as far as it has to be, after its parents; tell whether it was ended anew.

        Raises:
            CorruptionError: something of it is damaged.
            NotFoundError: or gone.
        """
        parents = self.graph.parents(revision)
        follows = self._follows(revision, parents)
        if not (follows or self.anew.chosen(revision.id) or revision.id in self.anew.without):
            return False
        old, data = revision.written, self._data.get(revision.id)
        own = (*self.views.footer(old.pack).own, old.pack)
        self.views.stand(old.pack, self._in_order(self._leant_on(revision, parents)))
        kept = list(data.own) if data else self._kept(revision)
        if not (data or follows) and len(kept) == len(own):
            return False
        if old.pack in kept and self.views.length(old.pack) < self.anew.merged_bytes:
            kept.remove(old.pack)
            self.views.target.catalog.forget([old.pack])
        with closing(self._rewriter(revision)) as rewriter:
            values = self._known.of(revision)
            nearest = [self._known.of(parent) for parent in self._kept_parents(parents)]
            fill(rewriter, revision.id, values, Neighbours(self.views.source, values, nearest))
            copies = self._now.copies(map(self.now, parents))
            pack = rewriter.end(old, copies, values.kinds, tuple(kept))
            rewriter.prove()
        self._take(rewriter)
        footer = self.views.footer(pack)
        self._moved |= dict.fromkeys(set(own).difference(kept), (pack, *footer.needed))
        self._now.learn(footer)
        self.ends[revision.id] = self._now.load(revision.id, pack)
        return True

    def _follows(self, revision: Revision, parents: Iterable[Revision]) -> bool:
        """Tell whether a commit has to be ended anew whatever its own packs are like."""
        needed = self.views.footer(revision.written.pack).needed
        moved = any(name in self._moved or name in self.gone for name in needed)
        return moved or revision.id in self._data or any(parent.id in self.ends for parent in parents)

    def hang(self, revision: Revision, later: Iterable[Revision]) -> None:
        """Store the data of a commit near those of later ones, which come before it; it is not ended yet.

        Raises:
            CorruptionError: something of it is damaged.
            NotFoundError: or gone.
        """
        old, children = revision.written, [child for child in later if child.id in self._data]
        leant = self._in_order(name for child in children for name in self._data[child.id].packs)
        beside = [self._unfolded(child) for child in children]
        beside += [name for pack in beside for name in self.views.footer(pack).needed]
        self.views.stand(self._unfolded(revision), leant, beside)
        hanging = {base: name for child in children for base, name in self._bases_of(child).items()}
        hangs = not children or bool(self._bases_of(revision))
        kept = self._kept(revision) if hangs else []
        own = (*self.views.footer(old.pack).own, old.pack)
        if len(kept) < len(own):
            self.views.target.catalog.forget(kept)
            kept = []
        with closing(self._rewriter(revision)) as rewriter:
            values, above = self._known.of(revision), [self._known.of(child) for child in children]
            near = Neighbours(self.views.source, values, above, hanging, down=False)
            fill(rewriter, revision.id, values, near)
            rewriter.flush()
            rewriter.lean_on(name for name in values.kinds if name != revision.id)
            rewriter.prove()
        self._take(rewriter)
        packs = (*kept, *rewriter.packs)
        self._data[revision.id] = Data(packs, tuple(sorted(rewriter.reach.difference(packs))))

    def hung(self, revision: Revision) -> None:
        """Go over to ending commits anew, of which some hang; this one stays as it was if it hung already."""
        old, data = revision.written, self._data[revision.id]
        own = (*self.views.footer(old.pack).own, old.pack)
        if data.own == own:
            del self._data[revision.id]
        else:
            self._moved |= dict.fromkeys(set(own).difference(data.own), data.packs)

    def _unfolded(self, revision: Revision) -> str:
        """Return the pack that ends a commit where it is read."""
        return (revision if self.unfolded is None else self.unfolded.now(revision)).written.pack

    def _bases_of(self, revision: Revision) -> dict[ObjectId, ObjectId]:
        """Return what a commit is stored near as it is: halves of ids, each with what lies near it."""
        found: dict[ObjectId, ObjectId] = {}
        pack = revision.written.pack
        for name in (*self.views.footer(pack).own, pack):
            for placed in self.views.footer(name).entries:
                if placed.entry.encoding is not Encoding.NARROWED:
                    for base, identifier in zip(placed.entry.bases, placed.ids, strict=False):
                        found.setdefault(base.id, identifier)
        return found

    def _kept(self, revision: Revision) -> list[str]:
        """Return the packs of a commit that may stay as they are; the target knows them then."""
        old, limits = revision.written, self._limits(revision)
        names = (*self.views.footer(old.pack).own, old.pack)
        if revision.id in self.anew.without:
            wanted = self._known.of(revision).kinds
            names = tuple(name for name in names if self._is_history(name, wanted))
        return [name for name in names if pack_fits(self.views.target, name, self.views.footer(name), limits)]

    def _is_history(self, name: str, wanted: Collection[ObjectId]) -> bool:
        """Tell whether a pack holds nothing else but what is wanted, and its last entry."""
        entries = self.views.footer(name).entries[:-1]
        return all(identifier in wanted for placed in entries for identifier in placed.ids)

    def _leant_on(self, revision: Revision, parents: Iterable[Revision]) -> Iterable[str]:
        """Return the packs that a commit may lean on: its parents, its own data, and what it leans on now."""
        trusted = list(self._data[revision.id].packs if revision.id in self._data else ())
        for parent in self._kept_parents(parents):
            pack = self.now(parent).written.pack
            trusted += (pack, *self.views.footer(pack).needed)
        reach = self.views.footer(revision.written.pack).reach
        trusted += (now for name in reach for now in self._moved.get(name, ()))
        others = [name for name in reach if name not in self._moved and name not in self.gone]
        return sound_packs(trusted, others, self.views.footer) if self.gone else (*trusted, *others)

    def _in_order(self, names: Iterable[str]) -> list[str]:
        """Return the packs that were written here last to first, then others: names tell no order."""
        written = {name: number for number, name in enumerate(self.written)}
        return sorted(names, key=lambda name: -written.get(name, -1))

    def _kept_parents(self, parents: Iterable[Revision]) -> Iterator[Revision]:
        """Yield the nearest ancestors whose data stay."""
        for parent in parents:
            yield from (one for one in self._line(parent) if one.id not in self.anew.without)

    def _line(self, start: Revision) -> Iterator[Revision]:
        """Yield a commit, and its first parents down to the first whose data stay."""
        for revision in self.graph.first_parents(start):
            yield revision
            if revision.id not in self.anew.without:
                return

    def _limits(self, revision: Revision) -> RestoreLimits:
        return self.anew.limits if self.anew.chosen(revision.id) else _LENIENT

    def _rewriter(self, revision: Revision) -> Rewriter:
        views, limits = self.views, self._limits(revision)
        return Rewriter(views.source, views.target, limits, self.announce, self.anew.coder, self.anew.salts)

    def _take(self, rewriter: Rewriter) -> None:
        self.written += rewriter.packs
        self.bytes += rewriter.stored_bytes
        self.encoded += rewriter.encoded
