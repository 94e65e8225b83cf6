"""What is said of dropped data: when they went, by which rules, and which commit near theirs is there."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from mvcs.errors import MvcsError, NotFoundError
from mvcs.history import Graph, Revision
from mvcs.objects import ObjectId, Tree, short_id
from mvcs.refs import RefStore
from mvcs.retention.drops import DataDrop, DataDrops, record_drops, record_there
from mvcs.retention.facts import Source, survey
from mvcs.retention.plan import commit_names, named, nearest_there
from mvcs.retention.rules import Layer, rules_row, time_text
from mvcs.store import Backend, ObjectStore


class DroppedDataError(NotFoundError):
    """The data of a commit were dropped on purpose."""


def explained(
    store: ObjectStore, revision: Revision, tree: Tree, first: Sequence[str], missing: ObjectId
) -> DroppedDataError | None:
    """Return the error for data of a commit that are nowhere; None where they were not dropped on purpose.

    Args:
        store: where they were.
        revision: the commit.
        tree: what it holds.
        first: branches that name commits rather than others.
        missing: the object that is nowhere.
    """
    if missing in {revision.id, revision.commit.tree, *dict(tree.blobs())}:
        return None  # these are no data
    try:
        drops = DataDrops.of(store.backend)
    except MvcsError:
        return None
    drop = drops.get(revision.id)
    if drop is None:
        return None
    name, hint = short_id(revision.id), "a new clone of a remote that has them brings them"
    with suppress(MvcsError):  # what is damaged beside it is told by fsck
        graph = Graph(store.apart())
        surveyed = survey(Source(store.backend, graph, RefStore(store.backend)), ())
        names = commit_names(surveyed, first)
        name = named(revision.id, names)
        near = nearest_there(revision, surveyed, drops, first)
        hint = f"the nearest commit that is there is {named(near.id, names)}; {hint}"
    return DroppedDataError(f"the data of commit {name} were dropped {_when(store.backend, drop)}", hint=hint)


def said_of(backend: Backend, drop: DataDrop, *, left: bool) -> str:
    """Say when data were dropped and why; where they are `left` still, until when and how they stay."""
    short = short_id(drop.commit)
    said = f"the data of commit {short} were dropped {_when(backend, drop)}"
    if not left:
        return f"{said}; they are gone from this store"
    back = f"'mvcs retention pin {short}', then 'mvcs retention apply', brings them back for good"
    return f"{said}; they are still there, until 'mvcs gc' deletes what nothing keeps: {back}"


def _when(backend: Backend, drop: DataDrop) -> str:
    """Say when and by which rules."""
    said, why = f"on {time_text(drop.time)}", dropped_why(backend, drop)
    return f"{said}: {why}" if why else said


def dropped_why(backend: Backend, drop: DataDrop) -> str:
    """Say by which rules data were dropped, or what their drop says of it; empty where it says nothing."""
    with suppress(MvcsError):
        if drop.rules is not None:
            kept = ", ".join(rule.text for rule in rules_row(backend).load(drop.rules).of(Layer.DATA))
            return f"no rule kept it (the rules then, record {drop.rules}: {kept})"
    return drop.why


def carry_drops(source: Backend, target: Backend, commits: Iterable[ObjectId], author: str) -> None:
    """Record in a store what another says of commits that came from there, before any ref names them.

    What was dropped over there is on record here; what was dropped here and came with its data is back. The
    numbers of rules mean something in their own store alone, so their text goes along.
    """
    there, here = DataDrops.of(source), DataDrops.of(target)
    names = list(commits)
    gone = (drop for name in names if (drop := there.get(name)) is not None and here.get(name) is None)
    told = (replace(drop, rules=None, why=dropped_why(source, drop)) for drop in gone)
    record_drops(target, told, author)
    record_there(target, [name for name in names if here.get(name) is not None and there.get(name) is None])
