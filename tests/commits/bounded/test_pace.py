"""Weights that drift through noise: what is restored lies where training was, not where it came from."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from mvcs import Repository
from mvcs.checkpoint.state.state import capture_state
from mvcs.commits.before.earlier_weights import LEAST_DRIFT, EarlierWeights, WeightHistory, drift
from mvcs.commits.plan.anatomy import Anatomy
from mvcs.memory import Budget, Use
from mvcs.objects.chunk_grid import CHUNK_ELEMENTS
from mvcs.quantize.float_values import upper_halves

ROWS, COLUMNS = 60, 400
SETTINGS = {"step_size": 0.5, "moments": "exact"}


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with Repository.init(tmp_path / "run") as repository:
        yield repository


class Training:
    """A weight with a drift of its own for each element, and noise that is larger."""

    def __init__(self, seed: int = 0, noise: float = 0.05) -> None:
        self.noise = noise
        self.rng = np.random.default_rng(seed)
        self.weight = self.rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
        self.drift = (0.03 * self.rng.standard_normal(self.weight.shape)).astype(np.float32)
        self.past = [self.weight]

    def step(self) -> dict[str, torch.Tensor]:
        noise = (self.noise * self.rng.standard_normal(self.weight.shape)).astype(np.float32)
        self.weight = self.weight + self.drift
        self.past.append(self.weight + noise)
        return {"w": torch.from_numpy(self.past[-1])}

    def lag(self, restored: dict[str, torch.Tensor]) -> float:
        """How many commits' drift the restored weight lacks."""
        missing = self.past[-1] - restored["w"].numpy()
        return float((missing * self.drift).sum() / (self.drift**2).sum())


def run(repo: Repository, commits: int, training: Training | None = None, **settings: object) -> Training:
    training = training or Training()
    for _ in range(commits):
        repo.commit(training.step(), **SETTINGS | settings)
    return training


def stored(repo: Repository) -> list[int]:
    shown = [repo.show(commit.id) for commit in repo.log()]
    return [sum(tensor.stored_bytes for tensor in commit.tensors) for commit in shown][::-1]


def off(training: Training, restored: dict[str, torch.Tensor]) -> np.ndarray:
    return np.abs(restored["w"].numpy() - training.past[-1])


def kept(training: Training, restored: dict[str, torch.Tensor]) -> float:
    """The share of values that have another code than the nearest."""
    return float((off(training, restored) > 0.5 * 0.5).mean())


def test_kept_codes_lag_behind_no_drift(repo, tmp_path):
    training = run(repo, 12)
    assert abs(training.lag(repo.checkout())) < 0.3
    assert off(training, repo.checkout()).max() < 1.01 * 0.5
    with Repository.init(tmp_path / "nearest") as nearest:
        run(nearest, 12, hysteresis=0.0)
        assert sum(stored(repo)[6:]) < 0.85 * sum(stored(nearest)[6:])


def test_what_the_last_commit_learned_is_restored(repo):
    """Weights jump somewhere and stay there, as what is learned does: what follows says nothing of it."""
    training = run(repo, 8, Training(noise=0.03))
    for _ in range(4):
        jump = (0.1 * training.rng.standard_normal(training.weight.shape)).astype(np.float32)
        training.weight = training.weight + jump
        run(repo, 1, training)
        missing = training.past[-1] - repo.checkout()["w"].numpy()
        assert abs((missing * jump).sum() / (jump**2).sum()) < 0.1


def test_in_a_new_process_moves_are_measured_from_the_parents_exact_layer(repo):
    training = run(repo, 8)
    for _ in range(2):
        with Repository.open(repo.top) as opened:
            run(opened, 1, training)
            assert abs(training.lag(opened.checkout())) < 0.3


def test_where_nothing_tells_how_weights_move_no_code_is_kept(repo):
    repo.config_set("retention.exact_layers", "0")
    training = run(repo, 8)
    with Repository.open(repo.top) as opened:
        run(opened, 1, training)
        assert kept(training, opened.checkout()) < 0.05
        run(opened, 1, training)
        assert kept(training, opened.checkout()) > 0.05


def test_a_damaged_exact_layer_costs_kept_codes_alone(repo):
    training = run(repo, 5)
    for pack in repo.top.rglob("exact/*/*.pack"):
        content = bytearray(pack.read_bytes())
        content[20:-100] = bytes(len(content) - 120)
        pack.write_bytes(content)
    with Repository.open(repo.top) as opened:
        run(opened, 1, training)
        assert kept(training, opened.checkout()) < 0.05


