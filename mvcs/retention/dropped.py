"""What is said of dropped data: when they went, by which rules, and which commit near theirs is there."""

from contextlib import suppress

from mvcs.errors import MvcsError, NotFoundError
from mvcs.history import Graph, Revision
from mvcs.objects import ObjectId, Tree, short_id
from mvcs.refs import RefStore
from mvcs.retention.data_drops import DataDrop, DataDrops
from mvcs.retention.facts import Source, Survey, survey
from mvcs.retention.plan import commit_names, nearest_there
from mvcs.retention.rules import Layer, rules_row, time_text
from mvcs.store import Backend, ObjectStore


class DroppedDataError(NotFoundError):
    """The data of a commit were dropped on purpose."""


def explained(
    store: ObjectStore, revision: Revision, tree: Tree, missing: ObjectId
) -> DroppedDataError | None:
    """Return the error for data of a commit that are nowhere; None where they were not dropped on purpose."""
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
        name, near = _named(revision.id, surveyed), nearest_there(revision, surveyed, drops)
        hint = f"the nearest commit that is there is {_named(near.id, surveyed)}; {hint}"
    return DroppedDataError(f"the data of commit {name} were dropped {_when(store.backend, drop)}", hint=hint)


def _named(commit: ObjectId, surveyed: Survey) -> str:
    name, short = commit_names(surveyed).get(commit), short_id(commit)
    return short if name is None or name == short else f"{name} ({short})"


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
