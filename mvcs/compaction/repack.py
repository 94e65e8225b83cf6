"""Commits are stored again, one by one: with shorter chains, near later ones, or without what is dropped."""

import secrets
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from math import isqrt

from mvcs.compaction.neighbours import Neighbours, fill
from mvcs.compaction.values import CommitValues, KnownValues
from mvcs.compaction.views import Needs, Views
from mvcs.delta import CodeCoder, Encoding
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.history import Graph, Revision
from mvcs.objects import EXACT, Kind, ObjectId
from mvcs.progress import SILENT, Progress
from mvcs.refs import HEADS, REMOTES, TAGS, GoingError, Moved
from mvcs.restore import PartlyNeeded, partly_needed
from mvcs.retention import Source, pinned
from mvcs.store import (
    VALUE_FOLDER,
    Backend,
    DataDrop,
    ObjectStore,
    Overlay,
    Placed,
    Placement,
    RestoreLimits,
    Rewriter,
    is_whole_pack,
    pack_fits,
    pack_path,
)

MERGED_BYTES = 1 << 18
LONGEST = 8
"""Chains above are cut by snapshots alone: jumps save less there than longer ways to most commits cost."""
_LENIENT = RestoreLimits(max_depth=1 << 10, max_cost=1e15)
_MANY = 8  # commits from which on it pays to read them from short chains
_ROUNDS = 8


def never_rest() -> None:
    """Rest not at all."""


def chosen_of(identifiers: Collection[ObjectId] | None) -> Callable[[ObjectId], bool]:
    """Return what tells of the commits that are chosen; all where None are named."""
    return (lambda _: True) if identifiers is None else frozenset(identifiers).__contains__


@dataclass(frozen=True)
class Terms:
    """How commits are stored again.

    Attributes:
        limits: how long the chains of chosen commits may be.
        chosen: tells which commits are to keep to the limits; others change as far as packs that they need
            are superseded.
        for_archive: store chosen commits near later ones.
        drops: commits whose data go: nothing is stored near them then, and of themselves history stays.
        back: where the data of commits lie whose drops are taken back.
        coder: of codes of one byte.
        merged_bytes: a pack below this is not kept beside one that is written: what it holds goes there.
        lost: packs that nothing may need, since a collector deletes them.
        max_waste: of a pack of a commit that nothing leads to any more: the share that may be of no use.
            Where it is more, nothing needs the pack afterwards.
        salts: gives so many random bytes for each pack; a rehearsal takes the same ones each time.
    """

    limits: RestoreLimits
    chosen: Callable[[ObjectId], bool]
    for_archive: bool = False
    drops: Mapping[ObjectId, DataDrop] = field(default_factory=dict)
    back: Mapping[ObjectId, Placement] = field(default_factory=dict)
    coder: CodeCoder = "auto"
    merged_bytes: int = MERGED_BYTES
    lost: Collection[str] = frozenset()
    max_waste: float = 1.0
    salts: Callable[[int], bytes] = secrets.token_bytes


@dataclass(frozen=True)
class Repacked:
    """What was stored again.

    Attributes:
        commits: how many commits were looked at.
        moves: those whose data lie elsewhere now, or are to.
        encoded: objects that were encoded again.
        packs: packs that were written.
        bytes: their bytes.
        before: bytes of all packs that value layers needed.
        after: bytes of those that they need then.
        has_exact_layers: whether commits have, or had, exact layers, which stay what they are.
        left: packs that no commit needs any more, since too much of them was of no use.
    """

    commits: int = 0
    moves: tuple[Moved, ...] = ()
    encoded: int = 0
    packs: tuple[str, ...] = ()
    bytes: int = 0
    before: int = 0
    after: int = 0
    has_exact_layers: bool = False
    left: tuple[PartlyNeeded, ...] = ()


