"""The published search on simulated commits, small enough to be compared with brute force."""

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvcs.errors import UsageError
from mvcs.inshrinkerator.configuration_search import (
    AXES,
    EMBEDDING_AXES,
    METRICS,
    ConfigurationCube,
    ConfigurationSearch,
    Setting,
)
from mvcs.search.early_verdict import Verdict

EPSILON = 0.01
CUBE = ConfigurationCube(AXES, METRICS)
EMBEDDING_CUBE = ConfigurationCube(EMBEDDING_AXES, METRICS)


def verdict(degradation: float, noise: float | None = 0.0) -> Verdict:
    accepted = degradation + 2 * (noise or 0.0) <= EPSILON
    return Verdict(accepted, degradation, noise, 16, 1.0, False, "")


def setting(bins: int, prune: float, protect: float, metric: str = "magnitude") -> Setting:
    return {"bins": bins, "prune": prune, "protect": protect, "metric": metric}


def values(setting: Setting) -> tuple[float | str, ...]:
    return tuple(setting.values())


def settings(cube: ConfigurationCube) -> list[Setting]:
    places = itertools.product(*(range(top + 1) for top in cube.top))
    found = [cube.at(place, metric) for place in places for metric in cube.metrics or (None,)]
    return sorted({values(each): each for each in found}.values(), key=values)


@dataclass
class Simulated:
    """A model whose degradation rises with every axis, and whose bytes fall.

    Attributes:
        cut, pruned, kept: how much a table, pruning and protection weigh.
        better: how much less pruning by sensitivity hurts.
        shift: what all degradations are multiplied with.
    """

    cut: float = 0.2
    pruned: float = 0.05
    kept: float = 0.3
    better: float = 0.8
    shift: float = 1.0
    asked: list[Setting] = field(default_factory=list)

    def degradation(self, setting: Setting) -> float:
        metric = self.better if setting["metric"] == "sensitivity" else 1.0
        table = self.cut / setting["bins"] ** 2 * (1 - self.kept * math.sqrt(setting["protect"]))
        embedding = 0.3 / setting["embedding_bins"] ** 2 if "embedding_bins" in setting else 0.0
        return self.shift * (table + embedding + metric * self.pruned * setting["prune"] ** 2)

    def stored(self, setting: Setting) -> int:
        bits = math.log2(setting["bins"]) * (1 - setting["prune"]) + 40 * setting["protect"]
        return int(1e6 * (bits + math.log2(setting.get("embedding_bins", 1)) / 10))

    def judge(self, setting: Setting) -> Verdict:
        self.asked.append(setting)
        return verdict(self.degradation(setting))

    def brute(self, cube: ConfigurationCube = CUBE) -> Setting | None:
        kept = [each for each in settings(cube) if self.degradation(each) <= EPSILON]
        return min(kept, key=lambda each: (self.stored(each), values(each)), default=None)


def test_the_cube_is_the_published_one():
    assert len(settings(ConfigurationCube(AXES, ("magnitude",)))) == 6 * 6 * 3  # tables 2 and 9
    assert len(settings(CUBE)) == 6 * 3 * (6 + 5)  # nothing pruned is one setting for both metrics
    assert {each["embedding_bins"] for each in settings(EMBEDDING_CUBE)} == {16, 32}


@pytest.mark.parametrize("axis", [(), (4, 8, 4)])
def test_an_axis_has_different_values(axis: tuple[int, ...]):
    with pytest.raises(UsageError, match="the axis bins"):
        ConfigurationCube({"bins": axis})


