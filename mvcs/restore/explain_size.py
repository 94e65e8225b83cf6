"""Why a commit is no smaller beside its state: the cause of most of its bytes, told from what it recorded."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from mvcs.checkpoint import Role, momentum_names
from mvcs.errors import some_of
from mvcs.objects import EVALUATION_CLASS, MOMENTS_KEY, OPTIMIZER_KEY, Commit
from mvcs.quantize import AUTO_TIER, MomentsConfig, auto_takes
from mvcs.reports import Cause, CommitDetails, Shortfall, TensorInfo, as_ratio, as_share
from mvcs.search import SEARCH_DEFAULTS

SMALL_ENOUGH: Final = 30  # times smaller than its state
LEAST_BYTES: Final = 64_000  # of less, what every commit has takes much, and no advice helps
EXACT_WEIGHT, EXACT_MOMENT, METADATA = "exact weight", "exact moment", "metadata"
LIGHT: Final = "light"
LATER: Final = "later commits take less"
Reason = tuple[Cause, str]
_UNKNOWN = re.compile(r"unknown \(.*; kept exactly\)")
_BETWEEN = re.compile(r"; (?![^(]*\))")  # optimizers; one that is not known has a semicolon in its brackets
_NAMED = 3
_EXACT, _OWN = "exact", "own"
_MOST = 1e3  # so many times less noise nobody gets from more batches
_LIMIT, _SNAP_BACK = "tensor limit", "snap-back"  # classes of a commit's errors


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


@dataclass(frozen=True)
class Recorded:
    """What a commit recorded.

    Attributes:
        details: what `show` tells of it.
        commit: the commit itself.
    """

    details: CommitDetails
    commit: Commit

    @cached_property
    def parts(self) -> Counter[str]:
        """How many bytes the commit wrote of each part: a role of tensors, exact ones apart, or metadata."""
        parts: Counter[str] = Counter()
        for tensor in self.details.tensors:
            parts[_part(tensor)] += tensor.new_bytes
        parts[METADATA] = max(self.details.commit.stored_bytes - parts.total(), 0)
        return parts

    def share(self, part: str) -> str:
        """Say how much of the commit a part is: "66 % of its bytes are"."""
        return f"{as_share(self.parts[part] / self.details.commit.stored_bytes)} of its bytes are"

    def ratio(self, without: int = 0) -> str:
        """Return how many times smaller than its state the commit is, or would be without some bytes."""
        info = self.details.commit
        return as_ratio(info.raw_bytes, info.stored_bytes - without)

    def tensors(self, part: str) -> list[TensorInfo]:
        """Return the tensors of a part."""
        return [one for one in self.details.tensors if _part(one) == part]

    def names(self, part: str, *, whole: bool = False) -> str:
        """Name the tensors of a part, those of most bytes first: as their optimizer does, or in full."""
        found: Counter[str] = Counter()
        for one in self.tensors(part):
            found[one.path if whole else own_name(one)] += one.new_bytes
        return some_of([name for name, size in found.most_common() if size], _NAMED)

    def errors(self, kind: str) -> dict[str, float]:
        """Return what was measured of a class; nothing where it was not."""
        return self.details.commit.errors.get(kind, {})

    def count(self, kind: str, name: str) -> int:
        """Return how many of something were counted in a class; 0 where what stands there is no count."""
        found = self.errors(kind).get(name, 0.0)
        return int(found) if math.isfinite(found) else 0

    @property
    def evaluation(self) -> dict[str, float]:
        """How the quality of the commit was measured; nothing where it was not."""
        return self.errors(EVALUATION_CLASS)

    @property
    def bound(self) -> str:
        """The degradation that was accepted, of an evaluated commit."""
        return self.degradation(self.evaluation.get("bound", math.nan))

    def degradation(self, number: float) -> str:
        """Return a degradation as percent where the evaluation has it relative, else as it is."""
        return percent(number) if self.evaluation.get("relative", 1.0) else f"{number:.3g}"

    @property
    def optimizers(self) -> list[str]:
        """The optimizers that are told of, by name and with the settings that matter."""
        told = self.details.provenance.get(OPTIMIZER_KEY)
        return _BETWEEN.split(told) if isinstance(told, str) else []

    @property
    def has_unknown_optimizer(self) -> bool:
        """Whether one of them is not known, so that its moments are kept exactly."""
        return any(map(_UNKNOWN.fullmatch, self.optimizers))

    @property
    def rounded(self) -> list[str]:
        """Those of them whose moments are rounded, and could be less."""
        tiers = self.commit.moment_tiers
        known = [one for one in self.optimizers if not _UNKNOWN.fullmatch(one)]
        return [one for one in known if tiers.get(one) != LIGHT]

    @property
    def is_auto(self) -> bool:
        """Whether tiers were left to the optimizers."""
        return self.details.provenance.get(MOMENTS_KEY) == AUTO_TIER

    def option(self, name: str, setting: object = None) -> str:
        """Return an option as it is typed: in Python for a state, in a shell for files."""
        if self.details.files is None:
            quoted = f'"{setting}"' if isinstance(setting, str) else f"{setting}"
            return name if setting is None else f"{name}={quoted}"
        shown = f"--{name.replace('_', '-')}"
        return shown if setting is None else f"{shown} {setting}"


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


def _gradients(found: Recorded) -> Reason:
    told = f"{found.share(Role.GRADIENT)} gradients that no step of an optimizer has used"
    return Cause.OTHERS, f"{told}, kept exactly: right behind a step there are none"


def _metadata(found: Recorded) -> Reason:
    blobs = sum(row.raw_bytes for row in found.details.classes if row.name == "blobs")
    if 2 * blobs > found.parts[METADATA]:
        return Cause.BLOBS, f"{found.share(METADATA)} texts or files kept byte for byte, and metadata"
    told = f"{found.share(METADATA)} metadata of {len(found.details.tensors):,} tensors"
    own = Cause.METADATA, f"{told}: fewer and larger ones, such as stacked layers, take less"
    return (near(found) if found.details.commit.bounded else None) or own


def weights(found: Recorded) -> Reason:
    """Tell of weights in codes."""
    return near(found) or _noise(found) or _restored(found) or (Cause.WEIGHTS, _steps(found))


def exact_weights(found: Recorded) -> Reason:
    """Tell of weights that are kept exactly though the commit is bounded."""
    kept: Counter[str] = Counter()
    for tensor in found.tensors(EXACT_WEIGHT):
        kept[tensor.dtype] += tensor.new_bytes
    dtype = kept.most_common(1)[0][0]
    told = f"{found.share(EXACT_WEIGHT)} exact weights of {dtype}"
    return Cause.EXACT_WEIGHTS, f"{told}{_why_exact(found, dtype)}"


def small_tensors(found: Recorded) -> Reason:
    """Tell of biases, norms and statistics."""
    told = f"{found.share(Role.SMALL)} small tensors, such as biases and norms"
    return near(found) or (
        Cause.SMALL_TENSORS,
        f"{told}: LatticeConfig(small=0.03) keeps them in larger steps",
    )


def rounded_moments(found: Recorded) -> Reason:
    """Tell of moments that are kept in steps, by their signs or as means."""
    whose, tier = found.rounded, _tier(found)
    told = f"{found.share(Role.MOMENT)} moments{_of(whose)} ({found.names(Role.MOMENT)})"
    if tier == LIGHT:
        return near(found) or (Cause.MOMENTS, f"{told}, kept as 'light' has them, which is least")
    has = "settings of their own have" if tier == _OWN else f"'{tier}' has"
    told = f"{told}, kept as {has} them{_chosen(found)}"
    if any(one.endswith("; described)") for one in whose):
        return Cause.MOMENTS, f"{told}, which is least for what is described"
    return Cause.MOMENTS, f"{told}: {found.option('moments', LIGHT)} {_lighter(found, whose)}"


def exact_moments(found: Recorded) -> Reason:
    """Tell of moments that are kept exactly."""
    names, share = found.names(EXACT_MOMENT), found.share(EXACT_MOMENT)
    if found.has_unknown_optimizer:
        told = f"{share} moments of an optimizer that mvcs does not know, kept exactly ({names})"
        return Cause.UNKNOWN_OPTIMIZER, f"{told}: describe them, {_description(found, names)}"
    told = f"{share} moments{_of(found.optimizers)} ({names}), kept exactly"
    probed = all(math.isfinite(auto_takes(one).resume) for one in found.optimizers)
    if _tier(found) != _EXACT or (found.is_auto and not probed):
        return Cause.EXACT_MOMENTS, f"{told}, as it is not known that less would do"
    larger = found.option("max_degradation") if found.evaluation else "bound"
    if found.is_auto:
        return Cause.EXACT_MOMENTS, f"{told}{_chosen(found)}: a larger {larger} takes less"
    asked, auto = found.option("moments", _EXACT), found.option("moments", "auto")
    return Cause.EXACT_MOMENTS, f"{told} by {asked}: {auto} keeps what resuming needs"


_TOLD: Mapping[str, Callable[[Recorded], Reason]] = {
    Role.WEIGHT: weights,
    EXACT_WEIGHT: exact_weights,
    Role.SMALL: small_tensors,
    Role.MOMENT: rounded_moments,
    EXACT_MOMENT: exact_moments,
    Role.GRADIENT: _gradients,
    Role.OTHER: _others,
    METADATA: _metadata,
}


def near(found: Recorded) -> Reason | None:
    """Tell of a commit that has no codes of another to be stored near; None for others."""
    if found.commit.quantized_against is not None:
        return None
    if found.commit.parents:
        return Cause.NOT_NEAR, f"the commit before it has no codes to be stored near: {LATER}"
    return Cause.FIRST_COMMIT, f"a first commit, near no other: {LATER}"


def _part(tensor: TensorInfo) -> str:
    exact = tensor.exact_id is None and tensor.role in {Role.WEIGHT, Role.MOMENT}
    return f"exact {tensor.role}" if exact else tensor.role


def own_name(tensor: TensorInfo) -> str:
    """Return what an optimizer calls a tensor in its state; a number is a place in what has the name."""
    parts = tensor.path.split(".")
    return next((part for part in reversed(parts) if not part.isdigit()), parts[-1])


def percent(fraction: float) -> str:
    """Return a bound as people write it: "1 %"."""
    return f"{100 * fraction:.3g} %"


def _tier(found: Recorded) -> str:
    """Return the tier of what is rounded; where optimizers have several, that of most of them."""
    tiers = [tier for tier in found.commit.moment_tiers.values() if tier not in {LIGHT, _EXACT}]
    if tiers:
        return Counter(tiers).most_common(1)[0][0]
    settings = found.details.quantizer or {}
    return MomentsConfig.tier_of(settings.get("first"), settings.get("second"))


def _lighter(found: Recorded, whose: Sequence[str]) -> str:
    """Say what the tier `light` would make of the moments of some optimizers, and what it costs."""
    names = [momentum_names(one) for one in whose]
    if not names or not all(names):
        return "leaves first moments out, and of second ones keeps means"
    left = frozenset[str]().union(*names)
    gone = sum(one.new_bytes for one in found.tensors(Role.MOMENT) if own_name(one) in left)
    told = (
        f"leaves them out, for about {found.ratio(without=gone)}, and more loss where a run resumes from it"
    )
    bound = max(auto_takes(one).light for one in whose)
    return f"{told} ('auto' does so from a bound of {percent(bound)})" if found.is_auto else told


def _chosen(found: Recorded) -> str:
    """Say what chose the tier, where that was left to the optimizer; which bound, only evaluations record."""
    if not found.is_auto:
        return ""
    return f" for a bound of {found.bound}" if found.evaluation else ", which 'auto' chose"


def _of(whose: Sequence[str]) -> str:
    return f" of {some_of(whose, _NAMED)}" if whose else ""


def _description(found: Recorded, names: str) -> str:
    """Return how moments are described, beginning with the first that is named."""
    first, *others = names.replace(" and ", ", ").split(", ")
    if found.details.files is None:
        return f'moments={{"{first}": "momentum"{", ..." if others else ""}}}'
    return f"--moment {first}=momentum{' ...' if others else ''}"


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


def _why_exact(found: Recorded, dtype: str) -> str:
    if found.count(_SNAP_BACK, "exact"):
        return f" since a lossy restore: {LATER}"
    if found.count(_LIMIT, "exact"):
        return ", as no codes are near enough: a larger commit.max_tensor_error allows more"
    if dtype == "float64":
        return ", as too many of their values are no normal float32"
    return ", as codes of such fine steps would save too little: a larger bound or step takes less"