class Repack:
    """One pass over the commits of a store, parents first. Old packs stay: `mvcs gc` finds them.

    Each commit is written, proven and published before the next. So the next pass continues behind one that
    was broken off: it finds published commits as they have to be.

    Attributes:
        now: where the data of each commit lie that was met.
        moves: by commits: what was published, or is to be.
        paths: of the packs that were announced so far.
        block: commits of an archive that are read from short chains at a time.
        rest: is called again and again, and may wait.
    """

    block = 64

    def __init__(
        self,
        store: ObjectStore,
        source: Source,
        terms: Terms,
        progress: Progress = SILENT,
        *,
        announce: Callable[[str], None] | None = None,
        publish: Callable[[Moved], Placement] | None = None,
        scratch: Backend | None = None,
        rest: Callable[[], None] = never_rest,
    ) -> None:
        """Look at nothing yet.

        Args:
            store: where packs are read and written.
            source: its refs and HEADs.
            terms: how commits are stored.
            progress: hears of the commits done.
            announce: hears the path of each pack before it is there.
            publish: writes where the data of a commit lie, and returns where they lie then: another writer
                may have been first. By default nothing is published.
            scratch: has room for short chains of `block` commits, from which those of an archive are read;
                None to decode each from the end of its chain.
            rest: is called between entries.
        """
        self.now: dict[ObjectId, Placement] = {}
        self.moves: dict[ObjectId, Moved] = {}
        self.paths: list[str] = []
        self.rest = rest
        self._store, self._source, self._terms, self._progress = store, source, terms, progress
        self._announce, self._publish, self._scratch = announce, publish, scratch
        self._graph = Graph(store.apart())
        self._was: dict[ObjectId, Placement] = {}
        self._read: dict[ObjectId, Placement] = {}
        self._before: set[str] = set()
        self._moved: dict[str, tuple[str, ...]] = {}  # superseded packs, by what took their place
        self._gone: set[str] = set()  # packs with dropped data
        self._lost = set(terms.lost)
        self._numbers: dict[ObjectId, int] = {}
        self._children: dict[ObjectId, list[Revision]] = defaultdict(list)
        self._written: dict[str, int] = {}
        self._bytes = self._encoded = 0
        self._has_exact_layers = False
        self._left: list[PartlyNeeded] = []
        self._reading: Repack | None = None
        self._views = Views(store, store)
        self._known = KnownValues(store, self._views.footer, self.now.__getitem__, self._has_data)

    def run(self) -> Repacked:
        """Store again what has to be, and what is committed meanwhile.

        Raises:
            CorruptionError: something is damaged.
            NotFoundError: or gone.
            GoingError: a collector deletes, or deleted, what was written or is needed.
            StorageError: the store could not be written.
            UnsupportedFormatError: a newer mvcs upgraded the store.
        """
        for _ in range(_ROUNDS if self._publish else 1):
            revisions = self._new_commits()
            if not revisions:
                break
            self._store_again(revisions)
        sizes = self._store.backend.sizes(VALUE_FOLDER)
        needed = {name for placement in self.now.values() for name in placement.packs}
        before, after = (
            sum(sizes.get(pack_path(name), 0) for name in names) for names in (self._before, needed)
        )
        return Repacked(
            len(self.now),
            tuple(self.moves.values()),
            self._encoded,
            tuple(self._written),
            self._bytes,
            before,
            after,
            self._has_exact_layers,
            tuple(self._left),
        )

    def _new_commits(self) -> list[Revision]:
        """Return the commits behind refs, pins and HEADs that were not met yet, parents first."""
        refs, manifests = self._source.refs, self._store.manifests
        rows = (refs.survey(kind).readable().values() for kind in (HEADS, TAGS, REMOTES))
        tips = self._graph.tips(chain.from_iterable(rows))
        pins = map(self._graph.stored, pinned(self._store.backend))
        found = []
        for revision in self._graph.walk((*tips, *filter(None, pins), *self._source.heads()), self.now):
            found.append(revision)
            self.rest()
        found.reverse()
        for commit, placement in manifests.placements([revision.id for revision in found]):
            self._learn(commit, placement)
        for revision in found:
            parents = revision.commit.parents
            self._numbers[revision.id] = self._numbers.get(parents[0], 0) + 1 if parents else 0
            self._has_exact_layers |= bool(revision.written.exact_packs)
            for parent in parents:
                self._children[parent].append(revision)
        return found

    def _learn(self, commit: ObjectId, placement: Placement) -> None:
        """Take in where a commit lies, and which packs of it that supersedes: others may need these still."""
        self._read[commit] = placement
        self._before.update(placement.packs)
        now = self._terms.back.get(commit, placement)
        self.now[commit] = self._was[commit] = now
        if now is not placement:
            self.moves[commit] = Moved(commit, now, placement)
        superseded = set(placement.own)
        for number in self._store.manifests.numbers(commit) if placement.number else ():
            with suppress(CorruptionError, NotFoundError):  # it was collected, or is none of the newest
                superseded.update(self._store.manifests.numbered(commit, number).own)
        if self._has_data(commit):
            self._moved |= dict.fromkeys(superseded.difference(now.packs), now.packs)
        else:
            self._gone.update(name for name in superseded if self._has_chunks(name))

    def _has_data(self, commit: ObjectId) -> bool:
        """Tell whether a commit has its data, and keeps them."""
        return commit not in self._terms.drops and self.now[commit].dropped is None

    def _has_chunks(self, name: str) -> bool:
        try:
            contents = self._contents(name)
        except (CorruptionError, NotFoundError):
            return True  # nothing can be stored near what it holds
        return any(member.kind is Kind.CHUNK for placed in contents for member in placed.entry.members)

    def _contents(self, name: str) -> tuple[Placed, ...]:
        """Return the entries of a pack but for those at its end: random bytes, and what tells of a commit."""
        entries = self._views.footer(name).entries
        kinds = {member.kind for placed in entries for member in placed.entry.members}
        return entries[: -2 if Kind.COMMIT in kinds else -1]

    def _store_again(self, revisions: list[Revision]) -> None:
        if self._terms.max_waste < 1:
            dropped = {revision.id for revision in revisions if not self._has_data(revision.id)}
            found = partly_needed(self._store, revisions, dropped, self.rest)
            self._left += [each for each in found if each.is_waste(self._terms.max_waste)]
            self._lost.update(each.pack for each in self._left)
        self._lose_what_is_near_dropped()
        due = self._due(revisions) if self._terms.for_archive else []
        self._progress.start("rewriting", 2 * len(due) + len(revisions), "commits")
        for start in reversed(range(0, len(due), self.block)):
            block = due[start : start + self.block]
            with self._short_chains(block):
                for revision in reversed(block):
                    self._store_near_later(revision)
                    self._progress.advance(1)
        for revision in revisions:
            self._store_near_earlier(revision)
            self._progress.advance(1)
            self.rest()
        self._progress.finish()

    def _lose_what_is_near_dropped(self) -> None:
        """Have no commit need packs of commits that are gone and of which a part is near what goes.

        Nothing needs that part, so that nothing keeps its bases: it could not be read for good.
        """
        own = {name for placement in self.now.values() for name in placement.own}
        others = {name for placement in self.now.values() for name in placement.others}
        left = others.difference(own, self._moved, self._gone, self._lost)
        going, held = self._gone | self._lost, set[ObjectId]()
        while left and going:
            held.update(*(each.held for _, each in self._readable(going)))
            going = {name for name, it in self._readable(left) if not held.isdisjoint(it.bases - it.held)}
            left -= going
            self._lost |= going

    def _readable(self, packs: Iterable[str]) -> Iterator[tuple[str, Needs]]:
        """Yield what packs hold and need, but for those that are gone or damaged."""
        for name in packs:
            with suppress(CorruptionError, NotFoundError):
                yield name, self._views.needs(name)

    def _store_near_earlier(self, revision: Revision) -> None:
        """Store a commit again as far as it has to be, behind its parents."""
        now, terms = self.now[revision.id], self._terms
        has_to_move = revision.id in terms.drops or any(
            name in packs for packs in (self._moved, self._gone, self._lost) for name in now.others
        )
        is_chosen = terms.chosen(revision.id) and not terms.for_archive and self._has_data(revision.id)
        if not (has_to_move or is_chosen):
            return
        nearest = list(self._nearest_alike(revision))
        packs = [name for one in nearest for name in self.now[one.id].packs]
        self._views.look_at(now.packs, self._may_need(revision, (*packs, *now.others)))
        kept = self._kept(revision)
        if len(kept) == len(now.own) and not has_to_move:
            return
        values, others = self._known.of(revision), [self._known.of(one) for one in nearest]
        self._write(revision, kept, values, Neighbours(self._views.source, values, others))

    def _nearest_alike(self, revision: Revision) -> Iterator[Revision]:
        """Yield the nearest ancestor along the first parents of each parent that has data if this one has."""
        has_data = self._has_data(revision.id)
        for parent in self._graph.parents(revision):
            line = self._graph.first_parents(parent)
            yield from islice((one for one in line if self._is_alike(one, has_data=has_data)), 1)

    def _is_alike(self, revision: Revision, *, has_data: bool) -> bool:
        """Tell whether a commit has data, or else at least its tree, as another one has."""
        return self._has_data(revision.id) == has_data and bool(self.now[revision.id].packs)

    def _may_need(self, revision: Revision, names: Iterable[str]) -> list[str]:
        """Return which of some packs a commit may need, or what took their place: a dropped one no data."""
        has_data = self._has_data(revision.id)
        found = (name for name in self._where(names) if has_data or not self._has_chunks(name))
        # Those that were written here come last to first, then others: names tell no order.
        return sorted(found, key=lambda name: -self._written.get(name, -1))

    def _where(self, names: Iterable[str], seen: set[str] | None = None) -> Iterator[str]:
        """Yield packs, and for superseded ones what took their place; none that nothing may need."""
        seen = set() if seen is None else seen
        for name in names:
            if name not in seen:
                seen.add(name)
                if name in self._moved:
                    yield from self._where(self._moved[name], seen)
                elif name not in self._gone and name not in self._lost:
                    yield name

    def _kept(self, revision: Revision) -> list[str]:
        """Return the packs of a commit that may stay as they are; the target knows them then."""
        own = self.now[revision.id].own
        names = [name for name in own if name not in self._lost]
        if not self._has_data(revision.id):
            wanted = self._known.of(revision).kinds
            names = [
                name for name in names if all(wanted.keys() >= {*each.ids} for each in self._contents(name))
            ]
        kept = self._fitting(revision, names)
        large = [name for name in kept if self._views.length(name) >= self._terms.merged_bytes]
        if len(kept) == len(own) or len(large) == len(kept):
            return kept
        self._views.target.catalog.forget(kept)
        return self._fitting(revision, large)

    def _fitting(self, revision: Revision, names: Iterable[str]) -> list[str]:
        target, limits = self._views.target, self._limits(revision)
        return [name for name in names if pack_fits(target, name, self._views.footer(name), limits)]

    def _limits(self, revision: Revision) -> RestoreLimits:
        """Return how long the chains of a commit may be."""
        limits, number = self._terms.limits, self._numbers.get(revision.id)
        if not self._terms.chosen(revision.id):
            return _LENIENT
        # Near a base, exact values take hardly less than alone: jumps only make chains longer.
        if self._terms.for_archive or number is None or revision.commit.exactness == EXACT:
            return limits
        return replace(limits, near_depth=depth_at(number, limits.max_depth))

    def _due(self, revisions: list[Revision]) -> list[Revision]:
        """Return the commits of an archive that do not lie near later ones yet, or near some that move."""
        due: dict[ObjectId, Revision] = {}
        for revision in reversed(revisions):
            if self._terms.chosen(revision.id) and self.now[revision.id].packs:
                later, now = self._later(revision), self.now[revision.id]
                packs = {name for one in later for name in self.now[one.id].packs}
                is_near = packs.issuperset(now.others) and self._is_near_some(revision, later)
                if not is_near or any(one.id in due for one in later):
                    due[revision.id] = revision
        return [*due.values()][::-1]

    def _later(self, revision: Revision) -> list[Revision]:
        """Return the nearest later commits that are chosen, and have data if this one has."""
        has_data = self._has_data(revision.id)
        found, seen = list[Revision](), set[ObjectId]()
        queue = deque(self._children[revision.id])
        while queue:
            child = queue.popleft()
            if child.id in seen:
                continue
            seen.add(child.id)
            if self._terms.chosen(child.id) and self._is_alike(child, has_data=has_data):
                found.append(child)
            else:
                queue += self._children[child.id]
        return found

    def _is_near_some(self, revision: Revision, later: list[Revision]) -> bool:
        return not later or bool(self.now[revision.id].others) or bool(self._bases_of(revision))

    def _bases_of(self, revision: Revision) -> dict[ObjectId, ObjectId]:
        """Return what a commit was stored near: halves of ids, each with what lies near it."""
        found: dict[ObjectId, ObjectId] = {}
        for name in self._was[revision.id].own:
            for placed in self._views.footer(name).entries:
                if placed.entry.encoding is not Encoding.NARROWED:
                    for base, identifier in zip(placed.entry.bases, placed.ids, strict=False):
                        found.setdefault(base.id, identifier)
        return found

    def _store_near_later(self, revision: Revision) -> None:
        """Store a commit near later ones, which were stored before it."""
        later, own = self._later(revision), self.now[revision.id].own
        packs = [name for one in later for name in self.now[one.id].packs]
        beside = [name for one in later for name in self._where_read(one)]
        self._views.look_at(self._where_read(revision), self._may_need(revision, packs), beside)
        kept = self._kept(revision) if self._is_near_some(revision, later) else []
        if len(kept) < len(own):
            self._views.target.catalog.forget(kept)
            kept = []
        near = {base: name for one in later for base, name in self._bases_of(one).items()}
        values, others = self._known.of(revision), [self._known.of(one) for one in later]
        self._write(revision, kept, values, Neighbours(self._views.source, values, others, near, down=False))

    def _where_read(self, revision: Revision) -> tuple[str, ...]:
        """Return the packs from which a commit of an archive is read."""
        return (self._was if self._reading is None else self._reading.now)[revision.id].packs

    @contextmanager
    def _short_chains(self, revisions: list[Revision]) -> Iterator[None]:
        """Store commits with short chains beside the store meanwhile: they are read newest first."""
        if self._scratch is None or len(revisions) < _MANY:
            self._progress.advance(len(revisions))
            yield
            return
        beside = ObjectStore(Overlay(self._store.backend, self._scratch), self._store.memory)
        limits = RestoreLimits(max(2, isqrt(len(revisions)) - 1), self._terms.limits.max_cost)
        reading = Repack(
            beside, self._source, Terms(limits, self._terms.chosen, merged_bytes=0), rest=self.rest
        )
        for placements in (reading.now, reading._was, reading._read):
            placements.update(self._was)
        views = self._views
        try:
            for revision in revisions:
                reading._store_near_earlier(revision)
                self._progress.advance(1)
            self._reading, self._views = reading, Views(beside, self._store)
            yield
        finally:
            self._views, self._reading = views, None
            for path in reading.paths:
                self._scratch.delete(path)

    def _write(self, revision: Revision, kept: list[str], values: CommitValues, near: Neighbours) -> None:
        """Write what no pack that stays has, prove it, and publish where all of it lies."""
        terms, limits, read = self._terms, self._limits(revision), self._read[revision.id]
        views = self._views
        with closing(
            Rewriter(views.source, views.target, limits, self._announced, terms.coder, terms.salts)
        ) as rewriter:
            fill(rewriter, revision.id, values, near, self.rest)
            placement = rewriter.finish(revision.written, values.kinds, kept)
            rewriter.prove()
        self._prove(rewriter.packs)
        self._written |= {name: len(self._written) + number for number, name in enumerate(rewriter.packs)}
        self._bytes += rewriter.stored_bytes
        self._encoded += rewriter.encoded
        was, dropped = self.now[revision.id], terms.drops.get(revision.id, self.now[revision.id].dropped)
        if {*placement.packs} != {*was.packs} or dropped != was.dropped:
            self._move(Moved(revision.id, replace(placement, dropped=dropped), read))

    def _announced(self, path: str) -> None:
        self.paths.append(path)
        if self._announce is not None:
            self._announce(path)

    def _prove(self, packs: Collection[str]) -> None:
        """Read back what was written: each pack has to hash to its name.

        Raises:
            CorruptionError: one does not.
            GoingError: a collector deleted some.
        """
        backend = self._store.backend
        for name in packs:
            self.rest()
            if not is_whole_pack(backend, name):
                gone = [one for one in packs if backend.size(pack_path(one)) is None]
                if gone:
                    raise GoingError(gone)
                raise CorruptionError(
                    f"pack '{pack_path(name)}' was written and reads back as something else",
                    hint="its commit stays where it was; look after the disk",
                )

    def _move(self, move: Moved) -> None:
        was, now = self.now[move.commit], move.now
        if self._publish is not None:
            now = self._read[move.commit] = self._publish(move)
        if now == move.now:
            self.moves[move.commit] = move
        self.now[move.commit] = now
        if self._has_data(move.commit):
            self._moved |= dict.fromkeys(set(was.own).difference(now.packs), now.packs)


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
