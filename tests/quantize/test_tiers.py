"""Which tier of moments an optimizer gets, and that a commit never records that it was left open."""

import pytest

from mvcs.errors import CorruptionError, UsageError
from mvcs.quantize import LatticeConfig, MomentsConfig, QuantizerConfig
from mvcs.quantize.moments.next_update import AdamRule, SgdRule
from mvcs.quantize.moments.tiers import cheapest_tier


def adam(beta2):
    return AdamRule(1e-3, (0.9, beta2), 1e-8, 0.1, decoupled=True, amsgrad=False, step=5)


SGD = SgdRule(0.1, 0.9, 0.0, nesterov=False, decay=0.0)


@pytest.mark.parametrize(
    ("rules", "bound", "tier"),
    [
        ([adam(0.95)], None, "light"),
        ([adam(0.95)], 0.004, "light"),
        ([adam(0.95)], 0.003, "resume"),
        ([adam(0.999)], 0.01, "light"),
        ([adam(0.999)], 0.004, "resume"),
        ([adam(0.999)], 0.002, "exact"),
        ([adam(0.95)], 0.0005, "exact"),
        ([adam(0.95)], 0, "exact"),
        ([SGD], None, "resume"),
        ([SGD], 0.1, "light"),
        ([SGD], 0.001, "exact"),
        ([adam(0.95), SGD], 0.01, "resume"),
        ([], 0.05, "resume"),
        ([adam(0.95), None], 0.05, "resume"),
        ([], 0.001, "exact"),
    ],
)
def test_the_cheapest_tier_that_costs_half_of_the_bound_at_most(rules, bound, tier):
    assert cheapest_tier(rules, bound) == MomentsConfig.named(tier)


@pytest.mark.parametrize("bound", [-0.1, float("nan"), float("inf")])
def test_odd_bounds(bound):
    with pytest.raises(UsageError, match="degradation of"):
        MomentsConfig.auto(bound)


def test_auto_is_for_both_moments_and_alone_has_a_bound():
    with pytest.raises(UsageError, match="without the other"):
        MomentsConfig("auto", 2.0)
    with pytest.raises(UsageError, match="degradation of"):
        MomentsConfig("sign", 2.0, 0.01)


def test_a_commit_says_what_was_chosen():
    with pytest.raises(CorruptionError, match="how moments were kept"):
        QuantizerConfig.from_fields(LatticeConfig(moments=MomentsConfig.auto()).to_fields())
