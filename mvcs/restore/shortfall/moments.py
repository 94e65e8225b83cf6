"""Commits most of whose bytes are moments of optimizers."""

import math
from collections import Counter
from collections.abc import Sequence

from mvcs.checkpoint import Role, momentum_names
from mvcs.errors import some_of
from mvcs.quantize import MomentsConfig, auto_takes
from mvcs.reports import Cause
from mvcs.restore.shortfall.recorded import EXACT_MOMENT, LIGHT, Reason, Recorded, near, own_name, percent

_EXACT, _OWN = "exact", "own"
_NAMED = 3


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
