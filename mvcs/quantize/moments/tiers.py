"""How exactly moments have to be kept, by the optimizer that they belong to and the accepted degradation."""

import math
from collections.abc import Iterable

from mvcs.quantize.moments.next_update import AdamRule, UpdateRule
from mvcs.quantize.moments.settings import MomentsConfig

USUAL_DEGRADATION = 0.01  # where none is named

_MARGIN = 2.0  # the accepted degradation over what a restore was measured to cost
_QUICK = 0.95  # the largest beta2 for which row and column means were as good as exact values
_LIGHT = {"quick": 0.002, "slow": 0.0035, "momentum": 0.033, "unknown": math.inf}
_RESUME = {"quick": 0.0003, "slow": 0.0012, "momentum": 0.002, "unknown": 0.002}


def cheapest_tier(rules: Iterable[UpdateRule | None], max_degradation: float | None = None) -> MomentsConfig:
    """Return the cheapest tier whose restores cost at most half of the accepted degradation.

    What a restore costs is the excess of the training loss over the next hundred steps, as measured in
    docs/lab/2026-11-21-resuming-from-moments.md: the worst probe where first moments are left out, the mean
    of all for the momentum of SGD in steps. Unknown optimizers count as SGD with momentum, and never go
    without first moments.

    Args:
        rules: of all optimizers in a state, None for an unknown one; the most demanding one counts.
        max_degradation: how much worse than the original a state may be, relative; None takes 0.01.
    """
    bound = (USUAL_DEGRADATION if max_degradation is None else max_degradation) / _MARGIN
    kinds = {_kind(rule) for rule in rules} or {"unknown"}
    if all(_LIGHT[kind] <= bound for kind in kinds):
        return MomentsConfig.LIGHT
    most = max(_RESUME[kind] for kind in kinds)
    return MomentsConfig.RESUME if most <= bound else MomentsConfig.EXACT


def _kind(rule: UpdateRule | None) -> str:
    if rule is None:
        return "unknown"
    if not isinstance(rule, AdamRule):
        return "momentum"
    return "quick" if rule.betas[1] <= _QUICK else "slow"
