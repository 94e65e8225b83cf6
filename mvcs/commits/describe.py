"""What a commit says of itself: what its caller asked for, what was measured, and what was found damaged."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from mvcs.checkpoint import GRADIENTS, GROUPS, METADATA_KEY, MODELS, STATE, Captured
from mvcs.commits.before.earlier_weights import ERROR_CLASS as PACE_CLASS
from mvcs.commits.before.snap_back import ERROR_CLASS, SNAP_BACK_REASON
from mvcs.commits.bounded.groups import BoundedGroups
from mvcs.commits.leaves.coded_tensor import CLASSES
from mvcs.commits.leaves.tensor_errors import NAMED_CLASSES
from mvcs.commits.plan.treatments import PROVENANCE as MOMENT_KINDS
from mvcs.commits.quantizers.layer_types import PROVENANCE as LAYER_TYPES
from mvcs.commits.request import CommitRequest, checked_metrics
from mvcs.errors import CorruptionError, some_of
from mvcs.history import Revision
from mvcs.objects import (
    BOUNDED,
    EVALUATION_CLASS,
    EXACT,
    MOMENTS_KEY,
    OPTIMIZER_KEY,
    TIERS_KEY,
    Commit,
    FileEntry,
    FileFormat,
    ObjectId,
    Path,
    Tree,
    Value,
    blob_reference,
    cbor,
    children_of,
    contents_of,
    goal_pair,
    path_text,
    tensor_reference,
    walk_nodes,
)
from mvcs.quantize import AUTO_TIER, ErrorSums
from mvcs.refs import now_microseconds
from mvcs.search import METRIC
from mvcs.store import ObjectStore, pack_path

_SHOWN = 3
MOMENTS_REST = (
    "its moments are those of the commit before, bit for bit, though steps were made since: hand over the "
    "optimizer that is stepped, such as what prepare() returned; where it rests on purpose, all is well"
)
WEIGHTS_REST = (
    "no weight differs from the commit before, though moments do: hand over the model that is trained, not a "
    "copy of it; or the rate is too small for weights of this type; where they rest on purpose, all is well"
)
Measured = tuple[str, tuple[tuple[str, float], ...]]
_Told = dict[str, dict[str, float]]
_NAMED = 3  # packs in a note


@dataclass(frozen=True)
class Content:
    """What a commit holds.

    Attributes:
        tree_id: of everything.
        stored: what was stored for it.
        kept: files of the parent that it keeps; None for none.
        names: what the parent calls those of them that have another name now, by that name.
    """

    tree_id: ObjectId
    stored: Tree
    kept: Tree | None = None
    names: Mapping[str, str] = field(default_factory=dict)


def described(
    content: Content,
    request: CommitRequest,
    parent: Revision | None,
    parents: tuple[Revision, ...],
    bounded: BoundedGroups | None,
) -> Commit:
    """Return the commit of what was stored and kept.

    Args:
        content: what that is.
        request: what the caller asked for.
        parent: the commit that it was stored near, and that it keeps something of.
        parents: the commits that it continues; not `parent` where it takes its place.
        bounded: what was done with what is bounded.
    """
    if request.rewords is not None:
        return _reworded(request.rewords, content, request)
    before = parent.commit if parent else None
    restored = request.restored_from
    lossy = bounded if _is_lossy(content.stored) else None
    origin = before if content.kept and _is_lossy(content.kept) else None
    # What was quantized now tells how; where nothing was, what is kept is as its own commit tells.
    told = before if before and origin and not lossy else None
    quantizer = tuple(lossy.codings.config.to_fields()) if lossy else None
    measured = tuple(_errors(bounded)) if bounded else ()
    return Commit(
        tree=content.tree_id,
        parents=tuple(revision.id for revision in parents),
        author=request.author,
        time=now_microseconds(),
        message=request.message,
        step=request.step,
        metrics=checked_metrics(request.metrics) + _metric(request),
        exactness=BOUNDED if lossy or origin else EXACT,
        lineage_exact=_lineage(request, before),
        restored_from=restored.id if restored else None,
        quantized_against=parent.id if parent and lossy and lossy.bounded.base_used else None,
        quantizer=told.quantizer if told else quantizer,
        errors=(*with_kept(measured, content.kept, origin, content.names), *_evaluated(request)),
        degradation=request.evaluation.degradation if lossy and request.evaluation else None,
        provenance=tuple(
            {
                **_inherited(told),
                **_known(request, lossy),
                **_goal(request),
                **request.provenance,
            }.items()
        ),
    )


def _reworded(commit: Commit, content: Content, request: CommitRequest) -> Commit:
    return replace(
        commit,
        tree=content.tree_id,
        author=request.author,
        time=now_microseconds(),
        message=request.message,
        step=request.step,
        metrics=checked_metrics(request.metrics),
    )


def _lineage(request: CommitRequest, before: Commit | None) -> bool | None:
    """Tell whether no state on the way here was lossily restored; None where nothing tells."""
    inherited = True if before is None else before.lineage_exact
    if inherited is False or request.lossy or request.restored_from is not None:
        return False
    return None if inherited is None or request.lossy is None else True


def _is_lossy(tree: Tree) -> bool:
    return any(leaf.original is not None for leaf in tree.leaves)


def _errors(bounded: BoundedGroups) -> Iterator[Measured]:
    guard = bounded.snap_back
    for name, parts in sorted(bounded.errors.sums.items()):
        sums = ErrorSums.total(parts)
        values = {"count": float(sums.count), "max_abs": sums.largest, "rms": sums.rms}
        yield name, tuple({**values, "relative": sums.relative}.items())
    if guard is not None:
        yield ERROR_CLASS, tuple(guard.to_fields().items())
    earlier = bounded.coder.surroundings.earlier
    pace = earlier.to_fields() if earlier else {}
    if pace:
        yield PACE_CLASS, tuple(pace.items())
    yield from bounded.errors.to_fields()


def _inherited(told: Commit | None) -> dict[str, str]:
    found = dict(told.provenance) if told else {}
    names = OPTIMIZER_KEY, MOMENTS_KEY, TIERS_KEY, MOMENT_KINDS, LAYER_TYPES
    return {name: str(found[name]) for name in names if name in found}


def _known(request: CommitRequest, bounded: BoundedGroups | None) -> dict[str, str]:
    """Return what a bounded commit tells of its optimizers, and of its layer types."""
    if bounded is None:
        return {}
    fields = _optimizer(request, bounded) | bounded.tiers.to_fields()
    return fields | bounded.kinds.to_fields() | bounded.codings.types.to_fields()


def _optimizer(request: CommitRequest, bounded: BoundedGroups) -> dict[str, str]:
    """Return what decides how exactly moments have to be kept, for a bounded commit."""
    large = bounded.keeper.anatomy.large_optimizers
    if request.quantizer is None or not large:
        return {}
    named = [one.told(bounded.kinds.described) for one in large]
    known = dict.fromkeys(name for name in named if name is not None)
    told = {OPTIMIZER_KEY: "; ".join(known)} if known else {}
    return told | ({MOMENTS_KEY: AUTO_TIER} if request.quantizer.moments.is_auto else {})


def _evaluated(request: CommitRequest) -> Iterator[tuple[str, tuple[tuple[str, float], ...]]]:
    if request.evaluation is not None:
        yield EVALUATION_CLASS, tuple(request.evaluation.to_fields().items())
        for name, part in sorted(request.evaluation.parts.items()):
            degradation = math.nan if part.degradation is None else part.degradation
            fields = {"degradation": degradation, **part.to_fields()}
            yield f"{EVALUATION_CLASS} of {name}", tuple(fields.items())


def _metric(request: CommitRequest) -> tuple[tuple[str, float], ...]:
    return ((METRIC, request.measured.baseline),) if request.measured else ()


def _goal(request: CommitRequest) -> dict[str, str]:
    return dict([goal_pair(METRIC, request.measured.goal)]) if request.measured else {}


def resting_notes(
    parent: Revision | None, before: Tree | None, tree: Tree, step: int | None
) -> tuple[str, ...]:
    """Tell of a model or of optimizers that are the parent's bit for bit though steps were made.

    Mostly these are handles to what is not trained. Not looked at are gradients that are being accumulated,
    and weights where all rates are zero.

    Args:
        parent: the commit before.
        before: what it holds, as far as that can be read.
        tree: what was stored.
        step: after which that was taken.
    """
    was = None if parent is None else parent.commit.step
    roots = [dict(children_of(one.root)) for one in (before, tree) if one is not None and one.files is None]
    if before is None or len(roots) != 2 or was is None or step is None or step <= was:
        return ()
    if any(GRADIENTS in root for root in roots):
        return ()
    known, moved = dict(zip(before.leaf_paths(), before.leaves, strict=True)), dict[Path, bool]()
    for path, leaf in zip(tree.leaf_paths(), tree.leaves, strict=True):
        part = path[:1] if path and path[0] in MODELS else path[: path.index(STATE)] if STATE in path else ()
        if part and path in known:
            moved[part] = moved.get(part, False) or known[path].handed_over != leaf.handed_over
    rates = {part: found for part in moved if (found := _rates(tree.root, part)) is not None}
    resting = [path_text(part) for part in rates if not moved[part]]
    trained = any(moved[part] and any(rate != 0 for rate in found) for part, found in rates.items())
    still = [path_text(part) for part in moved if part not in rates and part[0] in MODELS and not moved[part]]
    told = {MOMENTS_REST: resting, WEIGHTS_REST: still if trained else []}
    return tuple(f"{', '.join(names)}: {reason}" for reason, names in told.items() if names)


def _rates(node: Value, part: Path) -> list[Value] | None:
    """Return the rates of the groups of an optimizer, given its path; None for what is none."""
    for key in (*part, GROUPS):
        node = dict(children_of(node)).get(key)
    return None if node is None else [dict(children_of(group)).get("lr") for _, group in children_of(node)]


def bounded_notes(bounded: BoundedGroups | None, *, evaluated: bool) -> tuple[str, ...]:
    """Tell what the limit on errors, and progress since a lossy restore, asked for."""
    if bounded is None:
        return ()
    guard = bounded.snap_back
    limit = (*bounded.errors.said(evaluated=evaluated), *bounded.kinds.notes)
    told = [] if guard is None or not guard.refined else [f"{_tensors(guard.refined)} got a finer step"]
    if guard is not None and guard.exact:
        told.append(f"{_tensors(guard.exact)} {'is' if guard.exact == 1 else 'are'} kept exact")
    if not told:
        return limit
    return (f"{' and '.join(told)}: {SNAP_BACK_REASON}", *limit)


def uncompressed_notes(captured: Captured, stored: Tree) -> Iterator[str]:
    """Tell which files come back uncompressed from the value layer."""
    pairs = zip(captured.leaves, stored.leaves, strict=True)
    found = {f"'{given.path[0]}'" for given, leaf in pairs if given.deflated and leaf.exact is not None}
    if found:
        which = some_of(sorted(found), _SHOWN)
        yield f"with rounded values, arrays come back uncompressed; with --exact as they were: {which}"


def _tensors(amount: int) -> str:
    return f"{amount} tensor{'' if amount == 1 else 's'}"


def proves_exact(parent: Tree | None, tree: Tree, *, nothing_left: bool) -> bool:
    """Tell whether content alone proves that a state of unknown origin is no lossily restored one.

    Where nothing lossy left the store, what stands beside tensors is not asked: settings, a counter of steps.

    Args:
        parent: what the parent holds, or nothing.
        tree: what was stored.
        nothing_left: whether no lossy values left the store.
    """
    known = {leaf.handed_over for leaf in parent.leaves} if parent else set()
    if any(leaf.handed_over not in known for leaf in tree.leaves):
        return False
    if nothing_left and (tree.leaves or tree.files is not None):
        return True
    # Blobs may stand elsewhere under other names; numbers and text stand where the parent has them.
    return _contents(tree) <= (_contents(parent) if parent else set())


def _contents(tree: Tree) -> set[object]:
    """Return all that a tree holds beside tensors: blobs by their ids, all else with its place in a file."""
    return {*_nodes(tree), *(part for entry in tree.files or () for part in _header(entry))}


def _nodes(tree: Tree) -> Iterator[object]:
    for _, content in contents_of(tree.files, tree.root):
        for path, node in walk_nodes(content):
            if tensor_reference(node) is None and next(children_of(node), None) is None:
                yield _blob(node) or (path, cbor.dumps(node))


def _blob(node: cbor.Value) -> ObjectId | None:
    found = blob_reference(node)
    return found[0] if found else None


def _header(entry: FileEntry) -> Iterator[object]:
    """Yield what a header says beside names and places; one that is long, or a layout, counts as a whole.

    A layout of a torch or npz file says nothing that its structure does not.
    """
    header = entry.header
    if entry.format in (FileFormat.TORCH, FileFormat.NPZ):
        return
    if isinstance(header, bytes):
        yield from _metadata(header)
    elif header is not None:
        yield _blob(header)


def _metadata(header: bytes) -> Iterator[object]:
    try:
        metadata = json.loads(header).get(METADATA_KEY) or {}
        yield from ((METADATA_KEY, name, str(value)) for name, value in metadata.items())
    except (ValueError, AttributeError, RecursionError):
        yield header  # a stranger's, which no file was taken apart for


def with_kept(
    measured: Iterable[Measured],
    kept: Tree | None,
    origin: Commit | None,
    names: Mapping[str, str],
) -> Iterator[Measured]:
    """Yield what a commit records.

    Args:
        measured: what was measured of what is stored now.
        kept: the files of the parent that the commit keeps.
        origin: the parent, where some of them are bounded.
        names: what it calls those that have another name now, by that name.
    """
    values, worst = _told(kept, origin, names) if kept and origin else ({}, {})
    for name, fields in measured:
        own = dict(fields)
        if name in values:
            before = values.pop(name)
            own |= {field: max(value, own.get(field, value)) for field, value in before.items()}
        elif name in worst:
            own = max(own, worst.pop(name), key=lambda found: max(found.values(), default=0.0))
        yield name, tuple(own.items())
    yield from ((name, tuple(fields.items())) for name, fields in {**values, **worst}.items())


def _told(kept: Tree, origin: Commit, names: Mapping[str, str]) -> tuple[_Told, _Told]:
    """Return what the parent says of classes of values, and which kept tensors it names as the worst."""
    told, classes = {name: dict(fields) for name, fields in origin.errors}, set(CLASSES.values())
    files = {f"{names.get(entry.path, entry.path)}.": f"{entry.path}." for entry in kept.files or ()}
    worst = {
        name: {_called(path, files): value for path, value in fields.items()}
        for name, fields in told.items()
        if name in NAMED_CLASSES and fields and all(path.startswith(tuple(files)) for path in fields)
    }
    return {name: fields for name, fields in told.items() if name in classes}, worst


def _called(path: str, files: Mapping[str, str]) -> str:
    """Return the path of a tensor in a file that may have another name now."""
    old = max((start for start in files if path.startswith(start)), key=len)
    return files[old] + path[len(old) :]


class Damage:
    """The damage that was found since this was made: told to who commits, and a reason to begin again.

    Nothing of it is remembered here: for later commits and fetches `local.store_watch` does that.
    """

    def __init__(self, store: ObjectStore) -> None:
        """Begin with what is known by now."""
        self._found = store.catalog.damaged
        self._known = frozenset(self._found)

    @property
    def grew(self) -> bool:
        """Whether some was found."""
        return len(self._found) > len(self._known)

    @property
    def packs(self) -> list[str]:
        """The packs it lies in."""
        places = self._found - self._known
        return sorted({pack_path(name, exact=exact) for name, exact, _ in places})

    def notes(self) -> list[str]:
        """Tell of it, for the one who commits."""
        packs = self.packs
        if not packs:
            return []
        named = some_of([f"'{path}'" for path in packs], _NAMED)
        told = (
            f"{named}: damaged; what this commit needs of it is written again. "
            "'mvcs fsck' shows which older commits it touches"
        )
        return [told]

    def unending(self) -> CorruptionError:
        """Return what to raise where every look finds more of it."""
        many = "s" if len(self.packs) > 1 else ""
        return CorruptionError(
            f"the store is damaged in {len(self.packs)} pack{many}, and more is found at each look",
            hint="check the disk, and run 'mvcs fsck'; clone the repository to another one",
        )