@given(
    st.dictionaries(st.sampled_from(["low", "high", "range", "steps"]), st.integers(1, 6), min_size=1),
    st.data(),
)
def test_any_axes_are_searched(sizes: dict[str, int], data: st.DataObject):
    cube = ConfigurationCube({name: range(size) for name, size in sizes.items()})
    weights = {name: data.draw(st.floats(0.01, 1), name) for name in sizes}

    def coarseness(setting: Setting) -> float:
        return sum(weight * (sizes[name] - 1 - setting[name]) for name, weight in weights.items())

    bound = data.draw(st.floats(0, 3), "bound")
    search = ConfigurationSearch(cube)
    for _ in range(2):  # halves, then the neighbourhood
        outcome = search.run(
            lambda each: int(1e6 / (1 + coarseness(each))), lambda each: verdict(coarseness(each) - bound)
        )
        kept = [each for each in settings(cube) if coarseness(each) - bound <= EPSILON]
        assert outcome.chosen is not None
        assert outcome.chosen.stored == min(int(1e6 / (1 + coarseness(each))) for each in kept)


@pytest.mark.parametrize("cube", [CUBE, EMBEDDING_CUBE])
@pytest.mark.parametrize("shift", [0.02, 0.3, 1.0, 3.0, 30.0])
def test_a_first_search_finds_what_brute_force_finds(cube: ConfigurationCube, shift: float):
    model = Simulated(shift=shift)
    outcome = ConfigurationSearch(cube).run(model.stored, model.judge)
    best = model.brute(cube)
    if best is None:
        assert outcome.chosen is None
    else:
        assert outcome.chosen is not None
        assert outcome.chosen.stored == model.stored(best)
    assert len(model.asked) == len(set(map(values, model.asked))) == len(outcome.tested)
    assert len(outcome.tested) <= 60 * (1 if cube is CUBE else 2)


@given(cut=st.floats(0.01, 10), pruned=st.floats(0, 1), kept=st.floats(0, 5), better=st.floats(0.2, 2))
def test_on_monotone_surfaces_the_best_is_found(cut: float, pruned: float, kept: float, better: float):
    model = Simulated(cut, pruned, kept, better)
    outcome = ConfigurationSearch(CUBE).run(model.stored, model.judge)
    best = model.brute()
    assert (outcome.chosen and outcome.chosen.stored) == (best and model.stored(best))
    assert len(outcome.tested) <= 60


@given(st.integers(0, 2**32), st.sampled_from([None, 1, 3, 6, 20]), st.floats(0, 1))
def test_on_no_surface_something_refused_is_chosen(seed: int, most: int | None, share: float):
    search = ConfigurationSearch(CUBE, most=most)
    rng = np.random.default_rng(seed)
    for _ in range(4):
        before = search.last
        accepted = {values(each): bool(rng.random() < share) for each in settings(CUBE)}
        sizes = {values(each): int(rng.integers(1, 1000)) for each in settings(CUBE)}
        outcome = search.run(
            lambda each: sizes[values(each)],  # noqa: B023
            lambda each: verdict(0 if accepted[values(each)] else 1),  # noqa: B023
        )
        tested = {values(each.setting) for each in outcome.tested}
        assert len(tested) == len(outcome.tested) <= (most or math.inf)
        if outcome.chosen is None:
            assert not any(accepted[each] for each in tested)
            assert search.last == before
        else:
            kept = [each.stored for each in outcome.tested if accepted[values(each.setting)]]
            assert accepted[values(outcome.chosen.setting)]
            assert outcome.chosen.stored == min(kept)
            assert not is_more_aggressive(outcome.chosen.setting, before)


def is_more_aggressive(setting: Setting, before: Setting | None) -> bool:
    """Tell whether a setting is at least as coarse along every axis, and coarser along one."""
    if before is None:
        return False
    place, old = CUBE.place(setting), CUBE.place(before)
    assert place is not None
    assert old is not None
    return place != old and all(mine <= its for mine, its in zip(place, old, strict=True))


def test_later_commits_look_nearby_and_get_only_finer():
    model, search = Simulated(), ConfigurationSearch(CUBE)
    first = search.run(model.stored, model.judge)
    assert first.exhaustive
    for _ in range(12):
        before = search.last
        model.shift *= 1.12
        outcome = search.run(model.stored, model.judge)
        assert outcome.chosen is not None
        assert model.degradation(outcome.chosen.setting) <= EPSILON
        assert not is_more_aggressive(outcome.chosen.setting, before)
        if not outcome.exhaustive:
            assert len(outcome.tested) <= 9  # the last setting, another metric, and 7 neighbours
            old, new = CUBE.place(before or search.last), CUBE.place(outcome.chosen.setting)
            assert all(0 <= mine - its <= 1 for mine, its in zip(new or (), old or (), strict=True))


