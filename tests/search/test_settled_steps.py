"""Steps that have a parent are held, or move by octaves."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from mvcs.objects import STEPS_PER_OCTAVE
from mvcs.search.early_verdict import Verdict
from mvcs.search.settings import SEARCH_DEFAULTS
from mvcs.search.step_search import Attempt, LatticeChoice, LatticeSearch, StepCost

EPSILON = 0.01


@dataclass
class Two:
    """An old layer type and a new one; degradation is the error, and what the evaluation adds to it.

    Attributes:
        parent: the old one's step byte; None at the first commit.
        noise: the standard error of every evaluation.
        luck: what every evaluation is off.
    """

    parent: int | None = 200
    noise: float = 1e-4
    luck: float = 0.0
    asked: list[LatticeChoice] = field(default_factory=list)

    @property
    def starts(self) -> Mapping[str, int]:
        return {"old": self.parent or 200, "new": 201}

    @property
    def settled(self) -> frozenset[str]:
        return frozenset() if self.parent is None else frozenset({"old"})

    @property
    def held(self) -> frozenset[str]:
        return frozenset()

    @property
    def coarsest(self) -> Mapping[str, int]:
        return {"old": 230, "new": 230}

    @property
    def hystereses(self) -> tuple[float, ...]:
        return (0.0,) if self.parent is None else (0.5,)

    def cost(self, kind: str, step: int, _: float) -> StepCost:
        refined = max(self.starts[kind] - step, 0) if kind in self.settled else 0
        return StepCost(1e3 * (240 - step) + 2e3 * refined, 2e-3 * 2.0 ** ((step - 200) / 2))

    def judge(self, point: LatticeChoice) -> Verdict:
        self.asked.append(point)
        found = self.luck + sum(self.cost(kind, step, 0.5).error for kind, step in point.steps.items())
        return Verdict(found + 2 * self.noise <= EPSILON, found, self.noise, 16, 1.0, False, "")


class OnlyOld(Two):
    @property
    def starts(self) -> Mapping[str, int]:
        return {"old": self.parent or 200}


@pytest.mark.parametrize("parent", [180, 213])
def test_what_has_a_parent_moves_by_octaves_and_what_is_new_by_any_step(parent: int) -> None:
    space, search = Two(parent), LatticeSearch()
    for _ in range(3):
        search.run([Attempt(space, space.judge, EPSILON, thorough=True)])
    moves = {point.steps["old"] - parent for point in space.asked}
    assert moves != {0}
    near = {move for move in moves if 0 < -move <= SEARCH_DEFAULTS.nested}
    assert {move % STEPS_PER_OCTAVE for move in near} <= {0}
    assert {(point.steps["new"] - 201) % STEPS_PER_OCTAVE for point in space.asked} != {0}


def test_the_parents_steps_come_after_coarser_ones_and_before_finer_ones() -> None:
    space, search = OnlyOld(208, luck=-0.023), LatticeSearch()
    outcome = search.run([Attempt(space, space.judge, EPSILON)])
    asked = [point.steps["old"] for point in space.asked]
    assert asked.count(208) == 1
    assert all(step > 208 for step in asked[: asked.index(208)])
    assert outcome.chosen is not None
    assert outcome.chosen.point.steps["old"] == 208


def test_what_is_surely_better_than_the_original_is_made_coarser() -> None:
    space, search = OnlyOld(200, noise=0.01, luck=-0.2), LatticeSearch()
    for _ in range(4):
        outcome = search.run([Attempt(space, space.judge, EPSILON)])
        assert outcome.chosen is not None
        space.parent = outcome.chosen.point.steps["old"]
    assert space.parent > 200


def test_a_step_that_is_refused_is_followed_by_finer_ones_not_by_itself() -> None:
    space, search = OnlyOld(216), LatticeSearch()
    outcome = search.run([Attempt(space, space.judge, EPSILON)])
    asked = [point.steps["old"] for point in space.asked]
    assert len(set(asked)) == len(asked)
    assert outcome.chosen is not None
    assert outcome.chosen.point.steps["old"] < 216


class Moving(OnlyOld):
    """Codes that are the nearest ones, where any other step takes ten times the bytes."""

    @property
    def hystereses(self) -> tuple[float, ...]:
        return (0.0,)

    def cost(self, kind: str, step: int, hysteresis: float) -> StepCost:
        cost = super().cost(kind, step, hysteresis)
        return cost if step == self.parent else StepCost(10 * cost.stored, cost.error)


@pytest.mark.parametrize("factor", [1.2, 1.6, 2.2])
def test_a_step_that_kept_the_bound_is_asked_for_before_finer_ones_at_any_hysteresis(factor: float) -> None:
    """What was learnt says that it breaks the bound by so much, and it does not."""
    space, search = Moving(202), LatticeSearch()
    search.models[0.0].learn(factor * EPSILON / space.cost("old", 202, 0.0).error, 0.1)
    outcome = search.run([Attempt(space, space.judge, EPSILON)])
    assert space.asked[0].steps["old"] == 202
    assert outcome.chosen is not None
    assert outcome.chosen.point.steps["old"] == 202
