"""Push: packs first, verified; tags and notes with the commits they speak of; branches last."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

from mvcs.errors import ConflictError, CorruptionError, MvcsError, NotFoundError
from mvcs.history import Graph, Revision
from mvcs.objects import ObjectId, is_prefix
from mvcs.progress import Progress
from mvcs.refs import HEADS, NOTES, DamagedRecord, Moved, RefChange, RefRecord, RefStore, check_note
from mvcs.remotes.pack_transfer import (
    Presence,
    Route,
    Sent,
    TransferSide,
    damaged_there,
    follows,
    is_whole,
    refuse_rewind,
)
from mvcs.store import DataDrop, KnownManifests, ListedManifests, Placement, pack_path

LOOKED = 64  # commits over there, of which the near end has packs that the far end has not


@dataclass(frozen=True)
class MovedRef:
    """A ref that changed: its kind, name, and both ends."""

    kind: str
    name: str
    old: ObjectId | None
    new: ObjectId | None
    forced: bool = False


@dataclass(frozen=True)
class RefToPush:
    """A ref to move: its kind and name, and where it stands on the sending side."""

    kind: str
    name: str
    record: RefRecord


class Room(Protocol):
    """How much a store may hold."""

    def is_near(self, more: int) -> bool:
        """Tell whether packs would take more than they may, once so many bytes more are there."""
        ...

    def no_room(self, more: int) -> MvcsError:
        """Return the error for so many bytes that have no room."""
        ...


@dataclass(frozen=True)
class TransferTerms:
    """How an exchange goes.

    Attributes:
        author: who moves the refs.
        progress: is told the packs done.
        arrived: is told the commits that are new to the receiving side after their packs are durable there
            and before any ref names them.
        exact: whether exact layers are sent as well.
        force: whether branches and tags may move anywhere.
        lease: where branches over there have to stand for that; None where it does not matter.
        read_back: whether every copy, those made before included, is read again in full before a ref
            names it.
        known: what the near end knows of its manifests; what is read is added.
        damaged: packs of the near end that were found damaged; what is found, and mended, is noted.
        carried: says of a drop what it says in another store.
        allow: is told what a pack from over there unpacks to, and raises where that is too much.
        room: whether what comes has room; None where there is no limit.
    """

    author: str
    progress: Progress
    arrived: Callable[[Iterable[Revision]], None]
    exact: bool = False
    force: bool = False
    lease: Mapping[str, ObjectId | None] | None = None
    read_back: bool = False
    known: KnownManifests = field(default_factory=KnownManifests)
    damaged: set[str] = field(default_factory=set)
    carried: Callable[[DataDrop], DataDrop] = lambda drop: drop
    allow: Callable[[int], None] = lambda _: None
    room: Room | None = None


@dataclass(frozen=True)
class Delivered:
    """What a push did.

    Attributes:
        moved: the refs that changed over there.
        sent: what was copied.
        refused: what is wrong over there with refs that were left alone.
    """

    moved: list[MovedRef]
    sent: Sent
    refused: dict[RefToPush, MvcsError]


def push_refs(
    here: TransferSide, there: TransferSide, asked: list[RefToPush], terms: TransferTerms
) -> Delivered:
    """Copy what the wished refs need, then move them over there.

    One whose record over there is damaged is left alone, unless it is forced: what it stood on may be lost.

    Raises:
        ConflictError: a branch over there has commits that ours lacks, a tag names another commit there, or
            either was moved meanwhile.
        CorruptionError: a pack that is owed is missing or damaged here; no ref was moved.
    """
    found = {wish: there.refs.top(wish.kind, wish.name) for wish in asked}
    before = {
        wish: record for wish, record in found.items() if terms.force or not isinstance(record, DamagedRecord)
    }
    wishes = list(before)
    refused = {
        wish: damaged_there(record.error)
        for wish, record in found.items()
        if wish not in before and isinstance(record, DamagedRecord)
    }
    revisions = {wish: here.graph.load(wish.record.target or ObjectId(b"")) for wish in wishes}
    for wish, record in before.items():
        target = record.target if isinstance(record, RefRecord) else None
        if target is not None and (not terms.force or (terms.lease is not None and wish.kind != HEADS)):
            _refuse_moving(here.graph, wish, target, revisions[wish])
        elif terms.lease is not None and target not in (terms.lease.get(wish.name), wish.record.target):
            raise ConflictError(
                f"'{wish.name}' over there is not where it was last seen",
                hint="look at it first: 'mvcs fetch'",
            )
    tips = list(revisions.values())
    sent, exact = _copy_history(here, there, tips, terms)
    damaged = merge_notes(here, there, {revision.id for revision in here.graph.walk(tips)})
    for name, error in damaged.items():
        terms.progress.note(f"{name} was not sent: {error.message}")
    moved = [_move(here.graph, there.refs, wish, before[wish], terms, exact) for wish in wishes]
    return Delivered([item for item in moved if item is not None], sent, refused)


def _refuse_moving(graph: Graph, wish: RefToPush, theirs: ObjectId, ours: Revision) -> None:
    if wish.kind == HEADS:
        refuse_rewind(graph, wish.name, theirs, ours)
    elif theirs != wish.record.target:
        raise ConflictError(
            f"the tag '{wish.name}' names another commit over there",
            hint="tags do not move: push it under another name, or move it with --force",
        )


def _move(
    graph: Graph,
    refs: RefStore,
    wish: RefToPush,
    before: RefRecord | DamagedRecord | None,
    terms: TransferTerms,
    exact: frozenset[str],
) -> MovedRef | None:
    old = before.target if isinstance(before, RefRecord) else None
    if old == wish.record.target:
        return None
    record, action = wish.record, f"push: {wish.name}"
    change = RefChange(record.target, terms.author, action, record.content, exact)
    refs.update(wish.kind, wish.name, before, change)
    forced = terms.force and old is not None and not follows(graph, old, record.target)
    return MovedRef(wish.kind, wish.name, old, record.target, forced or isinstance(before, DamagedRecord))


def _copy_history(
    here: TransferSide, there: TransferSide, tips: list[Revision], terms: TransferTerms
) -> tuple[Sent, frozenset[str]]:
    """Bring the far end what it lacks of the history behind `tips`: packs, and then manifests of its own.

    Return also the packs of exact layers that are there now.
    """
    theirs = here.behind(tips, there.tips())
    new = tuple(here.graph.walk(tips, without=theirs))
    placements = dict(here.store.manifests.placements(revision.id for revision in reversed(new)))
    again = _without_data(here, there, tips, theirs, losses=terms.read_back)
    ends = here.store.backend, there.store.backend
    route, packs = Route(*ends, terms.progress, terms.read_back), Presence.of(*ends)
    wanted = [*placements.values(), *(ours for _, ours, _ in again)]
    expected = _expected(here, there, tips, theirs, packs, terms)
    sent = Sent(revisions=new) + _send_packs(route, _packs(wanted), expected, packs)
    exact: list[str] = []
    if terms.exact:
        # After their bases; a push may have left the layers of older commits behind.
        layers = (name for revision in here.graph.walk(tips) for name in revision.written.exact_packs)
        also, exact = _send_layers(route, list(dict.fromkeys(layers)))
        sent += also
    terms.arrived(new)
    firsts = (here.store.manifests.first(revision.id) for revision in reversed(new))
    made = (replace(first, placement=carried(placements[first.written.id], terms)) for first in firsts)
    moves = [Moved(commit, ours, read) for commit, ours, read in again]
    there.refs.duties.record(there.store.manifests, made, terms.author, moves)
    return sent, frozenset(exact)


def carried(placement: Placement, terms: TransferTerms) -> Placement:
    """Return the placement that another store gets."""
    dropped = placement.dropped
    return replace(placement, number=0, dropped=None if dropped is None else terms.carried(dropped))


def _packs(placements: Iterable[Placement]) -> list[str]:
    """Return the packs that several commits need, each once, those of others first."""
    return list(dict.fromkeys(name for one in placements for name in (*one.others, *one.own)))


def _without_data(
    here: TransferSide,
    there: TransferSide,
    tips: Iterable[Revision],
    known: Collection[ObjectId],
    *,
    losses: bool,
) -> list[tuple[ObjectId, Placement, Placement]]:
    """Return the tips that the far end has and whose data it gave up: where they lie here, and there.

    With `losses`, also all commits behind them whose data were lost over there.
    """
    found, ends = [], {tip.id for tip in tips}
    every = (one.id for one in here.graph.walk(tips)) if losses else ends
    dropped = there.store.manifests.dropped(commit for commit in every if commit in known)
    for commit, drop in dropped.items():
        ours = here.store.manifests.placement(commit)
        if ours.dropped is None and (commit in ends or drop.is_loss):
            found.append((commit, ours, there.store.manifests.placement(commit)))
    return found


def _expected(
    here: TransferSide,
    there: TransferSide,
    tips: Iterable[Revision],
    theirs: Collection[ObjectId],
    packs: Presence,
    terms: TransferTerms,
) -> list[str]:
    """Return the packs that the far end should have of commits that are there, where that is in doubt.

    These are of commits of which a pack of ours is missing there, or of another size: of the newest 64, since
    a store that was compacted, or let data go, has others. With `read_back`, of all.
    """
    commits = [revision.id for revision in here.graph.walk(tips) if revision.id in theirs]
    if not terms.read_back:
        ours = ListedManifests(here.store.backend, terms.known)
        lines = zip(commits, ours.lines((commit, ours.numbers(commit)[0]) for commit in commits), strict=True)
        doubted = (
            commit
            for commit, line in lines
            if any(packs.there.get(name, -1) != packs.here.get(name) for name in line.packs)
        )
        commits = [*islice(doubted, LOOKED)]
    return _packs(placement for _, placement in there.store.manifests.placements(commits))


def _send_layers(route: Route, names: list[str]) -> tuple[Sent, list[str]]:
    """Send packs of exact layers, and return them; those that are given up here meanwhile stay behind."""
    kept = [name for name in names if route.source.size(pack_path(name, exact=True)) is not None]
    while True:
        try:
            packs = Presence.of(route.source, route.target, exact=True)
            return _send_packs(route, kept, [], packs, exact=True), kept
        except (CorruptionError, NotFoundError):
            left = [name for name in kept if route.source.size(pack_path(name, exact=True)) is not None]
            if left == kept:
                raise
            kept = left


def _send_packs(
    route: Route, wanted: list[str], expected: list[str], packs: Presence, *, exact: bool = False
) -> Sent:
    """Send packs that are owed.

    Args:
        route: from where to where.
        wanted: packs that the far end need not have yet.
        expected: packs that it should have.
        packs: which lie at both ends.
        exact: whether they are packs of exact layers, which need not be kept here either.

    Raises:
        CorruptionError: one is whole at neither end.
    """
    names = [name for name in dict.fromkeys((*expected, *wanted)) if not exact or name in packs.here]
    both = [name for name in names if name in packs.there and name in packs.here]
    over = {name for name in both if packs.here[name] != packs.there[name]}
    # Of what is not here, even the size over there says nothing.
    doubtful = (name for name in names if name in packs.there and (route.read_back or name not in packs.here))
    over |= route.damaged([name for name in doubtful if name not in over], exact=exact)
    owed = [name for name in names if name in over or name not in packs.there]
    owed = _sendable(route, packs, owed, over, exact=exact)
    mended = over.intersection(owed) | (set(owed) & set(expected))
    sent = route.copy(owed, over, exact=exact)
    skipped = len(set(wanted).intersection(names).difference(owed))
    return replace(sent, skipped=skipped, mended=len(mended))


def _sendable(route: Route, packs: Presence, owed: list[str], over: set[str], *, exact: bool) -> list[str]:
    """Leave out packs that are whole over there and damaged here, as where sizes differ.

    Raises:
        CorruptionError: a pack is whole at neither end.
    """
    doubtful = [name for name in owed if name not in packs.here or name in over]
    lost = {name for name in doubtful if not is_whole(route.source, name, exact=exact)}
    for name in lost:
        if name not in packs.there or not is_whole(route.target, name, exact=exact):
            raise CorruptionError(
                f"pack '{pack_path(name, exact=exact)}' is missing or damaged, "
                f"here and in '{route.target.url}'",
                hint="'mvcs fetch --verify' from a clone or remote that has it whole mends it here; "
                "'mvcs repair --give-up' goes on without what is lost",
            )
    return [name for name in owed if name not in lost]


def merge_notes(
    source: TransferSide, target: TransferSide, commits: Collection[ObjectId]
) -> dict[str, MvcsError]:
    """Add the notes that the target lacks, for commits that it has now; return what is damaged of the source.

    Where one of the target's is damaged, what the source has of it is added again.

    Raises:
        CorruptionError: what a record carries is not a note on that commit.
    """
    damaged: dict[str, MvcsError] = {}
    for name in source.refs.listed(NOTES):
        _check_commit_name(name)
        if ObjectId(bytes.fromhex(name)) not in commits:
            continue
        have = {record.target for record in target.refs.row(NOTES, name) if isinstance(record, RefRecord)}
        for record in reversed(list(source.refs.row(NOTES, name))):
            if isinstance(record, DamagedRecord):
                if record.passed_over:
                    continue
                damaged[f"a note on {name[:12]}"] = record.error
            elif record.target not in have:
                check_note(name, record)
                change = RefChange(record.target, record.author, record.action, record.content)
                target.refs.append(NOTES, name, change)
    return damaged


def _check_commit_name(name: str) -> None:
    if len(name) != 64 or not is_prefix(name):
        raise CorruptionError(f"there are notes on {name!r}, which is not a commit's id")


def ahead_behind(graph: Graph, ours: Revision, theirs: Revision) -> tuple[int, int]:
    """Return how many commits only we have, and only they have."""
    mine = {revision.id for revision in graph.walk([ours])}
    other = {revision.id for revision in graph.walk([theirs])}
    return len(mine - other), len(other - mine)
