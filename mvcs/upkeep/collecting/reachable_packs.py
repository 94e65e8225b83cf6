"""Which packs commits need: every commit behind a ref, a record of its past, or HEAD."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from mvcs.errors import CorruptionError, MvcsError, NotFoundError, UnsupportedFormatError
from mvcs.history import CountingGraph, Revision
from mvcs.memory import NOTHING
from mvcs.objects import ObjectId
from mvcs.refs import (
    HEADS,
    REMOTES,
    TAGS,
    TAKEN_BACK,
    DamagedRecord,
    RefRecord,
    RefStore,
    how_to_give_up,
    later_metrics,
    lost_end_error,
    recordless_error,
)
from mvcs.remotes import has_data
from mvcs.retention import DataDrops, Layer, Plan, Ruling, Source
from mvcs.store import (
    DROPPED_DATA,
    MOVED_BASES,
    PARALLEL_READERS,
    UNREADABLE_ERRORS,
    Backend,
    ObjectStore,
    commit_footers,
    has_upgrade,
    read_footer,
    refuse_changes,
    value_packs,
)
from mvcs.upkeep.collecting.known_history import KnownHistory, Line, Node

_BATCH = 64
GivenUp = Callable[[str, str, RefRecord], bool]
Told = tuple[ObjectId, AbstractSet[str]]
"""A commit, and all packs that reading it needs: the one that ends it, and those this one names."""


@dataclass(frozen=True)
class Held:
    """What one clone's HEAD needs, and no ref may name.

    Attributes:
        commit: where HEAD stands without a branch.
        past: where it stood so before; what is no longer stored of that counts for nothing.
        doubt: why it may have stood on any commit of the store; None where its past is known.
    """

    commit: ObjectId | None = None
    past: frozenset[ObjectId] = frozenset()
    doubt: str | None = None


@dataclass(frozen=True)
class Reach:
    """What commits need of some packs.

    Attributes:
        left: those that none needs; nothing while a commit cannot be read that only the past leads to.
        doubts: why any commit of the store may have been named.
        unread: why such a commit cannot be read.
        past: those that stay for no branch, tag or HEAD of now.
    """

    left: set[str]
    doubts: list[str] = field(default_factory=list)
    unread: MvcsError | None = None
    past: frozenset[str] = frozenset()


def unneeded(
    backend: Backend,
    packs: Iterable[str],
    head: Held | None = None,
) -> set[str]:
    """Return those of `packs`, by name, that no commit of a store needs for either of its layers.

    Raises:
        MvcsError: something on the way is damaged, so that nobody can tell.
    """
    found = survey(backend, packs, head)
    if found.unread is not None:
        raise found.unread
    return found.left


def survey(
    backend: Backend,
    packs: Iterable[str],
    head: Held | None = None,
    given_up: GivenUp | None = None,
    known: KnownHistory | None = None,
    *,
    deletes: bool = True,
) -> Reach:
    """Tell which packs no commit of a store needs for either of its layers.

    Commits count that a branch, a tag or what is known of a remote leads to, now or in a record that is kept
    of its past, and those that HEAD stands on or stood on. Where a record of the past is damaged or lost, or
    no ref is left, every commit of the store counts.

    Args:
        backend: the store.
        packs: names of packs.
        head: what HEAD needs; None for a store without one.
        given_up: tells of a ref, by its newest record, whether its past counts no more.
        known: what need not be read again; what is read is added.
        deletes: whether what none needs is about to be deleted, so that no look is spared.

    Raises:
        MvcsError: something is damaged that a branch, a tag or HEAD leads to now, so that nobody can tell.
        UnsupportedFormatError: a newer mvcs upgraded the store: it may need packs in other ways.
    """
    refuse_changes(backend)
    left = set(packs)
    if not left:
        return Reach(left)
    head = head or Held()
    known = KnownHistory() if known is None else known
    named = Named.of(RefStore(backend, known=known.records), given_up)
    doubts = [*named.doubts, *filter(None, [head.doubt])]
    walk = _Walk(backend, known)
    walk.strike(left, _targets(named.newest))
    # HEAD names no pack: only of commits that no ref leads to it has to be asked which one ends them.
    bare = {*head.past, *filter(None, [head.commit])} - walk.seen
    walk.strike(left, [(head.commit, None)] if head.commit is not None else ())
    now = frozenset(left)
    try:
        walk.strike(left, walk.past(named, head, every=bool(doubts)))
    except (CorruptionError, NotFoundError) as error:
        return Reach(set(), doubts, error)
    if left:
        left -= packs_of_kept_data(backend, head.commit, bare, known, left, deletes=deletes)
    if left and deletes:
        left -= packs_of_undropped_data(backend, walk.ended, known, left)
    return Reach(left, doubts, past=now - left)


def unneeded_now(backend: Backend, packs: Iterable[str], kind: str, start: str = "") -> set[str]:
    """Return those of `packs` that no commit needs behind refs of one kind whose names begin with `start`.

    Raises:
        MvcsError: something on the way is damaged, so that nobody can tell.
    """
    refuse_changes(backend)
    left, walk = set(packs), _Walk(backend, KnownHistory())
    found = RefStore(backend).survey(kind).required()
    walk.strike(left, _targets(record for name, record in found.items() if name.startswith(start)))
    return left


def has_refs(backend: Backend) -> bool:
    """Tell whether there is any record of a branch, a tag, or what is known of a remote, be it damaged."""
    refs = RefStore(backend)
    rows = (refs.row(kind, name) for kind in (HEADS, TAGS, REMOTES) for name in refs.listed(kind))
    return any(True for row in rows for _ in row)


class _Walk:
    """A walk over commits that meets each once."""

    def __init__(self, backend: Backend, known: KnownHistory) -> None:
        self._backend = backend
        self._known = known
        self.seen: set[ObjectId] = set()
        self.ended: dict[ObjectId, str] = {}  # by the packs that count
        self._graph = CountingGraph(ObjectStore(backend, NOTHING))

    def past(self, named: "Named", head: Held, *, every: bool) -> Iterator[Node]:
        """Yield what they led to before; with `every` all commits of the store."""
        yield from _targets(named.older)
        if every:
            for footer, _ in commit_footers(self._backend):
                yield from ((written.id, written.pack) for written in footer.commits)
        for stood in head.past:
            if self._is_stored(stood):
                yield stood, None

    def _is_stored(self, commit: ObjectId) -> bool:
        if next(self._known.of(commit), None) is not None:
            return True
        with suppress(NotFoundError):
            self._graph.load(commit, None)
            return True
        return False

    def strike(self, left: set[str], starts: Iterable[Node]) -> None:
        """Remove from `left` the packs that these commits and their ancestors need."""
        queue = deque(starts)
        with ThreadPoolExecutor(PARALLEL_READERS) as pool:
            while left and (some := list(islice(self._unseen(queue), _BATCH))):
                self._known.learn(self._backend, pool, [pack for _, pack in some if pack is not None])
                for node in some:
                    pack, line = self._line(*node)
                    self.ended[node[0]] = pack
                    left.difference_update((pack, *line.needed, *line.exact))
                    queue.extend(line.parents)

    def _unseen(self, queue: deque[Node]) -> Iterator[Node]:
        while queue:
            node = queue.popleft()
            if node[0] not in self.seen:
                self.seen.add(node[0])
                yield node

    def _line(self, commit: ObjectId, pack: str | None) -> tuple[str, Line]:
        """Return what a commit needs, by the pack that ends it now; the one that is named may be gone."""
        line = self._known.lines.get(pack or "")
        if pack is None or not self._is_whole(pack, line):
            for name, told in self._known.of(commit):
                if self._is_whole(name, told):
                    self._known.met.add(name)
                    return name, told
        elif line is not None and line.commit == commit:
            self._known.met.add(pack)
            return pack, line
        return self._looked_up(commit, pack)

    def _is_whole(self, pack: str, line: Line | None) -> bool:
        return self._graph.are_there((pack, *(line.needed if line is not None else ())))

    def _looked_up(self, commit: ObjectId, pack: str | None) -> tuple[str, Line]:
        """Return the same from what the store itself says; nothing of it is remembered."""
        revision = self._graph.load(commit, pack)
        written = revision.written
        needed = read_footer(self._backend, written.pack).needed
        parents = ((parent.id, parent.written.pack) for parent in self._graph.parents(revision))
        return written.pack, Line(commit, tuple(parents), needed, written.exact_packs)


def _targets(records: Iterable[RefRecord]) -> Iterator[Node]:
    for record in records:
        if record.target is not None:
            yield record.target, record.pack


@dataclass
class Named:
    """What refs name, now or in a record that is kept of their past.

    Attributes:
        newest: where they stand.
        older: where they stood, as far as that can be read.
        doubts: why any commit of the store may have been named as well.
    """

    newest: list[RefRecord] = field(default_factory=list)
    older: list[RefRecord] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, refs: RefStore, given_up: GivenUp | None = None) -> "Named":
        """Read every record; of refs that are given up the newest alone.

        Raises:
            CorruptionError: the newest one of a ref is damaged, and nobody has decided on it yet.
            UnsupportedFormatError: another version wrote it.
        """
        found = cls()
        for kind in (HEADS, TAGS, REMOTES):
            names = refs.listed(kind)
            for name in names:
                row = list(refs.row(kind, name))
                is_past = given_up and row and isinstance(row[0], RefRecord) and given_up(kind, name, row[0])
                if not is_past:
                    found._take(kind, name, row)
            if not names and refs.is_begun(kind):
                found.doubts.append(f"'refs/{kind}' holds no names")
        if not found.newest and not found.older:
            found.doubts.append("no branch or tag is left")
        return found

    def _take(self, kind: str, name: str, row: Sequence[RefRecord | DamagedRecord]) -> None:
        for back, record in enumerate(row):
            above = row[back - 1] if back else None
            if isinstance(above, RefRecord) and above.action == TAKEN_BACK:
                continue
            if isinstance(record, RefRecord):
                (self.older if back else self.newest).append(record)
            elif back == 0:
                why = f"where '{name}' stands cannot be read, so nothing is deleted: {record.error.message}"
                raise type(record.error)(why, hint=how_to_give_up(kind, name))
            else:
                self.doubts.append(record.error.message)
        lost = lost_end_error(kind, name, row) if row else recordless_error(kind, name)
        if lost is not None:
            self.doubts.append(lost.message)


def packs_of_kept_data(
    backend: Backend,
    head: ObjectId | None,
    bare: Collection[ObjectId],
    known: KnownHistory,
    left: AbstractSet[str],
    *,
    deletes: bool,
) -> set[str]:
    """Return the packs that end a commit which counts as dropped and is kept, and what these name.

    Some of them may be needed for other commits already, and what they name may not.

    Args:
        backend: the store.
        head: where HEAD stands.
        bare: commits of which nothing tells the pack that counts: all that end them are among the packs.
        known: what need not be read again.
        left: packs that nothing else needs. Rules are asked only where a dropped commit would lose one of
            these, since that takes a look at every commit.
        deletes: whether these are about to be deleted. Otherwise rules in force are not asked of commits
            that they let go: only other branches or notes could have them keep these.
    """
    if not has_upgrade(backend, MOVED_BASES):
        return set()
    dropped = _Dropped.of(backend, head)
    wanted = {*bare, *dropped.kept}
    told = list(whole_endings(backend, known, None if dropped.unsure else wanted | dropped.others))
    losing = {commit for commit, names in told if not left.isdisjoint(names)} - wanted
    if not deletes:
        losing -= dropped.settled
    if losing and dropped.ruling is not None:
        wanted |= _kept_by_rules(backend, head, dropped.ruling, losing)
    return set[str]().union(*(names for commit, names in told if commit in wanted))


def whole_endings(
    backend: Backend, known: KnownHistory, commits: AbstractSet[ObjectId] | None
) -> Iterator[Told]:
    """Yield what each pack tells that ends one of some commits, where all it names is there; None for any."""
    there = value_packs(backend) if commits is None or commits else set[str]()
    with ThreadPoolExecutor(PARALLEL_READERS) as pool:
        for commit, names in pool.map(partial(_told, backend, known), there):
            if commit is not None and (commits is None or commit in commits) and names <= there:
                yield commit, names


def _told(backend: Backend, known: KnownHistory, pack: str) -> tuple[ObjectId | None, set[str]]:
    """Return which commit a pack ends, and all packs that reading it needs; None where it ends none."""
    line = known.lines.get(pack)
    if line is not None:
        return line.commit, {pack, *line.needed}
    with suppress(*UNREADABLE_ERRORS):
        footer = read_footer(backend, pack)
        if footer.commits:
            return footer.commits[0].id, {pack, *footer.needed}
    return None, set()


@dataclass(frozen=True)
class _Dropped:
    """The commits that count as dropped.

    Attributes:
        kept: those that a branch, HEAD or a pin keeps, or a tag where rules keep these.
        others: those that only rules may keep.
        settled: those of them that went by the very rules that are in force.
        ruling: the rules for these; None where nobody has to be asked.
        unsure: whether some records cannot be read, so that any commit may count as dropped.
    """

    kept: AbstractSet[ObjectId] = frozenset()
    others: AbstractSet[ObjectId] = frozenset()
    settled: AbstractSet[ObjectId] = frozenset()
    ruling: Ruling | None = None
    unsure: bool = False

    @classmethod
    def of(cls, backend: Backend, head: ObjectId | None) -> "_Dropped":
        if not has_upgrade(backend, DROPPED_DATA):
            return cls()
        refs, drops = RefStore(backend), DataDrops.of(backend)
        named = {head} if head is not None else set[ObjectId]()
        named |= _commits_of(refs, HEADS) | _commits_of(refs, REMOTES)
        try:
            ruling = Ruling.of(backend)
        except (CorruptionError, UnsupportedFormatError):
            return cls(named | _commits_of(refs, TAGS) | drops.found.keys())  # nobody can tell what is kept
        rules = ruling.of_layer(Layer.DATA)
        if not rules:
            return cls(named | drops.found.keys())  # where no rule is set all is kept
        named |= ruling.pins.keys()
        if any(rule.keeps_tags for rule in rules):
            named |= _commits_of(refs, TAGS)
        if drops.damaged:
            return cls(named, ruling=ruling, unsure=True)
        settled = {key for key, drop in drops.found.items() if drop.rules == ruling.number}
        return cls(named & drops.found.keys(), drops.found.keys() - named, settled, ruling)


def _kept_by_rules(
    backend: Backend, head: ObjectId | None, ruling: Ruling, commits: AbstractSet[ObjectId]
) -> AbstractSet[ObjectId]:
    """Return those of some commits that rules keep by now; all where nobody can tell, so that none goes."""
    graph, refs = CountingGraph(ObjectStore(backend, NOTHING)), RefStore(backend)

    def heads() -> tuple[Revision, ...]:
        return () if head is None else (graph.load(head, None),)

    source = Source(backend, graph, refs, heads=heads, later=partial(later_metrics, refs))
    try:
        plan = Plan.of(source, ruling)
    except MvcsError:
        return commits
    return {commit for commit in commits if plan.keeps_data(commit)}


def _commits_of(refs: RefStore, kind: str) -> set[ObjectId]:
    records = refs.survey(kind).required().values()
    return {record.target for record in records if record.target is not None}


def packs_of_undropped_data(
    backend: Backend, ended: Mapping[ObjectId, str], known: KnownHistory, left: AbstractSet[str]
) -> set[str]:
    """Return the packs that end a commit with its data, and what these name, where nothing else does.

    The tree of a commit is read only where it would lose a pack, so that this grows with what is to go.

    Args:
        backend: the store.
        ended: the commits that count, by the packs that end them.
        known: what need not be read again.
        left: packs that nothing else needs.
    """
    if not has_upgrade(backend, MOVED_BASES):
        return set()
    drops = DataDrops.of(backend)
    commits = ended.keys() - (set() if drops.damaged else drops.found.keys())
    losing = [told for told in whole_endings(backend, known, commits) if not left.isdisjoint(told[1])]
    store = ObjectStore(backend, NOTHING)
    bare = {commit for commit in dict(losing) if not _has_data(store, commit, ended[commit])}
    return set[str]().union(*(names for commit, names in losing if commit in bare))


def _has_data(store: ObjectStore, commit: ObjectId, pack: str) -> bool:
    """Tell whether the pack that counts ends a commit with its data; false where nobody can tell."""
    try:
        written = read_footer(store.backend, pack).commits[:1]
        return bool(written) and written[0].id == commit and has_data(store, Revision(written[0]))
    except (CorruptionError, *UNREADABLE_ERRORS):
        return False