def test_after_a_lossy_restore_moves_are_measured_from_what_was_restored(repo):
    training = run(repo, 8)
    first = repo.head()
    restored = repo.checkout()["w"].numpy()
    training.weight = restored
    for _ in range(15):
        now = training.step()
    made = repo.commit(now, restored_from=first.id, **SETTINGS)
    move = now["w"].numpy() - restored
    stored_move = repo.checkout()["w"].numpy() - restored
    assert 0.95 < (stored_move * move).sum() / (move * move).sum() < 1.05
    assert made.errors["snap-back"]["refined"] == 0


def test_weights_that_stay_keep_their_codes(repo):
    training = run(repo, 8)
    still = {"w": torch.from_numpy(training.past[-1])}
    for _ in range(4):
        repo.commit(still, **SETTINGS)
    found = repo.checkout()["w"]
    for _ in range(5):
        repo.commit(still, **SETTINGS)
    assert torch.equal(repo.checkout()["w"], found)


def test_weights_that_go_to_and_fro_are_not_followed(repo):
    """Without a drift there is nothing to lag behind, and codes are kept as near as they were without one."""
    training = Training()
    training.drift[:] = 0
    run(repo, 12, training)
    assert off(training, repo.checkout()).max() <= 0.7501 * 0.5
    assert kept(training, repo.checkout()) > 0.01


def test_another_process_knows_whether_weights_go_anywhere(repo):
    training = Training()
    training.drift[:] = 0
    run(repo, 12, training)
    told = repo.resolve("HEAD").errors["pace"]["drift"]
    assert told < LEAST_DRIFT
    for _ in range(3):
        repo.commit(training.step())  # an exact commit tells nothing
    with Repository.open(repo.top) as opened:
        run(opened, 1, training)
        assert opened.resolve("HEAD").errors["pace"]["drift"] == told
        assert off(training, opened.checkout()).max() <= 0.7501 * 0.5


def test_a_first_commit_tells_of_no_drift(repo):
    training = run(repo, 2)
    assert not any("pace" in commit.errors for commit in repo.log())
    run(repo, 6, training)
    assert repo.resolve("HEAD").errors["pace"]["drift"] > LEAST_DRIFT


def test_files_that_are_saved_under_new_names_have_a_past(repo):
    training = Training()
    for number in range(8):
        for old in repo.top.glob("*.pt"):
            old.unlink()
        path = repo.top / f"step_{number}.pt"
        torch.save({"model": training.step()}, path)
        repo.commit_files([path], message="saved", **SETTINGS)
    (state,) = repo.checkout().values()
    assert abs(training.lag(state["model"])) < 0.3


def test_a_long_tensor_is_compared_chunk_by_chunk(repo):
    rng = np.random.default_rng(0)
    columns = 1000
    rows = CHUNK_ELEMENTS // columns + 100
    weight = torch.from_numpy(rng.standard_normal((rows, columns), dtype=np.float32))
    for number in range(5):
        now = weight + 0.04 * number * weight.sign().flip(0)
        repo.commit({"w": now}, **SETTINGS)
    missing = now - repo.checkout()["w"]
    assert abs(float((missing * weight.sign().flip(0)).mean())) < 0.004


def test_no_more_is_held_than_the_machine_has_to_spare(repo):
    session = repo._session
    history = session.committer._weight_history
    assert isinstance(history, WeightHistory)
    run(repo, 9)
    assert len(history._held) == 2
    history._room, history._held, history._last = Budget(0).hold(Use.WEIGHTS), {}, None
    training = run(repo, 2)
    assert not history._held
    assert not history._last
    assert kept(training, repo.checkout()) < 0.05


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(1.0, 1.0, 1.0), (1.0, 0.0, 0.0), (1.0, -1.0, -1.0), (1e-15, 1e15, 1.0), (0.0, 1.0, 0.0)],
)
def test_a_drift_is_a_share_of_earlier_moves(first: float, second: float, expected: float):
    weights = np.cumsum([0.0, first, second], dtype=np.float64).astype(np.float32)
    halves = [upper_halves(np.full(64, value, "<f4").tobytes(), "float32") for value in weights]
    past, later = (EarlierWeights({("w",): found}) for found in halves[:2])
    captured = capture_state({"w": torch.full((8, 8), float(weights[2]))})
    assert drift(Anatomy(captured), (1, later), (2, past)) == pytest.approx(expected, abs=0.02)
