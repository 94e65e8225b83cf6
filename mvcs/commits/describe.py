"""What a commit says of itself: what its caller asked for, and what was measured while it was stored."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from mvcs.checkpoint import GRADIENTS, GROUPS, MODELS, STATE, Captured
from mvcs.commits.before.earlier_weights import ERROR_CLASS as PACE_CLASS
from mvcs.commits.before.snap_back import ERROR_CLASS, SNAP_BACK_REASON
from mvcs.commits.bounded.groups import BoundedGroups
from mvcs.commits.kept_errors import Measured, with_kept
from mvcs.commits.plan.moment_kinds import PROVENANCE as MOMENT_KINDS
from mvcs.commits.quantizers.layer_types import PROVENANCE as LAYER_TYPES
from mvcs.commits.request import CommitRequest, checked_metrics
from mvcs.errors import some_of
from mvcs.history import Revision
from mvcs.objects import (
    BOUNDED,
    EVALUATION_CLASS,
    EXACT,
    MOMENTS_KEY,
    OPTIMIZER_KEY,
    TIERS_KEY,
    Commit,
    ObjectId,
    Path,
    Tree,
    Value,
    children_of,
    goal_pair,
    path_text,
)
from mvcs.quantize import AUTO_TIER, ErrorSums
from mvcs.refs import now_microseconds
from mvcs.search import METRIC

_SHOWN = 3
MOMENTS_REST = (
    "its moments are those of the commit before, bit for bit, though steps were made since: hand over the "
    "optimizer that is stepped, such as what prepare() returned; where it rests on purpose, all is well"
)
WEIGHTS_REST = (
    "no weight differs from the commit before, though moments do: hand over the model that is trained, not a "
    "copy of it; or the rate is too small for weights of this type; where they rest on purpose, all is well"
)


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