def test_a_setting_that_still_keeps_the_bound_is_kept_after_two_evaluations():
    model = Simulated()
    search = ConfigurationSearch(CUBE, last=setting(8, 0.2, 0.005, "sensitivity"))
    outcome = search.run(model.stored, model.judge)
    assert [each.setting["metric"] for each in outcome.tested] == ["sensitivity", "magnitude"]
    assert outcome.chosen == outcome.tested[0]


def test_where_nothing_is_pruned_no_other_metric_is_tried():
    model = Simulated()
    outcome = ConfigurationSearch(CUBE, last=setting(16, 0.0, 0.005)).run(model.stored, model.judge)
    assert len(outcome.tested) == 1


@pytest.mark.parametrize(
    ("degradations", "chosen"),
    [
        ((0.006, 0.002), "sensitivity"),  # noticeably better
        ((0.0061, 0.006), "magnitude"),
        ((0.02, 0.006), "sensitivity"),
        ((math.inf, 0.006), "sensitivity"),
    ],
)
def test_another_metric_is_taken_where_it_is_noticeably_better(
    degradations: tuple[float, float], chosen: str
):
    by_metric = dict(zip(("magnitude", "sensitivity"), degradations, strict=True))

    def judge(setting: Setting) -> Verdict:
        return verdict(by_metric[setting["metric"]], None)

    def stored(setting: Setting) -> int:
        # Of two that keep the bound the one to go on with is also the smaller one.
        return 1000 * setting["bins"] - (setting["metric"] == chosen)

    search = ConfigurationSearch(CUBE, last=setting(8, 0.2, 0.005))
    outcome = search.run(stored, judge)
    assert outcome.chosen is not None
    assert outcome.chosen.setting["metric"] == chosen


def test_another_metric_is_not_taken_within_its_standard_errors():
    seen: list[Setting] = []

    def judge(setting: Setting) -> Verdict:
        seen.append(setting)
        return verdict(0.011 if setting["metric"] == "magnitude" else 0.0105, 0.001)

    ConfigurationSearch(CUBE, last=setting(8, 0.2, 0.005)).run(lambda setting: setting["bins"], judge)
    assert [each["metric"] for each in seen[:2]] == ["magnitude", "sensitivity"]
    assert all(each["metric"] == "magnitude" for each in seen[2:9])


def test_where_nothing_near_keeps_the_bound_the_whole_cube_is_searched():
    model = Simulated(shift=3.0)
    search = ConfigurationSearch(CUBE, last=setting(4, 0.5, 0.0005))
    outcome = search.run(model.stored, model.judge)
    best = model.brute()
    assert outcome.exhaustive
    assert best is not None
    assert outcome.chosen is not None
    assert outcome.chosen.stored == model.stored(best)


def test_time_and_evaluations_are_budgets():
    model = Simulated()
    times = iter([False, False, True])
    outcome = ConfigurationSearch(CUBE).run(model.stored, model.judge, lambda: next(times))
    assert len(outcome.tested) == 2
    assert len(ConfigurationSearch(CUBE, most=3).run(model.stored, model.judge).tested) == 3
    nothing = ConfigurationSearch(CUBE, most=0).run(model.stored, model.judge)
    assert nothing.chosen is None
    assert not nothing.tested


def test_a_setting_outside_the_cube_begins_anew():
    model = Simulated()
    for last in (setting(5, 0.2, 0.005), setting(8, 0.2, 0.005, "momentum")):
        assert ConfigurationSearch(CUBE, last=last).run(model.stored, model.judge).exhaustive


def test_bytes_are_asked_for_once_each():
    model, asked = Simulated(), []

    def stored(setting: Setting) -> int:
        asked.append(values(setting))
        return model.stored(setting)

    ConfigurationSearch(CUBE).run(stored, model.judge)
    assert len(asked) == len(set(asked))
