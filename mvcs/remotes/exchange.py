"""Push and fetch: packs first, verified; tags and notes with the commits they speak of; branches last."""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

from mvcs.errors import ConflictError, CorruptionError, MvcsError, UsageError
from mvcs.history.graph import Graph, Revision
from mvcs.objects.ids import ObjectId, is_prefix
from mvcs.progress import Progress
from mvcs.refs import HEADS, NOTES, REMOTES, TAGS, RefRecord, RefStore, check_name
from mvcs.refs.annotating import check_note, check_tag
from mvcs.refs.refstore import Change
from mvcs.remotes.transfer import Route, Sent, needed_packs, refuse_rewind
from mvcs.store.catalog import EXACT_FOLDER, pack_name
from mvcs.store.objects import ObjectStore


@dataclass(frozen=True)
class Side:
    """One of the two stores of an exchange."""

    store: ObjectStore
    graph: Graph
    refs: RefStore

    @classmethod
    def of(cls, store: ObjectStore) -> "Side":
        """Open refs and history of a store."""
        return cls(store, Graph(store), RefStore(store.backend))

    def tips(self) -> set[ObjectId]:
        """Return every commit that a branch or tag names."""
        records = [*self.refs.all(HEADS).values(), *self.refs.all(TAGS).values()]
        return {record.target for record in records if record.target is not None}

    def commits(self) -> set[ObjectId]:
        """Return every commit behind a branch, a tag or what is known of a remote."""
        tips = []
        for kind in (HEADS, TAGS, REMOTES):
            for record in self.refs.all(kind).values():
                with suppress(MvcsError):  # a ref that leads nowhere holds nothing
                    tips.append(self.graph.load(record.target or ObjectId(b""), record.pack))
        return {revision.id for revision in self.graph.walk(tips)}

    def behind(self, tips: Iterable[Revision], known: Collection[ObjectId]) -> set[ObjectId]:
        """Return the `known` commits met behind `tips`, and everything behind those."""
        met = [revision for revision in self.graph.walk(tips) if revision.id in known]
        return {revision.id for revision in self.graph.walk(met)}


@dataclass(frozen=True)
class Moved:
    """A ref that changed: its kind, name, and both ends."""

    kind: str
    name: str
    old: ObjectId | None
    new: ObjectId | None
    forced: bool = False


@dataclass(frozen=True)
class Wish:
    """A ref to move: its kind and name, and where it stands on the sending side."""

    kind: str
    name: str
    record: RefRecord


@dataclass(frozen=True)
class Terms:
    """How an exchange goes.

    Attributes:
        author: who moves the refs.
        progress: is told the packs done.
        arrived: is told the commits that are new to the receiving side after their packs are durable there
            and before any ref names them.
        exact: whether exact layers are sent as well.
        force: whether branches and tags may move anywhere.
        read_back: whether every copy is read again in full before a ref names it.
    """

    author: str
    progress: Progress
    arrived: Callable[[Iterable[Revision]], None]
    exact: bool = False
    force: bool = False
    read_back: bool = False


def send(here: Side, there: Side, wishes: list[Wish], terms: Terms) -> tuple[list[Moved], Sent]:
    """Copy what the wished refs need, then move them over there.

    Raises:
        ConflictError: a branch over there has commits that ours lacks, a tag names another commit there, or
            either was moved meanwhile.
        CorruptionError: a pack here is damaged; no ref was moved.
    """
    before = {wish: there.refs.newest(wish.kind, wish.name) for wish in wishes}
    revisions = {
        wish: here.graph.load(wish.record.target or ObjectId(b""), wish.record.pack) for wish in wishes
    }
    for wish, record in before.items():
        if record is not None and record.target is not None and not terms.force:
            _refuse_moving(here.graph, wish, record.target, revisions[wish])
    tips = list(revisions.values())
    sent = copy_history(here, there, tips, here.behind(tips, there.tips()), terms)
    merge_notes(here, there, {revision.id for revision in here.graph.walk(tips)})
    moved = [_move(there.refs, wish, before[wish], terms) for wish in wishes]
    return [item for item in moved if item is not None], sent


def _refuse_moving(graph: Graph, wish: Wish, theirs: ObjectId, ours: Revision) -> None:
    if wish.kind == HEADS:
        refuse_rewind(graph, wish.name, theirs, ours)
    elif theirs != wish.record.target:
        raise ConflictError(
            f"the tag '{wish.name}' names another commit over there",
            hint="tags do not move: push it under another name, or move it with --force",
        )


