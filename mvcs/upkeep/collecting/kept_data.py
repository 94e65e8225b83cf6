"""Data that are on record as dropped, are still there, and are of a commit that something keeps by now."""

from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from mvcs.errors import CorruptionError, MvcsError, UnsupportedFormatError
from mvcs.history import CountingGraph, Revision
from mvcs.memory import NOTHING
from mvcs.objects import ObjectId
from mvcs.refs import HEADS, REMOTES, TAGS, RefStore, later_metrics
from mvcs.remotes import has_data
from mvcs.retention import DataDrops, Layer, Plan, Ruling, Source
from mvcs.store import (
    DROPPED_DATA,
    MOVED_BASES,
    PARALLEL_READERS,
    UNREADABLE_ERRORS,
    Backend,
    ObjectStore,
    has_upgrade,
    read_footer,
    value_packs,
)
from mvcs.upkeep.collecting.known_history import KnownHistory

Told = tuple[ObjectId, AbstractSet[str]]


"""A commit, and all packs that reading it needs: the one that ends it, and those this one names."""


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
        named |= _targets(refs, HEADS) | _targets(refs, REMOTES)
        try:
            ruling = Ruling.of(backend)
        except (CorruptionError, UnsupportedFormatError):
            return cls(named | _targets(refs, TAGS) | drops.found.keys())  # nobody can tell what is kept
        rules = ruling.of_layer(Layer.DATA)
        if not rules:
            return cls(named | drops.found.keys())  # where no rule is set all is kept
        named |= ruling.pins.keys()
        if any(rule.keeps_tags for rule in rules):
            named |= _targets(refs, TAGS)
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


def _targets(refs: RefStore, kind: str) -> set[ObjectId]:
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
