"""Inshrinkerator's payloads: what layer types share, changing settings, the smallest coder, its search."""

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from mvcs.bench.methods.inshrinkerator import HE, PE, RLE, Inshrinkerator
from mvcs.bench.methods.method import Setting, State, unpack
from mvcs.inshrinkerator import ConfigurationCube, ConfigurationSearch
from mvcs.search import Verdict

Tensors = Mapping[str, NDArray[np.float32]]
SHAPES = {"layers.0.fc": (40, 50), "layers.1.fc": (40, 50), "tok_embeddings.weight": (30, 40)}
SETTING: Setting = {"bins": 8, "prune": 0.2, "protect": 0.01, "metric": "magnitude", "embedding_bins": 16}


def drawn(seed: int = 0, moved: float = 0.0) -> tuple[Tensors, Tensors]:
    """Tensors, and scores of them."""
    random, moves = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    tensors = {name: random.normal(0, 0.05, shape).astype(np.float32) for name, shape in SHAPES.items()}
    tensors = {
        name: (tensor + moves.normal(0, moved, tensor.shape)).astype(np.float32)
        for name, tensor in tensors.items()
    }
    scores = {
        name: np.abs(tensor * random.normal(0, 1, tensor.shape)).astype(np.float32)
        for name, tensor in tensors.items()
    }
    return tensors, scores


def test_a_layer_type_has_one_table() -> None:
    tensors, scores = drawn()
    payload, _ = HE().encode(tensors, None, SETTING, scores=scores)
    sections = unpack(payload)[4:]
    assert [len(unpack(section)[0]) // 4 for section in sections] == [8, 16]


def test_embeddings_are_not_pruned() -> None:
    tensors, scores = drawn()
    _, state = HE().encode(tensors, None, SETTING, scores=scores)
    pruned = {name: np.mean(codes == 0) for name, codes in state.known["codes"].items()}
    assert pruned["tok_embeddings.weight"] == 0
    assert np.mean([pruned["layers.0.fc"], pruned["layers.1.fc"]]) == pytest.approx(0.2, abs=0.01)


def test_half_of_what_is_protected_is_so_by_each_metric() -> None:
    tensors, scores = drawn()
    _, state = HE().encode(tensors, None, SETTING, scores=scores)
    kept = {name: codes == 1 for name, codes in state.known["codes"].items()}
    layers = list(SHAPES)[:2]
    values, ranks, marks = (
        np.concatenate([of[name].ravel() for name in layers]) for of in (tensors, scores, kept)
    )
    assert marks[np.argsort(-np.abs(values))[:18]].all()
    assert marks[np.argsort(-ranks)[:18]].all()
    assert 20 <= marks.sum() <= 42


def test_differences_go_round_in_the_larger_number_of_levels() -> None:
    tensors, scores = drawn()
    method, state = HE(), None
    for bins in (4, 32, 6):
        _, state = method.encode(tensors, state, {**SETTING, "bins": bins}, scores=scores)
        codes = state.known["codes"]["layers.0.fc"]
        assert codes.max() == bins + 1
    assert state.known["levels"]["layers.0.fc"] == 8


def test_weights_that_stay_cost_next_to_nothing() -> None:
    tensors, scores = drawn()
    first, state = PE().encode(tensors, None, SETTING, scores=scores)
    second, _ = PE().encode(tensors, state, SETTING, scores=scores)
    assert len(second) < len(first) / 2


@pytest.mark.parametrize("moved", [0.0, 0.001, 0.05])
def test_the_smallest_of_three_coders_is_taken(moved: float) -> None:
    (tensors, scores), (later, _) = drawn(), drawn(moved=moved)
    _, state = Inshrinkerator().encode(tensors, None, SETTING, scores=scores)
    sizes = [len(one.encode(later, state, SETTING, scores=scores)[0]) for one in (HE(), RLE(), PE())]
    payload, _ = Inshrinkerator().encode(later, state, SETTING, scores=scores)
    assert abs(len(payload) - min(sizes)) <= 1  # the coder's name


def test_without_scores_magnitudes_count() -> None:
    tensors, _ = drawn()
    _, by_magnitude = HE().encode(tensors, None, SETTING, scores={})
    _, by_score = HE().encode(tensors, None, {**SETTING, "metric": "sensitivity"}, scores={})
    assert np.array_equal(by_magnitude.tensors["layers.0.fc"], by_score.tensors["layers.0.fc"])


def test_another_seed_draws_other_centers() -> None:
    tensors, scores = drawn()
    found = [HE().encode(tensors, None, SETTING, scores=scores, seed=seed)[0] for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]


def test_the_published_search_takes_its_axes() -> None:
    method, (tensors, scores) = Inshrinkerator(), drawn()
    found: dict[tuple[object, ...], tuple[bytes, State]] = {}

    def encoded(setting: Setting) -> tuple[bytes, State]:
        key = tuple(setting.values())
        if key not in found:
            found[key] = method.encode(tensors, None, setting, scores=scores)
        return found[key]

    def error(setting: Setting) -> float:
        restored = encoded(setting)[1].tensors
        return sum(float(np.square(restored[name] - tensors[name]).mean()) for name in SHAPES) / 0.05**2

    def judge(setting: Setting) -> Verdict:
        return Verdict(error(setting) <= 0.1, error(setting), 0.0, 1, 1.0, False, "")

    search = ConfigurationSearch(ConfigurationCube(method.axes, method.metrics))
    outcome = search.run(lambda setting: len(encoded(setting)[0]), judge)
    assert outcome.chosen is not None
    assert outcome.chosen.verdict.accepted
    accepted = [key for key in found if error(dict(zip(outcome.chosen.setting, key, strict=True))) <= 0.1]
    assert outcome.chosen.stored == min(len(found[key][0]) for key in accepted)
