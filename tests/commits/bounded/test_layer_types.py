"""Tensors share a step or thresholds only where their scales are alike, and keep to those they did."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mvcs import Repository
from mvcs.commits.quantizers.layer_types import PROVENANCE, SPAN, STAYS, grouped, remembered
from mvcs.objects.commit import Commit
from mvcs.objects.ids import ObjectId
from mvcs.quantize import LatticeConfig
from tests.commits.bounded.test_bounded import forms

NEW = -1


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with Repository.init(tmp_path / "run") as repository:
        yield repository


def sequential() -> dict[str, torch.Tensor]:
    """The weights of a model whose names tell nothing, as PyTorch initializes them."""
    torch.manual_seed(0)
    parts = torch.nn.Embedding(1000, 256), torch.nn.Linear(256, 1024), torch.nn.ReLU()
    return torch.nn.Sequential(*parts, torch.nn.Linear(1024, 10)).state_dict()


def scaled(*scales: float) -> dict[str, dict[str, torch.Tensor]]:
    """A model of matrices of these scales, all of one name but for a number; other ones for other scales."""
    rng = np.random.default_rng([round(1000 * scale) for scale in scales])
    values = [torch.from_numpy(rng.standard_normal((40, 50)) * scale).float() for scale in scales]
    return {"model": {f"layers.{at}.weight": one for at, one in enumerate(values)}}


def steps(repo: Repository) -> list[int]:
    return [form.step for form in forms(repo, "HEAD").values()]


def lost(repo: Repository, model: dict[str, torch.Tensor]) -> dict[str, float]:
    back = repo.checkout()
    return {name: float((back[name] - value).norm() / value.norm()) for name, value in model.items()}


@pytest.mark.parametrize(
    "settings",
    [{"step_size": 0.5}, {"step_size": 0.5, "share": "tensor"}, {"bins": 16, "prune": 0.3}],
    ids=str,
)
def test_no_layer_is_lost_beside_a_larger_one_of_a_like_name(repo: Repository, settings) -> None:
    model = sequential()
    repo.commit(model, **settings)
    assert max(lost(repo, model).values()) < 0.5


def test_a_search_finds_steps_for_each_scale(repo: Repository) -> None:
    trial = repo.trial(sequential(), quantizer=LatticeConfig())
    assert {kind: len(leaves) for kind, leaves in trial.kinds.items()} == {
        "#.weight (1)": 1,
        "#.weight (2)": 2,
    }
    config = trial.steps({"#.weight (1)": 200, "#.weight (2)": 190}, 0.0)
    repo.commit(sequential(), quantizer=config)
    assert [form.step for path, form in forms(repo, "HEAD").items() if "weight" in path] == [200, 190, 190]


def test_a_step_that_is_given_for_a_name_is_that_of_all_its_scales(repo: Repository) -> None:
    repo.commit(scaled(1.0, 0.1), quantizer=LatticeConfig(steps=(("model.layers.#.weight", 190),)))
    assert steps(repo) == [190, 190]


def test_tensors_stay_with_those_that_they_shared_a_step_with(repo: Repository) -> None:
    repo.config_set("commit.max_tensor_error", "1")  # which would refine the smaller ones
    repo.commit(scaled(1.0, 0.3), step_size=0.5)
    assert len(set(steps(repo))) == 1
    for ratio in (0.24, 0.26, 0.14):  # farther apart than tensors that become one type may be
        repo.commit(scaled(1.0, ratio), step_size=0.5)
        assert len(set(steps(repo))) == 1
    repo.commit(scaled(1.0, 0.12), step_size=0.5)
    assert len(set(steps(repo))) == 2
    for ratio in (0.2, 0.24):  # and farther than those that join another's may be
        repo.commit(scaled(1.0, ratio), step_size=0.5)
        assert len(set(steps(repo))) == 2


def test_another_process_and_a_clone_know_the_types(repo: Repository, tmp_path: Path) -> None:
    repo.commit(scaled(1.0, 0.9, 0.12), step_size=0.5)
    near = scaled(1.0, 0.9, 0.24)
    with Repository.clone(str(tmp_path / "run"), tmp_path / "clone") as clone:
        clone.commit(near, step_size=0.5)
        there = steps(clone)
    with Repository.open(tmp_path / "run") as again:
        again.commit(near, step_size=0.5)
    assert steps(repo) == there
    assert len(set(there)) == 2
    assert repo.show("HEAD").provenance[PROVENANCE] == '{"model.layers.#.weight":[0,0,1]}'


def test_what_begins_with_zeros_joins_its_likes_later(repo: Repository) -> None:
    repo.commit(scaled(1.0, 0.1, 0.0), step_size=0.5)
    assert repo.show("HEAD").provenance[PROVENANCE] == '{"model.layers.#.weight":[0,1,-1]}'
    repo.commit(scaled(1.0, 0.1, 0.12), step_size=0.5)
    assert repo.show("HEAD").provenance[PROVENANCE] == '{"model.layers.#.weight":[0,1,1]}'


def test_a_name_with_other_tensors_than_before_is_sorted_anew(repo: Repository) -> None:
    repo.commit(scaled(1.0, 0.1), step_size=0.5)
    repo.commit(scaled(1.0, 0.9, 0.1), step_size=0.5)
    assert repo.show("HEAD").provenance[PROVENANCE] == '{"model.layers.#.weight":[0,0,1]}'


@given(st.lists(st.sampled_from([0.0, 1e-30, *(2.0**at for at in np.arange(-4, 4, 0.25)), float("inf")])))
def test_tensors_that_become_one_type_are_of_like_scales(scales: list[float]) -> None:
    numbers = grouped(scales, [NEW] * len(scales))
    known = [at for at, scale in enumerate(scales) if 0 < scale < float("inf")]
    assert [at for at, number in enumerate(numbers) if number != NEW] == known
    for number in set(numbers) - {NEW}:
        found = [scales[at] for at in known if numbers[at] == number]
        assert max(found) / min(found) <= SPAN * 1.000001
    assert grouped(scales, numbers) == numbers


@given(st.lists(st.tuples(st.floats(-4, 4), st.integers(-1, 3)), min_size=1))
def test_who_stays_in_a_type_is_within_twice_that(pairs: list[tuple[float, int]]) -> None:
    scales, before = [2.0**at for at, _ in pairs], [number for _, number in pairs]
    numbers = grouped(scales, before)
    for number in set(numbers):
        found = [scale for scale, own in zip(scales, numbers, strict=True) if own == number]
        assert max(found) / min(found) <= STAYS * 1.000001
    assert grouped(scales, numbers) == numbers


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "[]",
        '{"a": 3}',
        '{"a": [2]}',
        '{"a": [-2]}',
        '{"a": [true]}',
        '{"a": [0.5]}',
        "[" * 100_000,
        "7",
    ],
)
def test_what_a_hostile_commit_says_of_types_is_not_believed(text: str) -> None:
    nothing = ObjectId(bytes(32))
    commit = Commit(nothing, (), "Eve", 0, "", provenance=((PROVENANCE, text),))
    assert remembered(commit) == {}
    assert remembered(replace(commit, provenance=((PROVENANCE, 3),))) == {}
