"""The steps of fewest bytes for an error."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from mvcs.search.step_search import StepCost, cheapest, error_of

START = 200


@dataclass
class Kept:
    """Two layer types whose codes are kept at the parent's step: errors there are those eight steps finer."""

    @property
    def starts(self) -> Mapping[str, int]:
        return {"head.weight": START, "mlp.weight": START + 4}

    held: frozenset[str] = frozenset()

    @property
    def settled(self) -> frozenset[str]:
        return frozenset(self.starts)

    @property
    def coarsest(self) -> Mapping[str, int]:
        return {kind: step + 8 for kind, step in self.starts.items()}

    @property
    def hystereses(self) -> tuple[float, ...]:
        return (0.5,)

    def cost(self, kind: str, step: int, _: float) -> StepCost:
        kept = step == self.starts[kind]
        error = 2.0 ** ((step - (8 if kept else 0) - START) / 2)
        return StepCost(100.0 if kept else 1e4 * (START + 64 - step), error)


@pytest.mark.parametrize("most", [10.0, 0.3, 0.1, 1e-3, 1e-6])
def test_errors_below_those_of_kept_codes_are_reached(most: float) -> None:
    point = cheapest(Kept(), 0.5, most)
    assert point is not None
    assert error_of(Kept(), point) <= most


def test_what_no_step_reaches_is_not_found() -> None:
    assert cheapest(Kept(), 0.5, 1e-12) is None


def test_where_codes_can_be_kept_they_are() -> None:
    point = cheapest(Kept(), 0.5, 1.0)
    assert point is not None
    assert point.steps == Kept().starts


def test_steps_that_are_held_stay_whatever_error_is_allowed() -> None:
    space = Kept(frozenset({"head.weight"}))
    points = [cheapest(space, 0.5, most) for most in (10.0, 0.3, 0.1, 1e-3, 1e-6)]

    assert all(point is not None and point.steps["head.weight"] == START for point in points)
    others = [point.steps["mlp.weight"] for point in points if point is not None]
    assert others == sorted(others, reverse=True)
    assert others[2] > others[3] > others[4]


def test_where_all_steps_are_held_there_is_one_point() -> None:
    space = Kept(frozenset({"head.weight", "mlp.weight"}))
    point = cheapest(space, 0.5, 1e-12)
    assert point is not None
    assert point.steps == space.starts
