"""Commits most of whose bytes are weights or small tensors, and why their steps are no larger."""

import math
from collections import Counter
from collections.abc import Mapping

from mvcs.checkpoint import Role
from mvcs.reports import Cause
from mvcs.restore.shortfall.recorded import EXACT_WEIGHT, LATER, Reason, Recorded, near
from mvcs.search import SEARCH_DEFAULTS

_MOST = 1e3  # so many times less noise nobody gets from more batches
_LIMIT, _SNAP_BACK = "tensor limit", "snap-back"  # classes of a commit's errors


def weights(found: Recorded) -> Reason:
    """Tell of weights in codes."""
    return near(found) or _noise(found) or _restored(found) or (Cause.WEIGHTS, _steps(found))


def _noise(found: Recorded) -> Reason | None:
    """Tell that the evaluation's sampling error takes most of the bound; None where it does not."""
    doubt, bound = _doubt(found.evaluation), found.evaluation.get("bound", 0.0)
    if not doubt > SEARCH_DEFAULTS.noisy * bound:  # nor where there is no standard error
        return None
    leaves = found.degradation(bound - doubt) if doubt < bound else "nothing"
    told = (
        f"{found.share(Role.WEIGHT)} weights, and the evaluation tells a degradation to about "
        f"± {found.degradation(doubt)} (two standard errors), which leaves {leaves} of the bound of "
        f"{found.bound}"
    )
    wanted = 2 * doubt / bound if bound > 0 else math.inf
    if wanted > _MOST:
        return Cause.NOISE, told
    return (
        Cause.NOISE,
        f"{told}: about {math.ceil(wanted**2):,} times as many batches make it half of the bound",
    )


def _doubt(evaluation: Mapping[str, float]) -> float:
    """Return what the verdict added to the mean; NaN where no batches tell.

    Recorded is the standard error of the whole sample, on which a commit is confirmed.
    """
    return SEARCH_DEFAULTS.errors * evaluation.get("standard_error", math.nan)


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
