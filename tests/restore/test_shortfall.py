"""Why a commit is not small, told of states and files that somebody commits by hand."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from mvcs import Repository
from mvcs.quantize import LatticeConfig, MomentsConfig
from mvcs.reports import Shortfall
from mvcs.search import Evaluation
from tests.cli.conftest import Console

NUMBERS = np.random.default_rng(5)


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with Repository.init(tmp_path / "run") as made:
        yield made


def normal(*shape: int) -> torch.Tensor:
    return torch.from_numpy(NUMBERS.normal(size=shape).astype(np.float32))


def adam(rounds: int, optimizer: Any = torch.optim.AdamW, size: int = 600, **settings: Any) -> dict[str, Any]:
    """A state after a few steps with random gradients."""
    weight = torch.nn.Parameter(normal(500, size))
    made = optimizer([weight], **settings)
    for _ in range(rounds):
        weight.grad = normal(500, size)
        made.step()
    return {"model": {"weight": weight.detach()}, "optimizer": made.state_dict()}


def of(repo: Repository, *states: Any, **options: Any) -> Shortfall:
    for state in states:
        repo.commit(state, **options)
    found = repo.show().shortfall
    assert found is not None
    return found


def test_a_commit_near_no_other_of_its_kind(repo: Repository) -> None:
    state = {"weight": normal(500, 600)}
    repo.commit(state)
    found = of(repo, {"weight": state["weight"] + 0.01}, step_size=0.1)
    assert (found.cause, "has no codes to be stored near" in found.told) == ("not near", True)


def test_weights_by_a_step(repo: Repository) -> None:
    found = of(repo, {"weight": normal(500, 600)}, {"weight": normal(500, 600)}, step_size=0.1)
    assert found.cause == "weights"
    assert " weights, by step_size=0.1: a larger one takes less" in found.told


def test_weights_by_bins(repo: Repository) -> None:
    found = of(repo, {"weight": normal(600, 400)}, {"weight": normal(600, 400)}, bins=16)
    assert found.cause == "weights"
    assert " weights, by bins=16: fewer takes less" in found.told


def test_weights_of_16_bits_below_their_grid(repo: Repository) -> None:
    states = [{"model": {"weight": normal(500, 600).bfloat16()}} for _ in range(2)]
    states[1]["model"]["bias"] = normal(8)
    found = of(repo, *states, step_size=0.001)
    assert found.cause == "exact weights"
    assert " exact weights of bfloat16, as codes of such fine steps" in found.told


def test_a_small_commit_tells_of_them_too(tmp_path: Path) -> None:
    with Repository.init(tmp_path / "run") as repo:
        repo.commit({"model": {"weight": normal(30, 40).bfloat16(), "bias": normal(8)}}, step_size=0.001)
        assert repo.show().shortfall is None
    assert "1 weight kept exactly, such as model.weight" in Console(tmp_path / "run")("show").out


def test_small_tensors(repo: Repository) -> None:
    found = of(repo, {"bias": normal(200_000)}, {"bias": normal(200_000)}, step_size=0.5)
    assert found.cause == "small tensors"
    assert "LatticeConfig(small=0.03)" in found.told
    assert of(repo, {"bias": normal(200_000)}, quantizer=LatticeConfig(small=0.03)).told > ""


def test_integers(repo: Repository) -> None:
    state = {
        "model": {"weight": normal(100, 100)},
        "seen": torch.from_numpy(NUMBERS.integers(0, 1 << 60, 30_000)),
    }
    found = of(repo, state, step_size=0.5)
    assert found.cause == "others"
    assert "integers and the like (seen), kept exactly" in found.told


def test_gradients_that_no_step_has_used(repo: Repository) -> None:
    state = {
        "model": {"weight": normal(20, 20)},
        "optimizer_gradients": {"optimizer": {"weight": normal(300, 500)}},
    }
    found = of(repo, state, step_size=0.5)
    assert found.cause == "others"
    assert "gradients that no step of an optimizer has used" in found.told


def test_texts(repo: Repository) -> None:
    found = of(repo, {"weight": normal(20, 20), "text": NUMBERS.bytes(200_000)})
    assert (found.cause, "texts or files kept byte for byte" in found.told) == ("blobs", True)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"step_size": 0.5, "moments": "exact"},
            'kept exactly by moments="exact": moments="auto" keeps what resuming needs',
        ),
        (
            {"quantizer": LatticeConfig(moments=MomentsConfig.auto(1e-4))},
            "kept exactly, which 'auto' chose: a",
        ),
    ],
)
def test_moments_that_were_asked_for_exactly(repo: Repository, options: Any, told: str) -> None:
    found = of(repo, adam(3), adam(4), **options)
    assert found.cause == "exact moments"
    assert "moments of AdamW betas=0.9,0.999 (" in found.told
    assert told in found.told


def test_moments_of_which_nothing_less_is_known_to_do(repo: Repository) -> None:
    settings = {"centered": True, "momentum": 0.0}
    found = of(repo, adam(3, torch.optim.RMSprop, **settings), step_size=0.5)
    assert found.cause == "exact moments"
    assert "moments of centered RMSprop (" in found.told
    assert "as it is not known that less would do" in found.told


def test_not_probed_is_no_matter_of_the_bound(repo: Repository) -> None:
    found = of(repo, adam(3, torch.optim.RMSprop, centered=True), step_size=0.5, moments="auto")
    assert "a larger bound" not in found.told
    state = adam(3)
    (group,) = state["optimizer"]["param_groups"]  # as SparseAdam has it
    state["optimizer"]["param_groups"] = [
        {name: group[name] for name in ("lr", "betas", "eps", "maximize", "params")}
    ]
    found = of(repo, state, step_size=0.5, moments="auto")
    assert "moments of SparseAdam (" in found.told
    assert "as it is not known that less would do" in found.told


def test_moments_by_settings_of_their_own(repo: Repository) -> None:
    quantizer = LatticeConfig(step_size=2.0, moments=MomentsConfig(first=0.1, second=0.5))
    assert "kept as settings of their own have them: " in of(repo, adam(3), adam(3), quantizer=quantizer).told


def test_moments_as_resuming_needs_them(repo: Repository) -> None:
    found = of(repo, *[adam(3) for _ in range(2)], step_size=2.0, moments="resume")
    assert found.cause == "moments"
    assert "kept as 'resume' has them: moments=\"light\" leaves first moments out" in found.told


def test_several_optimizers_at_tiers_of_their_own(repo: Repository) -> None:
    def state() -> dict[str, Any]:
        both = adam(3, torch.optim.SGD, lr=0.1, momentum=0.9)
        return both | {"other": adam(3, size=20, betas=(0.9, 0.95))["optimizer"]}

    settings = LatticeConfig(step_size=2.0, moments=MomentsConfig.auto(0.0041))
    found = of(repo, state(), state(), quantizer=settings)
    assert found.cause == "moments"
    assert "moments of SGD momentum=0.9 (momentum_buffer" in found.told
    assert "AdamW" not in found.told


def test_moments_that_are_described(repo: Repository) -> None:
    described = MomentsConfig.described({"mean": "first", "square": "second"})

    def state(rounds: int) -> dict[str, Any]:
        made = adam(rounds)
        (own,) = made["optimizer"]["state"].values()
        kept = {"mean": own["exp_avg"], "square": own["exp_avg_sq"]}
        groups = [{"lr": 0.1, "rho": 0.5, "params": [0]}]
        return made | {"optimizer": {"state": {0: kept}, "param_groups": groups}}

    found = of(repo, state(1), state(1), quantizer=LatticeConfig(step_size=2.0, moments=described))
    assert found.cause == "moments"
    assert "least for what is described" in found.told


def test_progress_since_a_lossy_restore(repo: Repository) -> None:
    first = repo.commit({"weight": normal(600, 600)}, step_size=0.5)
    value = repo.checkout(first.id, exact=False)["weight"]
    moved = {"weight": value + 0.01 * normal(600, 600)}
    found = of(repo, moved, step_size=0.5, restored_from=first.id)
    assert found.cause == "lossy restore"
    assert "with finer steps since a lossy restore (tensors: 1): later commits take less" in found.told


def test_files_are_told_what_to_type(tmp_path: Path) -> None:
    console = Console(tmp_path)
    console("init")
    path = tmp_path / "model.safetensors"
    save_file({"weight": NUMBERS.normal(size=(500, 600)).astype(np.float32)}, path)
    console("commit", path.name, "-m", "exact")
    told = console.json("show")["shortfall"]
    assert told["cause"] == "not bounded"
    assert "'mvcs tune FILE --eval' bounds it" in told["told"]
    save_file({"weight": NUMBERS.normal(size=(500, 600)).astype(np.float32)}, path)
    console("commit", path.name, "-m", "1", "--step-size", "0.1")
    save_file({"weight": NUMBERS.normal(size=(500, 600)).astype(np.float32)}, path)
    console("commit", path.name, "-m", "2", "--step-size", "0.1")
    assert "by --step-size 0.1: a larger one takes less" in console.json("show")["shortfall"]["told"]


NOISY = Evaluation(0.01, 2.0, 0.004, 0.001, 2, 3.0)


@pytest.mark.parametrize(
    ("evaluation", "told"),
    [
        (replace(NOISY, standard_error=0.0025), ("", "0.5", 3)),
        (replace(NOISY, undecided=0.016), ("with coarser steps ", "1.6", 29)),
    ],
)
def test_noise_that_made_steps_finer(
    repo: Repository, evaluation: Evaluation, told: tuple[str, str, int]
) -> None:
    states = [{"weight": normal(600, 600)} for _ in range(2)]
    found = of(repo, *states, step_size=0.1, evaluation=evaluation)
    coarser, doubt, times = told
    assert found.cause == "noise"
    assert (
        f"weights, and {coarser}the evaluation tells a degradation to about ± {doubt} % (two " in found.told
    )
    assert f"bound of 1 %: about {times} times as many batches make it 30 % of the bound" in found.told


def test_noise_that_leaves_room_is_no_reason(repo: Repository) -> None:
    states = [{"weight": normal(600, 600)} for _ in range(2)]
    assert of(repo, *states, step_size=0.1, evaluation=NOISY).cause == "weights"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1.0, 1e300])
def test_numbers_that_no_evaluation_gives_are_no_error(repo: Repository, number: float) -> None:
    odd = Evaluation(number, number, number, number, 0, number)  # type: ignore[arg-type]
    odd = replace(odd, candidates=number, undecided=number)  # type: ignore[arg-type]  # as a stranger's commit may have it
    for settings in (None, {"step_size": 0.1}):
        for _ in range(2):
            repo.commit({"weight": normal(600, 600)}, evaluation=odd, **(settings or {}))
        assert repo.show().shortfall is not None


def test_a_hostile_commit_is_shown_without_its_control_signs(tmp_path: Path) -> None:
    with Repository.init(tmp_path / "run") as repo:
        state = adam(3)
        moments = state["optimizer"]["state"][0]
        moments["\x1b[31m"] = moments.pop("exp_avg")
        repo.commit(state, step_size=0.5)
    assert "\x1b" not in Console(tmp_path / "run")("show").out


def test_of_a_commit_without_data_nothing_is_advised(repo: Repository) -> None:
    for step in range(3):
        repo.commit({"weight": normal(500, 600)}, step=step)
    repo.set_retention(last=1, force=True)
    repo.apply_retention(force=True)
    found = repo.show("HEAD~2")
    assert (found.commit.data_dropped, found.shortfall) == (True, None)
