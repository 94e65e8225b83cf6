"""The search where codes that were kept too far leave the next commit nothing but the finest steps."""

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

import pytest

from mvcs.search.early_verdict import Verdict
from mvcs.search.settings import SEARCH_DEFAULTS
from mvcs.search.step_search import Attempt, LatticeChoice, LatticeSearch, StepCost
from tests.search.lone import Lone

EPSILON = 0.001
COMMITS = 40
CLIFF, STALE, FINE = 4e-3, 2e-3, 1e-5


@dataclass
class Chain(Lone):
    """One layer type. Its error may be as large as CLIFF; one above STALE asks for FINE at the next one."""

    passed_on: float = 0.0

    @property
    def hystereses(self) -> tuple[float, ...]:
        return (0.0,) if self.parent is None else SEARCH_DEFAULTS.hystereses[:1]

    def cost(self, _: str, step: int, hysteresis: float) -> StepCost:
        error = 2.0 ** ((step - 200) / 2) * (1.5e-4 if hysteresis else 1e-4)
        stored = 4e5 * math.log2(1 + math.sqrt(0.001 / error) * (0.7 if hysteresis else 1.0)) + 2e3
        return StepCost(stored, error)

    def judge(self, point: LatticeChoice, *, whole: bool = False) -> Verdict:
        error = self.cost("weights", point.steps["weights"], point.hysteresis).error
        largest = FINE if self.passed_on > STALE else CLIFF
        degradation = -0.005 if error <= largest else 0.005
        share = 1.0 if whole else 0.25
        return Verdict(error <= largest, degradation, 0.001, 20, share, not whole, "")


def run(search: LatticeSearch) -> tuple[list[float], float]:
    """Return the errors of the commits of a run, and evaluations a commit."""
    space, errors, spent = Chain(), [], 0.0
    for _ in range(COMMITS):
        outcome = search.run([Attempt(space, space.judge, EPSILON, thorough=space.parent is None)])
        assert outcome.chosen is not None
        space.parent, space.passed_on = outcome.chosen.point.steps["weights"], outcome.chosen.error
        errors.append(outcome.chosen.error)
        spent += 1 + sum(each.verdict.share for each in outcome.tested)
    return errors, spent / COMMITS


def test_errors_that_were_followed_by_a_fall_are_kept_away_from() -> None:
    errors, evaluations = run(LatticeSearch())
    falls = [after < before / 10 for before, after in pairwise(errors)]
    assert 0 < sum(falls) <= COMMITS / 8
    assert evaluations <= 3.0


def test_after_a_fall_the_next_commit_goes_back_far() -> None:
    errors, _ = run(LatticeSearch())
    fallen = [index for index, error in enumerate(errors[:-1]) if error <= FINE]
    assert fallen
    assert fmean(errors[index + 1] for index in fallen) > 20 * FINE


def test_a_search_of_one_point_does_not_leap() -> None:
    search = LatticeSearch(most=1)
    search.models[0.5].reached, search.models[0.5].trusted = 1.0, 1e-4
    space = Chain(parent=200)
    (tested,) = search.run([Attempt(space, space.judge, EPSILON)]).tested
    assert not tested.missed
    assert tested.error <= 1e-4 * 1.6


@pytest.mark.parametrize("luck", [1.3, 1.6, 2.0])
def test_what_the_whole_sample_refuses_is_not_taken(luck: float) -> None:
    """The batches of early verdicts are kinder than the rest; the search finds a point all the same."""
    space = Chain()

    def judge(point: LatticeChoice, *, whole: bool = False) -> Verdict:
        error = space.cost("weights", point.steps["weights"], point.hysteresis).error
        degradation = error * 50 * (luck if whole else 1.0)
        accepted = degradation + 2e-4 <= EPSILON
        return Verdict(accepted, degradation, 1e-4, 20, 1.0 if whole else 0.25, not whole, "")

    outcome = LatticeSearch().run([Attempt(space, judge, EPSILON, thorough=True)])
    assert outcome.chosen is not None
    assert outcome.chosen.verdict.accepted
    assert not outcome.chosen.verdict.is_early
    refuted = [each for each in outcome.tested if not each.verdict.accepted and not each.verdict.is_early]
    assert refuted or luck < 2
