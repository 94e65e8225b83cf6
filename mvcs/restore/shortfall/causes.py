"""The cause of most bytes of a commit that is not small, and the sentence that tells it."""

from collections.abc import Callable, Mapping
from typing import Final

from mvcs.checkpoint import Role
from mvcs.objects import EVALUATION_CLASS, Commit
from mvcs.reports import Cause, CommitDetails, Shortfall
from mvcs.restore.shortfall.moments import exact_moments, rounded_moments
from mvcs.restore.shortfall.recorded import EXACT_MOMENT, EXACT_WEIGHT, METADATA, Reason, Recorded, near
from mvcs.restore.shortfall.weights import exact_weights, small_tensors, weights

SMALL_ENOUGH: Final = 30  # times smaller than its state
LEAST_BYTES: Final = 64_000  # of less, what every commit has takes much, and no advice helps


def falls_short(raw_bytes: int, stored_bytes: int) -> bool:
    """Tell whether what is stored takes much, and is less than 30 times smaller than what it stands for."""
    return stored_bytes >= LEAST_BYTES and raw_bytes < SMALL_ENOUGH * stored_bytes


def shortfall(details: CommitDetails, commit: Commit) -> Shortfall | None:
    """Return why a commit is less than 30 times smaller than its state; None for others, and without data.

    Args:
        details: what `show` tells of it.
        commit: the commit itself.
    """
    info = details.commit
    if info.data_dropped or not falls_short(info.raw_bytes, info.stored_bytes):
        return None
    found = Recorded(details, commit)
    cause, told = _largest(found)
    return Shortfall(cause, f"{found.ratio()}: {told}")


def _largest(found: Recorded) -> Reason:
    part = max(found.parts, key=found.parts.__getitem__)
    if not found.details.commit.bounded and part not in {Role.OTHER, METADATA}:
        return _not_bounded(found)
    return _TOLD[part](found)


def _not_bounded(found: Recorded) -> Reason:
    """Tell why a commit is exact."""
    info = found.details.commit
    if info.not_evaluated is not None:
        return Cause.EVALUATION_FAILED, f"exact, as it could not be evaluated: {info.not_evaluated}"
    if found.evaluation:
        tried = found.count(EVALUATION_CLASS, "candidates")
        nothing = f"none of {tried} candidates" if tried > 1 else "nothing"
        told = f"{nothing} kept the bound of {found.bound}, so the commit is exact"
        room = f"more batches, or a larger {found.option('max_degradation')}, leave more room"
        return Cause.NOTHING_KEPT_THE_BOUND, f"{told}: {room}"
    told = "exact, as no evaluation and no step was given"
    if found.details.files is None:
        return Cause.NOT_BOUNDED, f"{told}: evaluate= bounds it by measured quality, step_size= by a step"
    return Cause.NOT_BOUNDED, f"{told}: 'mvcs tune FILE --eval' bounds it by measured quality"


def _others(found: Recorded) -> Reason:
    told = f"{found.share(Role.OTHER)} integers and the like ({found.names(Role.OTHER, whole=True)})"
    return Cause.OTHERS, f"{told}, kept exactly: what can be made again is best left out of the state"


def _metadata(found: Recorded) -> Reason:
    blobs = sum(row.raw_bytes for row in found.details.classes if row.name == "blobs")
    if 2 * blobs > found.parts[METADATA]:
        return Cause.BLOBS, f"{found.share(METADATA)} texts or files kept byte for byte, and metadata"
    told = f"{found.share(METADATA)} metadata of {len(found.details.tensors):,} tensors"
    own = Cause.METADATA, f"{told}: fewer and larger ones, such as stacked layers, take less"
    return (near(found) if found.details.commit.bounded else None) or own


_TOLD: Mapping[str, Callable[[Recorded], Reason]] = {
    Role.WEIGHT: weights,
    EXACT_WEIGHT: exact_weights,
    Role.SMALL: small_tensors,
    Role.MOMENT: rounded_moments,
    EXACT_MOMENT: exact_moments,
    Role.OTHER: _others,
    METADATA: _metadata,
}
