"""No tensor is farther off than any may be, whatever quantizes it, and the one that is off most is named."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mvcs import Repository
from mvcs.errors import UsageError
from mvcs.quantize import KMeansConfig, LatticeConfig, MomentsConfig
from mvcs.search import Evaluation
from tests.commits.bounded.test_bounded import forms
from tests.commits.bounded.test_layer_types import scaled, sequential
from tests.repository.models import tensors

LIMIT = 0.7
KEY = "commit.max_tensor_error"


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with Repository.init(tmp_path / "run") as repository:
        yield repository


def lost(repo: Repository, state: object) -> dict[str, float]:
    """How far off each tensor is, over its own root mean square."""
    back, found = tensors(repo.checkout()), {}
    for path, value in tensors(state).items():
        exact = value.double()
        found[path] = float((back[path].double() - exact).norm() / exact.norm())
    return found


def moments(first: np.ndarray, second: np.ndarray) -> dict[str, Any]:
    """The state of Adam for one matrix."""
    held = {
        "step": torch.tensor(9.0),
        "exp_avg": torch.from_numpy(first),
        "exp_avg_sq": torch.from_numpy(second),
    }
    return {"optimizer": {"state": {0: held}, "param_groups": []}}


@pytest.mark.parametrize(
    "settings",
    [
        {"step_size": 2.0},
        {"step_size": 16.0, "share": "tensor"},
        {"bins": 2, "sigma": 0.0},
        {"quantizer": LatticeConfig(small=1.0)},
        {"quantizer": LatticeConfig(steps=(("#.weight", 240),))},
    ],
    ids=str,
)
def test_settings_that_would_lose_a_tensor_are_refined_and_the_commit_says_so(
    repo: Repository, settings
) -> None:
    model = sequential()
    model["1.bias"] = torch.tensor([1.0, *[0.01] * 1023])  # of which a step of its own would leave one value
    made = repo.commit(model, **settings)
    found = lost(repo, model)
    assert max(found.values()) <= LIMIT
    assert made.worst.relative == pytest.approx(max(found.values()), rel=1e-3)
    assert made.worst.tensor == max(found, key=found.get)
    counts = made.errors.get("tensor limit")
    if "small" not in str(settings):
        assert counts["refined"] + counts["exact"] > 0
        assert "of its root mean square" in made.notes[0]


def test_finer_codings_that_an_evaluation_accepted_are_counted_and_no_note(repo: Repository) -> None:
    accepted = Evaluation(0.01, 2.0, 0.005, 0.001, candidates=1, evaluations=2.0)
    made = repo.commit(sequential(), step_size=2.0, evaluation=accepted)
    assert made.errors["tensor limit"]["refined"] > 0
    assert made.notes == []
    made = repo.commit(
        scaled(0.01), quantizer=LatticeConfig(steps=(("model.layers.#.weight", 255),)), evaluation=accepted
    )
    assert "'model.layers.0.weight' is kept exact" in made.notes[0]


def test_what_no_step_is_fine_enough_for_is_kept_exactly_and_named(repo: Repository) -> None:
    made = repo.commit(scaled(0.01), quantizer=LatticeConfig(steps=(("model.layers.#.weight", 255),)))
    assert made.errors["tensor limit"] == {"most": LIMIT, "refined": 0.0, "exact": 1.0}
    assert "'model.layers.0.weight' is kept exact" in made.notes[0]
    assert lost(repo, scaled(0.01)) == {"model.layers.0.weight": 0.0}


def test_pruning_takes_what_was_asked_for_and_no_whole_tensor(repo: Repository) -> None:
    repo.commit(scaled(1.0, 1.0, 1.0, 0.26), quantizer=KMeansConfig(32, prune=0.5, metric="magnitude"))
    zeros = [float((value == 0).float().mean()) for value in tensors(repo.checkout()).values()]
    assert zeros[:3] == pytest.approx([0.35] * 3, abs=0.03)
    assert zeros[3] == 0  # of which 93 of 100 would have been pruned


@pytest.mark.parametrize(
    "settings",
    [{"step_size": 0.5}, {"step_size": 0.5, "moments": "light"}, {"bins": 16}, {"bins": 16, "prune": 0.5}],
    ids=str,
)
def test_float64_restores_its_values_or_is_kept_exactly_and_named(
    repo: Repository, settings: dict[str, Any]
) -> None:
    draw, model = np.random.default_rng(0), {}
    for number, scale in enumerate([1e-300, 1e-200, 1e-100, 1e-46, 1e39, 1e300, 1e-20, 1.0, 1e20]):
        model[f"h.{number}.w"] = draw.standard_normal((50, 60)) * scale
        model[f"h.{number}.bias"] = draw.standard_normal(60) * scale
    held = {"step": 9.0, "exp_avg": draw.standard_normal((50, 60)) * 1e-30}
    held["exp_avg_sq"] = np.square(held["exp_avg"])
    made = repo.commit({"model": model, "optimizer": {"state": {0: held}, "param_groups": []}}, **settings)
    back = repo.checkout()
    for name, value in model.items():
        # In units of the largest, since float64 may not have the squares.
        unit = np.abs(value).max()
        lost = np.linalg.norm((back["model"][name] - value) / unit)
        assert lost <= 0.95 * np.linalg.norm(value / unit)
        assert lost == 0 or int(name.split(".")[1]) > 5
    assert np.array_equal(back["optimizer"]["state"][0]["exp_avg_sq"], held["exp_avg_sq"])
    assert made.errors["tensor limit"]["exact"] >= 13
    assert "13 tensors, such as 'model.h.0.bias', are kept exact" in made.notes[0]


def test_values_that_float32_has_not_are_measured_as_what_they_are(repo: Repository) -> None:
    weight = np.random.default_rng(0).standard_normal((50, 60))
    weight[0, :3] = 1e300, -1e-300, 1e-42
    made = repo.commit({"model": {"w": weight}}, step_size=0.5)
    back = repo.checkout()["model"]["w"]
    assert back[0, 0] == 1e300
    lost = np.linalg.norm(back - weight) / np.linalg.norm(weight.ravel()[1:])
    assert made.worst.relative == pytest.approx(lost, rel=1e-3)


@pytest.mark.parametrize(("first", "second"), [("sign", 2.0), ("carried", "rank-1"), (8.0, 2.0)])
def test_moments_are_no_worse_than_zeros(repo: Repository, first: str | float, second: str | float) -> None:
    rng = np.random.default_rng(0)
    squares = np.exp(rng.normal(0, 3, (40, 60))).astype(np.float32)
    ahead = (rng.standard_normal((40, 60)) * rng.choice([0.001, 1], (40, 60), p=[0.97, 0.03])).astype(
        np.float32
    )
    state = moments(ahead, squares)
    made = repo.commit(state, quantizer=LatticeConfig(moments=MomentsConfig(first, second)))
    found = {path: error for path, error in lost(repo, state).items() if "exp_avg" in path}
    if first == "carried":
        assert made.left_out == ["first moment"]
        del found["optimizer.state.0.exp_avg"]
    assert max(found.values()) <= 0.95
    assert made.worst_moment.tensor == max(found, key=found.get)
    assert made.worst_moment.relative == pytest.approx(max(found.values()), rel=1e-3)
    assert made.worst is None


@pytest.mark.parametrize("first", ["sign", 0.5])
def test_a_first_moment_that_no_root_fits_is_kept_exactly(repo: Repository, first: str | float) -> None:
    rng = np.random.default_rng(0)
    ahead = rng.standard_normal((40, 60)).astype(np.float32)
    ahead[0, 0] = 1e4
    squares = np.ones((40, 60), np.float32)
    squares[0, 0] = 0  # so that nothing of the largest is restored
    state = moments(ahead, squares)
    made = repo.commit(state, quantizer=LatticeConfig(moments=MomentsConfig(first, 2.0)))
    assert lost(repo, state)["optimizer.state.0.exp_avg"] == 0
    assert made.errors["tensor limit"]["exact"] == 1


def test_momentum_without_a_second_moment_is_refined_as_a_moment(repo: Repository) -> None:
    held = {"momentum_buffer": scaled(1.0)["model"]["layers.0.weight"]}
    state = {"optimizer": {"state": {0: held}, "param_groups": []}}
    made = repo.commit(state, quantizer=LatticeConfig(moments=MomentsConfig(64.0, 2.0)))
    assert LIMIT < max(lost(repo, state).values()) <= 0.95
    assert made.errors["tensor limit"]["refined"] == 1


def test_the_limit_is_a_setting(repo: Repository) -> None:
    model = scaled(1.0, 0.3)
    repo.config_set(KEY, "0.05")
    with Repository.open(repo.top) as finer:
        assert "tensor limit" in finer.commit(model, step_size=0.5).errors
        assert max(lost(finer, model).values()) <= 0.05
        finer.config_set(KEY, "1000")
    with Repository.open(repo.top) as coarser:
        coarser.commit(model, step_size=16.0)
        assert max(lost(coarser, model).values()) > 0.9
    for wrong in ("0", "-1", "nan", "inf", "half"):
        with pytest.raises(UsageError):
            repo.config_set(KEY, wrong)


def test_a_tensor_that_was_refined_goes_back_only_where_it_is_well_within_the_limit(repo: Repository) -> None:
    repo.config_set(KEY, "0.5")

    def fineness(ratio: float) -> int:
        with Repository.open(repo.top) as again:
            again.commit(scaled(1.0, ratio), step_size=0.9)
        coarse, fine = (form.step for form in forms(repo, "HEAD").values())
        return coarse - fine

    assert fineness(0.5) == 0  # off by 0.45 of its root mean square
    refined = fineness(0.4)  # it would be by 0.55
    assert refined > 0
    assert fineness(0.5) == refined
    assert fineness(0.9) == 0


def test_a_trial_refines_as_the_commit_does(repo: Repository) -> None:
    model = scaled(1.0, 0.3, 0.9)
    trial = repo.trial(model, quantizer=LatticeConfig())
    (kind,) = trial.kinds
    coarse = max(trial.starts.values()) + 8
    config = trial.steps({kind: coarse}, 0.0)
    values, tried = trial.values(config), trial.tried(kind, coarse, 0.0)
    restored = {path[-1]: values[path].copy() for path in values}
    made = repo.commit(model, quantizer=config)
    back = repo.checkout(numpy=True)["model"]
    assert all(np.array_equal(back[name].reshape(-1), value) for name, value in restored.items())
    assert made.worst.relative <= LIMIT
    assert tried.errors.relative == pytest.approx(made.errors["weight"]["relative"], rel=1e-9)
    # Also near a parent that was refined, and where a step is too coarse for all of them.
    trial = repo.trial(model, quantizer=LatticeConfig())
    for step in (coarse - 3, 255):
        tried = trial.tried(kind, step, 0.0)
        made = repo.commit(model, branch=f"step-{step}", quantizer=trial.steps({kind: step}, 0.0))
        found = made.errors.get("weight", {"relative": 0.0, "count": 0.0})
        assert tried.errors.relative == pytest.approx(found["relative"], rel=1e-9)
        assert tried.errors.count == found["count"]
    assert made.errors["tensor limit"]["exact"] == 1
    lone = repo.trial(scaled(0.01), quantizer=LatticeConfig(), branch="step-255")
    tried = lone.tried("model.layers.#.weight", 255, 0.0)
    (kept,) = scaled(0.01)["model"].values()
    assert (tried.stored, tried.loss) == (kept.numel() * kept.element_size(), 0.0)