def _move(refs: RefStore, wish: Wish, before: RefRecord | None, terms: Terms) -> Moved | None:
    old = before.target if before else None
    if old == wish.record.target:
        return None
    record = wish.record
    change = Change(record.target, record.pack, terms.author, f"push: {wish.name}", record.content)
    refs.update(wish.kind, wish.name, before, change)
    return Moved(wish.kind, wish.name, old, record.target, forced=terms.force and old is not None)


def copy_history(
    source: Side, target: Side, tips: list[Revision], there: Collection[ObjectId], terms: Terms
) -> Sent:
    """Copy the packs of all commits behind `tips` that are not among those the target has."""
    missing = tuple(source.graph.walk(tips, without=there))
    route = Route(source.store.backend, target.store.backend, terms.progress, terms.read_back)
    sent = Sent(revisions=missing) + route.copy(needed_packs(source.store, missing))
    if terms.exact:
        # After their bases; a push may have left the layers of older commits behind.
        layers = [name for revision in source.graph.walk(tips) for name in revision.written.exact_packs]
        present = {pack_name(path) for path in source.store.backend.list(EXACT_FOLDER)}
        kept = [name for name in dict.fromkeys(layers) if name in present]
        sent += route.copy(kept, exact=True)
    terms.arrived(missing)
    return sent


def merge_notes(source: Side, target: Side, commits: Collection[ObjectId]) -> None:
    """Add the notes that the target lacks, for commits that it has now.

    Raises:
        CorruptionError: what a record carries is not a note on that commit.
    """
    for name in source.refs.names(NOTES):
        _check_commit_name(name)
        have = {record.target for record in target.refs.history(NOTES, name)}
        for record in reversed(list(source.refs.history(NOTES, name))):
            if record.target not in have and ObjectId(bytes.fromhex(name)) in commits:
                check_note(name, record)
                change = Change(record.target, None, record.author, record.action, record.content)
                target.refs.append(NOTES, name, change)


def _check_commit_name(name: str) -> None:
    if len(name) != 64 or not is_prefix(name):
        raise CorruptionError(f"there are notes on {name!r}, which is not a commit's id")


def receive(here: Side, there: Side, remote: str, terms: Terms) -> tuple[list[Moved], Sent]:
    """Copy what every branch and tag over there needs, then note where they stand as `REMOTE/BRANCH`."""
    heads, tags = there.refs.all(HEADS), there.refs.all(TAGS)
    _check_names([*heads, *tags])
    for name, record in tags.items():
        check_tag(name, record)
    tips = [
        there.graph.load(record.target, record.pack)
        for record in (*heads.values(), *tags.values())
        if record.target
    ]
    author = terms.author
    have = here.commits()
    sent = copy_history(there, here, tips, have, terms)
    merge_notes(there, here, have.union(revision.id for revision in sent.revisions))
    moved = [_track(here.refs, REMOTES, f"{remote}/{name}", record, author) for name, record in heads.items()]
    moved += [_track(here.refs, TAGS, name, record, author) for name, record in tags.items()]
    gone = [
        name
        for name in here.refs.names(REMOTES)
        if name.startswith(f"{remote}/") and name.partition("/")[2] not in heads
    ]
    moved += [_forget(here.refs, name, author) for name in gone]
    return [item for item in moved if item is not None], sent


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        try:
            check_name(name)
        except UsageError as error:
            raise CorruptionError(f"a ref over there is named {name!r}, which no mvcs writes") from error


def _track(refs: RefStore, kind: str, name: str, record: RefRecord, author: str) -> Moved | None:
    before = refs.newest(kind, name)
    old = before.target if before else None
    if old == record.target or (kind == TAGS and old is not None):
        return None
    refs.update(kind, name, before, Change(record.target, record.pack, author, "fetch", record.content))
    return Moved(kind, name, old, record.target)


def _forget(refs: RefStore, name: str, author: str) -> Moved | None:
    before = refs.newest(REMOTES, name)
    if before is None or before.target is None:
        return None
    refs.update(REMOTES, name, before, Change(None, None, author, "fetch: deleted over there"))
    return Moved(REMOTES, name, before.target, None)


def ahead_behind(graph: Graph, ours: Revision, theirs: Revision) -> tuple[int, int]:
    """Return how many commits only we have, and only they have."""
    mine = {revision.id for revision in graph.walk([ours])}
    other = {revision.id for revision in graph.walk([theirs])}
    return len(mine - other), len(other - mine)
