"""Push and fetch: packs first, verified; tags and notes with the commits they speak of; branches last."""

from dataclasses import dataclass

from mvcs.history.graph import Graph, Revision
from mvcs.objects.ids import ObjectId
from mvcs.progress import Progress
from mvcs.refs import HEADS, NOTES, REMOTES, TAGS, RefRecord, RefStore
from mvcs.refs.refstore import Change
from mvcs.remotes.transfer import Sent, copy_packs, missing_commits, needed_packs, refuse_rewind
from mvcs.store.catalog import pack_path
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


def send(
    here: Side, there: Side, wishes: list[Wish], author: str, progress: Progress, *, exact: bool, force: bool
) -> tuple[list[Moved], Sent]:
    """Copy what the wished refs need, then move them over there.

    Raises:
        ConflictError: a branch over there has commits that ours lacks, or was moved meanwhile.
        CorruptionError: a pack here is damaged; no ref was moved.
    """
    before = {wish: there.refs.newest(wish.kind, wish.name) for wish in wishes}
    revisions = {
        wish: here.graph.load(wish.record.target or ObjectId(b""), wish.record.pack) for wish in wishes
    }
    for wish, record in before.items():
        if wish.kind == HEADS and record is not None and record.target is not None and not force:
            refuse_rewind(here.graph, wish.name, record.target, revisions[wish])
    sent = copy_history(here, there, list(revisions.values()), progress, exact=exact)
    merge_notes(here, there, list(revisions.values()))
    moved = [_move(there.refs, wish, before[wish], author, force=force) for wish in wishes]
    return [item for item in moved if item is not None], sent


def _move(refs: RefStore, wish: Wish, before: RefRecord | None, author: str, *, force: bool) -> Moved | None:
    old = before.target if before else None
    if old == wish.record.target and (
        wish.kind == HEADS or (before and before.content == wish.record.content)
    ):
        return None
    change = Change(wish.record.target, wish.record.pack, author, f"push: {wish.name}", wish.record.content)
    refs.update(wish.kind, wish.name, before, change)
    return Moved(wish.kind, wish.name, old, wish.record.target, forced=force and old is not None)


def copy_history(
    source: Side, target: Side, tips: list[Revision], progress: Progress, *, exact: bool
) -> Sent:
    """Copy the packs of all commits behind `tips` that the target lacks."""
    missing = list(missing_commits(source.graph, tips, target.tips()))
    backends = source.store.backend, target.store.backend
    sent = Sent(revisions=tuple(missing))
    if exact:
        layers = [name for revision in missing for name in revision.written.exact_packs]
        present = [name for name in layers if _stored(source, name)]
        sent += copy_packs(*backends, present, progress, exact=True)
    return sent + copy_packs(*backends, needed_packs(source.store, missing), progress)


def _stored(side: Side, name: str) -> bool:
    return side.store.backend.size(pack_path(name, exact=True)) is not None


def merge_notes(source: Side, target: Side, tips: list[Revision]) -> None:
    """Add the notes that the target lacks, for commits behind `tips`."""
    for name in source.refs.names(NOTES):
        have = {record.target for record in target.refs.history(NOTES, name)}
        for record in reversed(list(source.refs.history(NOTES, name))):
            if record.target not in have and _is_behind(source.graph, name, tips):
                change = Change(record.target, None, record.author, record.action, record.content)
                target.refs.append(NOTES, name, change)


def _is_behind(graph: Graph, name: str, tips: list[Revision]) -> bool:
    identifier = ObjectId(bytes.fromhex(name))
    return any(graph.is_ancestor(identifier, tip) for tip in tips)


def receive(
    here: Side, there: Side, remote: str, author: str, progress: Progress
) -> tuple[list[Moved], Sent]:
    """Copy what every branch and tag over there needs, then note where they stand as `REMOTE/BRANCH`."""
    heads, tags = there.refs.all(HEADS), there.refs.all(TAGS)
    tips = [
        there.graph.load(record.target, record.pack)
        for record in (*heads.values(), *tags.values())
        if record.target
    ]
    sent = copy_history(there, here, tips, progress, exact=False)
    merge_notes(there, here, tips)
    moved = [_track(here.refs, REMOTES, f"{remote}/{name}", record, author) for name, record in heads.items()]
    moved += [_track(here.refs, TAGS, name, record, author) for name, record in tags.items()]
    gone = [
        name
        for name in here.refs.names(REMOTES)
        if name.startswith(f"{remote}/") and name.partition("/")[2] not in heads
    ]
    moved += [_forget(here.refs, name, author) for name in gone]
    return [item for item in moved if item is not None], sent


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
