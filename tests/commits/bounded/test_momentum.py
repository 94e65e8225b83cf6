"""Weights carry what momentum would still do to them, where a commit leaves first moments out."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from mvcs import Repository
from mvcs.checkpoint.state.state import capture_state
from mvcs.commits.before.earlier_weights import Momentum
from mvcs.commits.plan.anatomy import Anatomy
from mvcs.commits.plan.treatments import MomentTiers
from mvcs.memory import Budget
from mvcs.quantize import LatticeConfig, MomentsConfig

ROWS, COLUMNS, RATE, BETA = 200, 300, 1e-3, 0.9
ABSENT = MomentsConfig("absent", "rank-1")


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with Repository.init(tmp_path / "run") as repository:
        yield repository


class Training:
    """A matrix whose gradient hardly changes, so that each step takes it as far as the last."""

    def __init__(self, optimizer: str = "AdamW", kind: torch.dtype = torch.float32) -> None:
        rng = np.random.default_rng(0)
        common = np.outer(rng.choice([-1, 1], ROWS), rng.choice([-1, 1], COLUMNS))
        own = rng.choice([-1, 1], (ROWS, COLUMNS), p=[0.2, 0.8])
        self.slope = torch.from_numpy(common * own * rng.uniform(0.5, 2.0, (ROWS, COLUMNS))).to(kind)
        self.model = torch.nn.Linear(COLUMNS, ROWS)
        self.model.weight.data = torch.from_numpy(rng.standard_normal((ROWS, COLUMNS)) * 0.05).to(kind)
        self.model.bias.data = torch.zeros(ROWS, dtype=kind)
        kinds = {
            "AdamW": lambda of: torch.optim.AdamW(of, RATE, betas=(BETA, 0.95), weight_decay=0.0),
            "SGD": lambda of: torch.optim.SGD(of, RATE, momentum=BETA),
            "Adagrad": lambda of: torch.optim.Adagrad(of, RATE),
        }
        self.optimizer = kinds[optimizer](self.model.parameters())

    @property
    def weight(self) -> np.ndarray:
        return self.model.weight.detach().double().numpy().copy()

    @property
    def state(self) -> dict[str, object]:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def train(self, steps: int) -> "Training":
        for _ in range(steps):
            self.model.weight.grad = self.slope.clone()
            self.model.bias.grad = torch.zeros_like(self.model.bias)
            self.optimizer.step()
        return self

    def restore(self, state: dict[str, dict[str, object]]) -> "Training":
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        return self


def settings(moments: MomentsConfig, **others: float) -> LatticeConfig:
    return LatticeConfig(**{"step_size": 0.25, "hysteresis": 0.0} | others, moments=moments)


def steps_behind(repo: Repository, moments: MomentsConfig, optimizer: str = "AdamW") -> float:
    """How many steps a run is behind that was restored and trained on."""
    training = Training(optimizer).train(60)
    repo.commit(training.state, quantizer=settings(moments, hysteresis=0.5))
    start, whole = training.weight, training.train(60).weight
    again = Training(optimizer).restore(repo.checkout()).train(60).weight
    moved = start - whole
    return float(((again - whole) * moved).sum() / (moved**2).sum() * 60)


@pytest.mark.parametrize("optimizer", ["AdamW", "SGD"])
def test_a_restore_without_first_moments_costs_fewer_steps(repo, optimizer):
    plain = steps_behind(repo, ABSENT, optimizer)
    carried = steps_behind(repo, MomentsConfig.LIGHT, optimizer)
    assert plain > 7
    assert -0.5 < carried < plain * 0.75


def test_the_exact_layer_is_bit_identical(repo):
    training = Training().train(30)
    repo.commit(training.state, quantizer=settings(MomentsConfig.LIGHT))
    exact = repo.checkout(exact=True)
    assert torch.equal(exact["model"]["weight"], training.model.weight)
    assert torch.equal(
        exact["optimizer"]["state"][0]["exp_avg"], training.state["optimizer"]["state"][0]["exp_avg"]
    )


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("fine", [0.25, 0.01])
def test_weights_are_no_farther_off_than_without(repo, kind, fine):
    training = Training(kind=kind).train(30)
    repo.commit(training.state, quantizer=settings(MomentsConfig.LIGHT, step_size=fine))
    restored = repo.checkout()["model"]["weight"].double().numpy()
    step = fine * np.sqrt(np.mean(training.weight**2)) * 2**0.3
    assert np.abs(restored - training.weight).max() < 0.751 * step + np.abs(training.weight).max() / 128


def moves(training: Training, memory: int = 1 << 30) -> np.ndarray | None:
    captured = capture_state(training.state)
    momentum = Momentum(Anatomy(captured), MomentTiers(MomentsConfig.LIGHT), Budget(memory))
    leaf = next(one for one in captured.leaves if one.shape == (ROWS, COLUMNS) and "model" in one.path)
    return momentum.chunk(leaf, 0)


def test_what_is_carried_is_what_zero_gradients_would_do_but_for_leading_directions():
    training = Training().train(30)
    found = moves(training)
    held = training.optimizer.state[training.model.weight]
    ratio = held["exp_avg"] / (1 - BETA**30) / (held["exp_avg_sq"] / (1 - 0.95**30)).sqrt()
    whole = -RATE * BETA / (1 - BETA) * ratio.double().numpy()
    alike = (found.reshape(whole.shape) * whole).sum() / np.sqrt((found**2).sum() * (whole**2).sum())
    assert 0.6 < alike < 0.95
    strongest = np.linalg.svd(whole)[2][0]
    assert np.linalg.norm(found.reshape(whole.shape) @ strongest) < 0.05 * np.linalg.norm(whole @ strongest)


def test_what_climbs_is_left_where_it_is():
    training = Training().train(30)
    training.optimizer.param_groups[0]["maximize"] = True
    assert moves(training) is None


@pytest.mark.parametrize("optimizer", ["Adagrad", "SGD"])
def test_without_momentum_nothing_is_carried(optimizer):
    training = Training(optimizer)
    assert moves(training) is None
    if optimizer == "Adagrad":
        assert moves(training.train(3)) is None


def test_moments_that_are_no_numbers_move_nothing(repo):
    training = Training().train(30)
    training.optimizer.state[training.model.weight]["exp_avg"][3, 4] = float("nan")
    assert moves(training) is None
    repo.commit(training.state, quantizer=settings(MomentsConfig.LIGHT))
    assert torch.isfinite(repo.checkout()["model"]["weight"]).all()


def test_moves_larger_than_memory_allows_are_not_made():
    training = Training().train(30)
    assert moves(training) is not None
    assert moves(training, memory=1000) is None


def test_moments_of_another_shape_move_nothing():
    training = Training().train(30)
    state = training.optimizer.state[training.model.weight]
    state["exp_avg_sq"] = state["exp_avg_sq"].reshape(COLUMNS, ROWS)
    assert moves(training) is None


def test_a_trial_gives_what_the_commit_restores(repo):
    training = Training().train(30)
    config = settings(MomentsConfig.LIGHT, hysteresis=0.5)
    repo.commit(training.state, quantizer=config)
    state = training.train(5).state
    trial = repo.trial(state, quantizer=config)
    path = next(path for path in trial.values(config) if path[-1] == "weight")
    expected = trial.values(config)[path]
    repo.commit(state, quantizer=config)
    assert np.array_equal(repo.checkout()["model"]["weight"].numpy().reshape(-1), expected)


def test_the_commit_says_how_first_moments_were_kept(repo):
    repo.commit(Training().train(3).state, quantizer=settings(MomentsConfig.LIGHT))
    assert repo.show("HEAD").quantizer["first"] == "carried"
