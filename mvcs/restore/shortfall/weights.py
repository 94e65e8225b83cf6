"""Commits most of whose bytes are weights or small tensors, and why their steps are no larger."""

import math
from collections import Counter

from mvcs.checkpoint import Role
from mvcs.reports import Cause
from mvcs.restore.shortfall.recorded import EXACT_WEIGHT, LATER, Reason, Recorded, near, percent
from mvcs.search import SEARCH_DEFAULTS

_MOST = 1e3  # so many times less noise nobody gets from more batches
_LIMIT, _SNAP_BACK = "tensor limit", "snap-back"  # classes of a commit's errors


def weights(found: Recorded) -> Reason:
    """Tell of weights in codes."""
    return near(found) or _noise(found) or _restored(found) or (Cause.WEIGHTS, _steps(found))


def _noise(found: Recorded) -> Reason | None:
    """Tell that the evaluation's sampling error decides the steps; None where it does not."""
    own = SEARCH_DEFAULTS.errors * found.evaluation.get("standard_error", math.nan)
    undecided, bound = found.evaluation.get("undecided", 0.0), found.evaluation.get("bound", 0.0)
    doubt, coarser = (undecided, "with coarser steps ") if undecided > 0 else (own, "")
    if not doubt > SEARCH_DEFAULTS.quiet * bound:  # nor where there is no standard error
        return None
    told = (
        f"{found.share(Role.WEIGHT)} weights, and {coarser}the evaluation tells a degradation to about "
        f"± {found.degradation(doubt)} (two standard errors), too much of the bound of {found.bound}"
    )
    least = SEARCH_DEFAULTS.quiet * bound
    wanted = doubt / least if least > 0 else math.inf
    if wanted > _MOST:
        return Cause.NOISE, told
    batches = f"about {math.ceil(wanted**2):,} times as many batches"
    return Cause.NOISE, f"{told}: {batches} make it {percent(SEARCH_DEFAULTS.quiet)} of the bound"


def _restored(found: Recorded) -> Reason | None:
    """Tell that steps are finer since a lossy restore; None where none are."""
    refined = found.count(_SNAP_BACK, "refined")
    if not refined:
        return None
    told = (
        f"{found.share(Role.WEIGHT)} weights, with finer steps since a lossy restore (tensors: {refined:,})"
    )
    return Cause.LOSSY_RESTORE, f"{told}: {LATER}"


def _steps(found: Recorded) -> str:
    """Say what decides the steps."""
    told, settings = f"{found.share(Role.WEIGHT)} weights", found.details.quantizer or {}
    if found.evaluation:
        larger = found.option("max_degradation")
        return f"{told}, in steps that a bound of {found.bound} allows: a larger {larger} takes less"
    name, way = ("bins", "fewer") if "bins" in settings else ("step_size", "a larger one")
    given = found.option(name, settings.get(name))
    return f"{told}, by {given}: {way} takes less; how far it may go, an evaluation tells"


def exact_weights(found: Recorded) -> Reason:
    """Tell of weights that are kept exactly though the commit is bounded."""
    kept: Counter[str] = Counter()
    for tensor in found.tensors(EXACT_WEIGHT):
        kept[tensor.dtype] += tensor.new_bytes
    dtype = kept.most_common(1)[0][0]
    told = f"{found.share(EXACT_WEIGHT)} exact weights of {dtype}"
    return Cause.EXACT_WEIGHTS, f"{told}{_why_exact(found, dtype)}"


def _why_exact(found: Recorded, dtype: str) -> str:
    if found.count(_SNAP_BACK, "exact"):
        return f" since a lossy restore: {LATER}"
    if found.count(_LIMIT, "exact"):
        return ", as no codes are near enough: a larger commit.max_tensor_error allows more"
    if dtype == "float64":
        return ", as too many of their values are no normal float32"
    return ", as codes of such fine steps would save too little: a larger bound or step takes less"


def small_tensors(found: Recorded) -> Reason:
    """Tell of biases, norms and statistics."""
    told = f"{found.share(Role.SMALL)} small tensors, such as biases and norms"
    return near(found) or (
        Cause.SMALL_TENSORS,
        f"{told}: LatticeConfig(small=0.03) keeps them in larger steps",
    )
