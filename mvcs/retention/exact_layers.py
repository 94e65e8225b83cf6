"""Which exact layers go: without rules all but the newest two of each branch, tagged and pinned ones.

Those of a deleted branch that no other keeps go as well.

A layer is dropped only after the ref that makes it old is durable, and only after the drop is recorded.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from mvcs.errors import MvcsError, UnsupportedFormatError
from mvcs.history import Graph, Revision
from mvcs.objects import ObjectId
from mvcs.refs import HEADS, TAGS, DamagedRecord, RefRecord, RefStore, now_microseconds
from mvcs.retention.drops import FOLDER, Drop, DropLog
from mvcs.retention.facts import Source, survey
from mvcs.retention.plan import Ruling, has_ruling
from mvcs.retention.policy import judge, kept_anywhere
from mvcs.retention.rules import Keeps, Layer, Rule
from mvcs.store import EXACT_FOLDER, Backend, exact_packs, pack_name, pack_path, refuse_changes

KeptNow = Callable[[], Collection[ObjectId]]
"""Tells which commits keep their layer, looked up when it is called."""
RULES, PINS = "rules", "pins"  # folders beside that of drops
SEARCHED = 256  # commits
_NEAR = frozenset({Keeps.LAST, Keeps.TAGGED})  # rules that name what they keep, however old it is


def drop_old_layers(source: Source, kept: int) -> list[ObjectId]:
    """Drop what the rule gives up and return the commits whose exact layer went.

    Args:
        source: the store, its history, and what rules go by; its pins are read here.
        kept: how many bounded commits on each branch, from its tip along first parents, keep their layer.

    Raises:
        UnsupportedFormatError: a newer version decides what goes from this store.
        MvcsError: a rule or pin cannot be read, or cannot be applied: then nothing goes.
    """
    backend, graph, refs = source.backend, source.graph, source.refs
    present = exact_packs(backend)
    if not present:
        return []
    refuse_changes(backend)
    _refuse_other_rules(backend)
    ruling = Ruling.of(backend) if has_ruling(backend) else Ruling()
    source = replace(source, pins=ruling.pins)
    stay = KeptLayers.of(source, ruling, kept)
    droppable = present - stay.packs
    owners = _owners(graph, graph.tips(refs.survey(HEADS).required().values()), droppable)
    if unowned := droppable.difference(*(item.written.exact_packs for item in owners)):
        owners += _owners(graph, _deleted_tips(graph, refs), unowned)
    found = [item for item in owners if stay.lets_go(item.id)]

    def kept_now() -> Collection[ObjectId]:
        now = KeptLayers.of(source, ruling, kept)
        return {item.id for item in found if not now.lets_go(item.id)}

    if not _drop(backend, found, droppable, ruling, kept_now):
        return []
    if stay.judged is None and not ruling.of_layer(Layer.EXACT):  # else what is out of sight may be kept
        unowned = droppable.difference(*(item.written.exact_packs for item in owners))
        _finish_drops(backend, unowned, ruling.pins)
    return [revision.id for revision in found]


def _refuse_other_rules(backend: Backend) -> None:
    """Check that no rule or pin is in force that this version cannot read: it may keep what ours gives up."""
    folder, _, drops = FOLDER.rpartition("/")
    for name in backend.children(folder):
        if name not in {drops, RULES, PINS} and backend.newest(f"{folder}/{name}") is not None:
            raise UnsupportedFormatError(
                f"'{folder}/{name}' says what is kept in a way that this version does not know",
                hint="upgrade mvcs; until then every exact layer stays",
            )


def _deleted_tips(graph: Graph, refs: RefStore) -> Iterator[Revision]:
    """Yield the commits where branches stood that were deleted."""
    for name in refs.listed(HEADS):
        row = refs.row(HEADS, name)
        newest = next(row, None)
        if isinstance(newest, RefRecord) and newest.target is None:
            last = next((found for found in row if _stood(found)), None)
            if isinstance(last, RefRecord) and last.target is not None:
                yield graph.load(last.target)


def _stood(found: RefRecord | DamagedRecord) -> bool:
    """Tell whether a branch stood somewhere by a record, if only where nobody can tell."""
    return isinstance(found, DamagedRecord) or found.target is not None


def _owners(graph: Graph, tips: Iterable[Revision], packs: set[str]) -> list[Revision]:
    """Find the commits that own `packs`; packs that no reachable commit owns may be a writer's at work."""
    wanted, found = set(packs), []
    walk = graph.walk(tips)
    for revision in islice(walk, SEARCHED):
        if not wanted:
            break
        owned = wanted.intersection(revision.written.exact_packs)
        if owned:
            found.append(revision)
            wanted -= owned
    return found


def _drop(
    backend: Backend, revisions: list[Revision], droppable: set[str], ruling: Ruling, kept_now: KeptNow
) -> bool:
    """Drop layers on record, but for what is kept by then; tell whether rules and pins are still the same."""
    time = now_microseconds()
    drops = [
        Drop(revision.id, tuple(name for name in revision.written.exact_packs if name in droppable), time)
        for revision in revisions
    ]
    if not drops:
        return True
    DropLog(backend).append(tuple(drops))
    _refuse_other_rules(backend)  # once more: a pin may have come that keeps what is recorded
    if has_ruling(backend) and Ruling.of(backend) != ruling:
        return False  # the next commit goes by what is in force now
    keep = kept_now()  # a tag, a branch or a HEAD may have come
    _delete(backend, {name for drop in drops if drop.commit not in keep for name in drop.packs})
    return True


