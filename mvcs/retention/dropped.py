"""What is said of dropped data: when they went, by which rules, and which commit near theirs is there."""

from collections.abc import Sequence
from contextlib import suppress

from mvcs.errors import MvcsError, NotFoundError
from mvcs.history import Graph, Revision
from mvcs.objects import ObjectId, Tree, short_id
from mvcs.refs import RefStore
from mvcs.retention.facts import Source, survey
from mvcs.retention.plan import commit_names, named, nearest_there
from mvcs.retention.rules import Layer, rules_row, time_text
from mvcs.store import Backend, DataDrop, ObjectStore, Placement


class DroppedDataError(NotFoundError):
    """The data of a commit were dropped on purpose."""


def explained(
    store: ObjectStore, revision: Revision, tree: Tree | None, first: Sequence[str], missing: ObjectId
) -> DroppedDataError | None:
    """Return the error for data of a commit that are nowhere; None where they were not dropped on purpose.

    Args:
        store: where they were.
        revision: the commit.
        tree: what it holds; None where that is what is read.
        first: branches that name commits rather than others.
        missing: the object that is nowhere.
    """
    placement = Placement()
    with suppress(MvcsError):
        placement = store.manifests.placement(revision.id)
    rest = {revision.id, revision.commit.tree, *dict(tree.blobs() if tree else ())}
    drop = placement.dropped
    if drop is None or (placement.packs and missing in rest):  # where packs are left, they hold the rest
        return None
    name, hint = short_id(revision.id), "a new clone of a remote that has them brings them"
    if drop.is_loss:
        hint = "'mvcs repair' brings them back once a remote has them"
    with suppress(MvcsError):  # what is damaged beside it is told by fsck
        graph = Graph(store.apart())
        surveyed = survey(Source(store.backend, graph, RefStore(store.backend)), ())
        names = commit_names(surveyed, first)
        name = named(revision.id, names)
        near = nearest_there(revision, surveyed, store.manifests.dropped(surveyed.revisions), first)
        hint = f"the nearest commit that is there is {named(near.id, names)}; {hint}"
    return DroppedDataError(f"the data of commit {name} were dropped {_when(store.backend, drop)}", hint=hint)


def said_of(backend: Backend, commit: ObjectId, drop: DataDrop, *, left: bool) -> str:
    """Say when data were dropped and why; where they are `left` still, until when and how they stay."""
    short = short_id(commit)
    said = f"the data of commit {short} were dropped {_when(backend, drop)}"
    if drop.is_loss:
        return f"{said}; 'mvcs repair' brings them back once a remote has them"
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
