"""How exactly moments have to be kept, by the optimizer that they belong to and the accepted degradation."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mvcs.quantize.moments.settings import MomentsConfig

USUAL_DEGRADATION = 0.01  # where none is named

_MARGIN = 2.0  # the accepted degradation over what a restore was measured to cost
_QUICK = 0.95  # the largest beta2 for which row and column means were as good as exact values


@dataclass(frozen=True)
class RestoreCost:
    """What a restore of each tier costs: the excess of the training loss over the next hundred steps.

    Attributes:
        light: of the tier of that name; infinite where it is never taken.
        resume: the same.
        finer: of `MomentsConfig.FINER`, for an optimizer whose momentum has no second moment beside it.
    """

    light: float = math.inf
    resume: float = math.inf
    finer: float = math.inf


UNNAMED = "unnamed"
_SETTINGS = re.compile(r" [a-z]+=.*")
_NUMBER = r"(\d+(?:\.\d+)?(?:e-?\d+)?)"
_BETAS = re.compile(f" betas={_NUMBER},{_NUMBER}")
_NEVER = RestoreCost()
# Rows with a third number: the mean of probes and two standard errors (docs/lab/2026-11-25-momentum.md), but
# for `light` of Adamax and RMSprop and `finer` of RMSprop. For these and all others the worst that was found
# (docs/lab/2026-11-21-resuming-from-moments.md, 2026-11-24-optimizers.md); `resume` with Adam has the mean.
_COSTS = {
    "quick Adam": RestoreCost(0.002, 0.0003),
    "Adam": RestoreCost(0.0043, 0.0012),
    "NAdam": RestoreCost(0.0036, 0.0011),
    "RAdam": RestoreCost(0.0038, 0.0024),
    "Adamax": RestoreCost(0.0031, 0.0014, 0.0009),
    "Adagrad": RestoreCost(0.0025, 0.0005),
    "Adadelta": RestoreCost(0.003, 0.0005),
    "RMSprop": RestoreCost(0.0045, 0.0005, 0.0002),
    "centered RMSprop": RestoreCost(0.0035, 0.0007, 0.0002),
    "SGD": RestoreCost(0.0098, 0.0021, 0.0009),
    "Muon": RestoreCost(0.0046, 0.0025, 0.0009),
    "Lion": RestoreCost(0.0071, 0.0045, 0.0018),
    "schedule-free": RestoreCost(0.0008, 0.0003),
    "ASGD": RestoreCost(0.0008, 0.0003),  # as the one before, though training reads nothing that is rounded
    "described": RestoreCost(resume=0.0021),
    UNNAMED: RestoreCost(resume=0.0021),
}


def tier_class(optimizer: str, settings: Mapping[str, object]) -> str:
    """Return what an optimizer counts as where a tier is chosen: its name, or that with what matters of it.

    Args:
        optimizer: its name in the table of known ones.
        settings: of its group.
    """
    betas = settings.get("betas")
    quick = (
        isinstance(betas, tuple) and len(betas) == 2 and isinstance(betas[1], float) and betas[1] <= _QUICK
    )
    return f"quick {optimizer}" if quick and f"quick {optimizer}" in _COSTS else optimizer


def cheapest_tier(classes: Iterable[str], max_degradation: float | None = None) -> MomentsConfig:
    """Return the cheapest tier whose restores cost at most half of the accepted degradation.

    Args:
        classes: as `tier_class` gives them, of all optimizers in a state of which something may be rounded;
            the most demanding one counts. Without any, moments are known by their names alone.
        max_degradation: how much worse than the original a state may be, relative; None takes 0.01.
    """
    bound = (USUAL_DEGRADATION if max_degradation is None else max_degradation) / _MARGIN
    costs = [_COSTS.get(one, _NEVER) for one in set(classes) or {UNNAMED}]
    if all(cost.light <= bound for cost in costs):
        return MomentsConfig.LIGHT
    if all(cost.resume <= bound for cost in costs):
        return MomentsConfig.RESUME
    # Where optimizers differ the most demanding one counts, and others are no worse off.
    if all(min(cost.finer, cost.resume) <= bound for cost in costs):
        return MomentsConfig.FINER
    return MomentsConfig.EXACT


def auto_takes(told: str) -> RestoreCost:
    """Return the accepted degradations from which `cheapest_tier` takes each tier; infinite for never.

    Args:
        told: what a commit tells of an optimizer: its name, and settings that matter behind it.
    """
    name, betas = _SETTINGS.sub("", told), _BETAS.search(told)
    known = tier_class(
        "Adam" if name == "AdamW" else name, {"betas": betas and tuple(map(float, betas.groups()))}
    )
    cost = _COSTS.get(known, _NEVER)
    return RestoreCost(_MARGIN * cost.light, _MARGIN * cost.resume)