def drop_layers(backend: Backend, revisions: list[Revision], ruling: Ruling, kept_now: KeptNow) -> bool:
    """Drop the exact layers of commits as far as they are there, while the same rules and pins are in force.

    Returns:
        Whether these are in force still; otherwise nothing was deleted.

    Raises:
        UnsupportedFormatError: a newer version decides what goes from this store.
    """
    if not any(revision.written.exact_packs for revision in revisions):
        return True
    refuse_changes(backend)
    _refuse_other_rules(backend)
    present = exact_packs(backend)
    bounded = [it for it in revisions if not present.isdisjoint(it.written.exact_packs)]
    return _drop(backend, bounded, present, ruling, kept_now)


def _finish_drops(backend: Backend, unowned: set[str], pins: Collection[ObjectId]) -> None:
    """Delete packs whose drop was recorded by a writer that was stopped before it deleted them."""
    if unowned:
        drops = (drop for drop in DropLog(backend).survey()[0] if drop.commit not in pins)
        recorded = {name for drop in drops for name in drop.packs}
        _delete(backend, unowned & recorded)


def _delete(backend: Backend, names: Iterable[str]) -> None:
    for name in names:
        backend.delete(pack_path(name, exact=True))


def try_drop_old_layers(source: Source, kept: int) -> MvcsError | None:
    """Apply the rule after a commit; what goes wrong is returned, since the commit itself is safe."""
    try:
        drop_old_layers(source, kept)
    except MvcsError as error:
        return error
    return None


@dataclass(frozen=True)
class KeptLayers:
    """The commits that keep their exact layer, as far as was looked.

    Attributes:
        commits: those that keep it.
        packs: the packs of these layers, as far as they are known.
        judged: the commits of which it is known whether they keep it; None where it is of all.
    """

    commits: Collection[ObjectId]
    packs: frozenset[str]
    judged: Collection[ObjectId] | None

    @classmethod
    def of(cls, source: Source, ruling: Ruling, kept: int) -> "KeptLayers":
        """Judge the newest commits.

        Args:
            source: the store, its history, and what rules go by, pins included.
            ruling: the rules and pins in force.
            kept: how many bounded commits of each branch keep their layer where no rule says so.

        Raises:
            MvcsError: something cannot be read, or a rule cannot be applied: then nothing may go.
        """
        rules = ruling.of_layer(Layer.EXACT)
        return cls._by_rules(source, rules) if rules else cls._by_number(source, kept)

    @classmethod
    def _by_rules(cls, source: Source, rules: Sequence[Rule]) -> "KeptLayers":
        # What is not among the best of some commits is not among the best of all.
        surveyed = survey(source, rules, SEARCHED)
        verdicts = judge(rules, surveyed.history)
        stay = {key for key, verdict in verdicts.items() if verdict.keeps}
        stay |= kept_anywhere(rules, surveyed.history)
        known = {**surveyed.pointed, **surveyed.revisions}
        packs = _packs(known[key] for key in stay & known.keys())
        certain = surveyed.complete or all(rule.kind in _NEAR for rule in rules)
        return cls(stay, packs, None if certain else verdicts.keys())

    @classmethod
    def _by_number(cls, source: Source, kept: int) -> "KeptLayers":
        graph, refs = source.graph, source.refs
        tips = graph.tips(refs.survey(HEADS).required().values())
        lines = [_newest_bounded(graph, tip, kept) for tip in tips]
        newest = [revision for found, _ in lines for revision in found]
        stay = [*newest, *graph.tips(refs.survey(TAGS).required().values())]
        certain = all(complete for _, complete in lines)
        judged = None if certain else {it.id for it in islice(graph.walk(tips), SEARCHED)}
        return cls({*source.pins, *(it.id for it in stay)}, _packs(stay), judged)

    def lets_go(self, commit: ObjectId) -> bool:
        """Tell whether nothing keeps the layer of a commit, be it in sight or not."""
        return commit not in self.commits and (self.judged is None or commit in self.judged)


def _packs(revisions: Iterable[Revision]) -> frozenset[str]:
    return frozenset(name for revision in revisions for name in revision.written.exact_packs)


def _newest_bounded(graph: Graph, tip: Revision, kept: int) -> tuple[list[Revision], bool]:
    """Return the newest bounded commits of a line, and whether there are no more of them to find."""
    line = graph.first_parents(tip)
    bounded = (revision for revision in islice(line, SEARCHED) if revision.written.exact_packs)
    found = list(islice(bounded, kept))
    return found, len(found) >= kept or next(line, None) is None


def layer_bytes(backend: Backend, revisions: Iterable[Revision]) -> int:
    """Return the bytes of what is there of the exact layers of commits."""
    names = {name for revision in revisions for name in revision.written.exact_packs}
    if not names:
        return 0
    return sum(size for path, size in backend.sizes(EXACT_FOLDER).items() if pack_name(path) in names)


def record_absent(backend: Backend, revisions: Iterable[Revision]) -> None:
    """Note which packs of exact layers a transfer left behind, so that fsck over there does not miss them.

    A pack that lies there is never noted, whoever says that it is a commit's.
    """
    bounded = [revision for revision in revisions if revision.written.exact_packs]
    if not bounded:
        return
    present, time = exact_packs(backend), now_microseconds()
    drops = (
        Drop(revision.id, tuple(name for name in revision.written.exact_packs if name not in present), time)
        for revision in bounded
    )
    absent = tuple(drop for drop in drops if drop.packs)
    if absent:
        DropLog(backend).append(absent)


def has_exact_layer(backend: Backend, revision: Revision, listed: Collection[str] | None = None) -> bool:
    """Tell whether every pack of a bounded commit's exact layer is there; `listed` names those that are."""
    packs = revision.written.exact_packs
    if listed is not None:
        return bool(packs) and all(name in listed for name in packs)
    return bool(packs) and all(backend.size(pack_path(name, exact=True)) is not None for name in packs)
