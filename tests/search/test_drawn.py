"""The search for steps where degradation is mostly luck: a part of either sign, the same for all data."""

import math
from dataclasses import dataclass, field
from functools import cache
from statistics import fmean

import numpy as np
import pytest

from mvcs.search.early_verdict import Verdict
from mvcs.search.settings import SEARCH_DEFAULTS
from mvcs.search.step_search import Attempt, LatticeChoice, LatticeSearch, StepCost
from tests.search.lone import Lone

EPSILON = 0.001
COMMITS = 31
EXACT = 6_400_000
SEEDS = 4


@dataclass
class Drawn(Lone):
    """One layer type whose restored model shifts by luck, drawn anew for every step and hysteresis."""

    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    found: dict[tuple[int, float], float] = field(default_factory=dict)

    @property
    def hystereses(self) -> tuple[float, ...]:
        return (0.0,) if self.parent is None else SEARCH_DEFAULTS.hystereses

    def cost(self, _: str, step: int, hysteresis: float) -> StepCost:
        error = 2.0 ** ((step - 200) / 2) * (1.5e-3 if hysteresis else 1e-3)
        stored = 2e5 * math.log2(1 + math.sqrt(0.001 / error) * (0.7 if hysteresis else 1.0)) + 2e3
        moved = 0 if self.parent is None else min(abs(step - self.parent), 4)
        return StepCost(stored * (1 + 0.08 * moved), error)

    def judge(self, point: LatticeChoice, *, whole: bool = False) -> Verdict:
        """Degradation: a part that grows with the error, and a drawn one that grows with its root."""
        step = point.steps["weights"]
        error = self.cost("weights", step, point.hysteresis).error
        luck = self.found.setdefault((step, point.hysteresis), float(self.rng.normal()))
        root = math.sqrt(error) * (0.1 if self.parent is None else 1.0)
        degradation, doubt = 0.3 * error + 0.15 * root * luck, 0.03 * root
        accepted = degradation + 2 * doubt <= EPSILON
        return Verdict(accepted, degradation, doubt, 20, 1.0 if whole else 0.5, not whole, "")


@cache
def run(seed: int) -> tuple[list[float], list[float]]:
    """Return bytes and evaluations of the commits of a run."""
    space, search = Drawn(rng=np.random.default_rng(seed)), LatticeSearch()
    sizes, evaluations = [], []
    for _ in range(COMMITS):
        outcome = search.run([Attempt(space, space.judge, EPSILON, thorough=space.parent is None)])
        evaluations.append(1 + sum(each.verdict.share for each in outcome.tested))
        sizes.append(outcome.chosen.stored if outcome.chosen else EXACT)
        space.found.clear()
        if outcome.chosen:
            space.parent = outcome.chosen.point.steps["weights"]
    return sizes, evaluations


@pytest.mark.parametrize("seed", range(SEEDS))
def test_luck_makes_no_commit_exact(seed: int) -> None:
    sizes, evaluations = run(seed)
    assert max(sizes) < EXACT
    assert fmean(evaluations) <= 3.2


def test_more_draws_are_taken_before_fine_steps_are() -> None:
    """Steps whose luck does not matter take 1.2 MB, those that most draws refuse 0.2 MB."""
    assert fmean(size for seed in range(SEEDS) for size in run(seed)[0]) < 4e5
