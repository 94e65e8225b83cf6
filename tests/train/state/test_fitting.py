"""A state that does not fit is refused before any part of it is loaded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mvcs
from mvcs import Repository
from mvcs.errors import UsageError
from mvcs.train import Checkpointer


def net(middle: int = 8, *, deep: bool = False, dtype: torch.dtype = torch.float32) -> nn.Sequential:
    last = [nn.Linear(2, 2)] if deep else []
    return nn.Sequential(nn.Linear(4, 8), nn.Linear(8, middle), nn.Linear(middle, 2), *last).to(dtype)


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


def stepped(model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[nn.Module, torch.optim.Optimizer]:
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return model, optimizer


def checkpointer(repo: Repository, model: nn.Module, optimizer: Any) -> Checkpointer:
    return Checkpointer(repo, model, optimizer, every=1, extra={"n": 0}, final=False)


@pytest.fixture
def trained(repo: Repository) -> Repository:
    model = net()
    with checkpointer(repo, *stepped(model, adamw(model))) as run:
        run.after_step(0)
    return repo


def refused(repo: Repository, model: nn.Module, optimizer: torch.optim.Optimizer) -> str:
    """Resume, and see that nothing changed, to the last bit."""
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    settings, random = str(optimizer.state_dict()), torch.get_rng_state()
    with checkpointer(repo, model, optimizer) as run, pytest.raises(UsageError) as error:
        run.resume()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert str(optimizer.state_dict()) == settings
    assert torch.equal(torch.get_rng_state(), random)
    return error.value.message


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (lambda: net(6), "'1.weight' has shape (8, 8) there and (6, 8) here"),
        (lambda: net(deep=True), "'3.weight' is missing there"),
        (lambda: net()[:2], "'2.weight' is missing here"),
        (lambda: net(dtype=torch.bfloat16), "'0.weight' is float32 there and bfloat16 here"),
    ],
)
def test_a_model_that_does_not_fit_stays_as_it_was(
    trained: Repository, model: Callable[[], nn.Module], said: str
) -> None:
    made = model()
    assert said in refused(trained, made, adamw(made))


@pytest.mark.parametrize(
    ("optimizer", "said"),
    [
        (lambda model: torch.optim.SGD(model.parameters(), lr=0.1), "of another kind than SGD"),
        (lambda model: torch.optim.Adamax(model.parameters()), "of another kind than Adamax"),
        (lambda model: adamw(model[:2]), "[6] parameters there and [4] here"),
        (lambda model: torch.optim.AdamW(reversed(list(model.parameters()))), "'exp_avg' of parameter 0"),
    ],
)
def test_an_optimizer_that_does_not_fit_leaves_the_model_alone(
    trained: Repository, optimizer: Callable[[Any], torch.optim.Optimizer], said: str
) -> None:
    model = net()
    assert said in refused(trained, model, optimizer(model))


def test_what_the_hint_says_of_another_model_works(trained: Repository, tmp_path: Path) -> None:
    made = net(6)
    with checkpointer(trained, made, adamw(made)) as run, pytest.raises(UsageError) as error:
        run.resume()
    assert "mvcs.open_or_init(FOLDER)" in str(error.value.hint)
    for start in (0, 1):
        with (
            mvcs.open_or_init(tmp_path / "other") as other,
            checkpointer(other, *stepped(made, adamw(made))) as run,
        ):
            assert run.resume() == start
            run.after_step(start)


def test_a_key_of_the_users_and_a_schedule_make_no_other_kind(trained: Repository) -> None:
    model = net()
    optimizer = torch.optim.AdamW([{"params": model.parameters(), "name": "all"}], lr=1e-3, foreach=True)
    torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=9)
    with checkpointer(trained, model, optimizer) as run:
        assert run.resume() == 1


def test_a_model_that_converts_what_it_loads_judges_itself(trained: Repository) -> None:
    class Renamed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = net()

        def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *others: Any) -> None:
            for name in [name for name in state if not name.startswith("body.")]:
                state[f"body.{name}"] = state.pop(name)
            super()._load_from_state_dict(state, prefix, *others)

    model = Renamed()
    with checkpointer(trained, model, adamw(model)) as run:
        assert run.resume() == 1
    assert torch.equal(model.body[0].weight, trained.checkout()["model"]["0.weight"])
