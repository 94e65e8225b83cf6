"""Which tier of moments an optimizer gets, and that a commit never records that it was left open."""

import pytest

from mvcs.checkpoint.known_optimizers import KNOWN_OPTIMIZERS
from mvcs.errors import CorruptionError, UsageError
from mvcs.quantize import LatticeConfig, MomentsConfig, QuantizerConfig
from mvcs.quantize.config import auto_takes, cheapest_tier, tier_class


def adam(beta2):
    return tier_class("Adam", {"betas": (0.9, beta2)})


SGD = tier_class("SGD", {"momentum": 0.9})


@pytest.mark.parametrize(
    ("classes", "bound", "tier"),
    [
        ([adam(0.95)], None, "light"),
        ([adam(0.95)], 0.004, "light"),
        ([adam(0.95)], 0.003, "resume"),
        ([adam(0.999)], 0.01, "light"),
        ([adam(0.999)], 0.008, "resume"),
        ([adam(0.999)], 0.004, "resume"),
        ([adam(0.999)], 0.002, "exact"),
        ([adam(0.95)], 0.0005, "exact"),
        ([adam(0.95)], 0, "exact"),
        ([SGD], None, "resume"),
        ([SGD], 0.1, "light"),
        ([SGD], 0.02, "light"),
        ([SGD], 0.0195, "resume"),
        ([SGD], 0.001, "exact"),
        ([adam(0.95), SGD], 0.01, "resume"),
        ([], 0.05, "resume"),
        (["no name", adam(0.95)], 0.05, "exact"),
        (["described"], 0.05, "resume"),
        (["described"], 0.001, "exact"),
        ([], 0.001, "exact"),
    ],
)
def test_the_cheapest_tier_that_costs_half_of_the_bound_at_most(classes, bound, tier):
    assert cheapest_tier(classes, bound) == MomentsConfig.named(tier)


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


@pytest.mark.parametrize("betas", [None, 0.9, (0.9,), (0.9, "x"), (0.9, None)])
def test_odd_betas_count_as_slow(betas):
    assert tier_class("Adam", {"betas": betas}) == "Adam"


def test_moments_are_described_by_name():
    config = MomentsConfig.described({"v": "second", "exp_avg": "first"})
    assert config.is_auto
    assert config.kinds == (("exp_avg", "first"), ("v", "second"))
    for odd in ({"v": "third"}, {"v": None}, {"v": ["first"]}, {"v": "Moment"}):
        with pytest.raises(UsageError, match="the moment 'v' cannot be") as refused:
            MomentsConfig.described(odd)
        assert "first, second, momentum, weight, iterate, exact" in refused.value.hint
    for odd in ({}, {1: "first"}, {"": "first"}):
        with pytest.raises(UsageError, match="moments cannot be"):
            MomentsConfig.described(odd)


def test_every_optimizer_of_which_something_is_rounded_was_probed_or_is_never_chosen():
    rounded = {one.name for one in KNOWN_OPTIMIZERS if one.rounds}
    chosen = {name for name in rounded if cheapest_tier([tier_class(name, {})], 0.05) != MomentsConfig.EXACT}
    assert rounded - chosen == {"SparseAdam"}


@pytest.mark.parametrize(
    ("name", "bound", "tier"),
    [
        ("NAdam", 0.01, "light"),
        ("RMSprop", 0.01, "light"),
        ("RMSprop", 0.005, "resume"),
        ("RMSprop", 0.001, "resume"),
        ("schedule-free", 0.002, "light"),
        ("Muon", 0.01, "light"),
        ("Muon", 0.009, "resume"),
        ("Lion", 0.01, "resume"),
        ("Muon", 0.05, "light"),
        ("Lion", 0.001, "exact"),
    ],
)
def test_tiers_of_optimizers(name, bound, tier):
    assert cheapest_tier([tier_class(name, {})], bound) == MomentsConfig.named(tier)


@pytest.mark.parametrize(
    ("classes", "bound", "tier"),
    [
        ([SGD], 0.0045, "resume"),
        ([SGD], 0.004, "finer"),
        (["Muon"], 0.0045, "finer"),
        (["Muon"], 0.001, "exact"),
        (["Muon", adam(0.95)], 0.0045, "finer"),
        (["Muon", adam(0.999)], 0.002, "exact"),
        (["Lion"], 0.009, "resume"),
        (["Lion"], 0.0089, "finer"),
        (["RMSprop"], 0.0009, "finer"),
        (["described"], 0.004, "exact"),
    ],
)
def test_momentum_alone_has_finer_steps_where_the_bound_is_tight(classes, bound, tier):
    assert cheapest_tier(classes, bound).name == tier


@pytest.mark.parametrize(
    ("told", "counts_as"),
    [
        ("AdamW betas=0.9,0.95", "quick Adam"),
        ("Adam betas=0.9,1e-05", "quick Adam"),
        ("AdamW betas=0.9,0.999", "Adam"),
        ("AdamW", "Adam"),
        ("Adam betas=..,1.2.3", "Adam"),
        ("Muon momentum=0.95", "Muon"),
    ],
)
def test_what_a_commit_tells_of_an_optimizer_says_from_where_each_tier_is_taken(
    told: str, counts_as: str
) -> None:
    taken = auto_takes(told)
    assert cheapest_tier([counts_as], taken.light) == MomentsConfig.LIGHT
    assert cheapest_tier([counts_as], 0.99 * taken.light) == MomentsConfig.RESUME
    assert cheapest_tier([counts_as], taken.resume) == MomentsConfig.RESUME
