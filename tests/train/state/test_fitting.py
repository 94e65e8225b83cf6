"""A state that does not fit is refused before any part of it is loaded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler as schedules

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
        (
            lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
            "it was committed from AdamW; here is SGD",
        ),
        (lambda model: torch.optim.Adamax(model.parameters()), "it was committed from AdamW; here is Adamax"),
        (
            lambda model: adamw(model[:2]),
            "1.bias, 2.weight, 2.bias] there and [0.weight, 0.bias, 1.weight, 1.bias] here",
        ),
        (
            lambda model: adamw(nn.ParameterList([*model[1:].parameters(), *model[:1].parameters()][1:])),
            "2.bias, ",
        ),
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


STEPS: list[tuple[Callable[[Any], Any], str]] = [
    (
        lambda of: schedules.CosineAnnealingLR(of, 10),
        "another class than CosineAnnealingLR, which has no gamma, step_size but T_max, eta_min",
    ),
    (lambda of: schedules.ExponentialLR(of, 0.9), "another class than ExponentialLR, which has no step_size"),
    (lambda of: schedules.LambdaLR(of, [lambda _: 1.0]), "from another class than LambdaLR"),
    (lambda of: schedules.OneCycleLR(of, 0.1, 10), "from another class than OneCycleLR"),
    (
        lambda of: schedules.SequentialLR(of, [schedules.ConstantLR(of), schedules.StepLR(of, 3)], [5]),
        "which has no base_lrs, gamma, step_size but _schedulers",
    ),
]


def resumed(repo: Repository, scheduler: Callable[[Any], Any], **further: Any) -> tuple[Checkpointer, Any]:
    model = net()
    optimizer = adamw(model)
    made = scheduler(optimizer)
    run = Checkpointer(repo, *stepped(model, optimizer), made, every=1, final=False, **further)
    return run, made


@pytest.mark.parametrize(("other", "said"), STEPS)
def test_another_scheduler_is_refused_and_nothing_is_changed(
    repo: Repository, other: Callable[[Any], Any], said: str
) -> None:
    run, _ = resumed(repo, lambda of: schedules.StepLR(of, 3))
    with run:
        run.after_step(0)
    model = net()
    optimizer = adamw(model)
    scheduler = other(optimizer)
    before, schedule = [weight.clone() for weight in model.parameters()], str(scheduler.state_dict())
    with (
        Checkpointer(repo, model, optimizer, scheduler, final=False) as run,
        pytest.raises(UsageError, match="does not fit the scheduler: ") as error,
    ):
        run.resume()
    assert said in error.value.message
    assert all(torch.equal(one, weight) for one, weight in zip(before, model.parameters(), strict=True))
    assert str(scheduler.state_dict()) == schedule
    assert not optimizer.state
    with Checkpointer(repo, model, optimizer, extra={"new": scheduler}, final=False) as run:
        assert run.resume() == 1  # as the hint says


@pytest.mark.parametrize("made", [one for one, _ in STEPS], ids=range(len(STEPS)))
def test_the_same_scheduler_goes_on(repo: Repository, made: Callable[[Any], Any]) -> None:
    run, first = resumed(repo, made)
    with run:
        first.step()
        run.after_step(0)
    run, again = resumed(repo, made)
    with run:
        assert run.resume() == 1
    assert again.get_last_lr() == first.get_last_lr()
    assert again.last_epoch == first.last_epoch if hasattr(first, "last_epoch") else True


def test_schedules_in_a_row_are_each_looked_at(repo: Repository) -> None:
    def chained(*makers: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda of: schedules.ChainedScheduler([maker(of) for maker in makers])

    constant, steps = schedules.ConstantLR, lambda of: schedules.StepLR(of, 3)
    run, _ = resumed(repo, chained(constant, steps))
    with run:
        run.after_step(0)
    for other, said in (
        (chained(constant), "'_schedulers' has 2 there and 1 here"),
        (chained(steps, steps), "from another class than StepLR"),
    ):
        run, _ = resumed(repo, other)
        with run, pytest.raises(UsageError, match=said):
            run.resume()


def test_a_scaler_that_was_not_enabled_starts_anew(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    def scaler(*, enabled: bool) -> torch.amp.GradScaler:
        return torch.amp.GradScaler("cpu", enabled=enabled)

    run, _ = resumed(repo, lambda _: None, scaler=scaler(enabled=False))
    with run:
        run.after_step(0)
    run, _ = resumed(repo, lambda _: None, scaler=scaler(enabled=True))
    with run:
        assert run.resume() == 1
    assert run.restored is not None
    assert "scaler" in run.restored.anew
    assert "scaler" not in run.restored.exact
    assert "holds no scaler state: the scaler starts from the beginning" in caplog.text


class Choosy:
    """A part of a kind of its own, which takes over states of its name alone."""

    def __init__(self, name: str, count: int) -> None:
        self.name, self.count = name, count

    def state_dict(self) -> dict[str, Any]:
        return {"name": self.name, "count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = state["count"]
        if state["name"] != self.name:
            raise KeyError(139)


@pytest.mark.parametrize("which", ["scheduler", "extra 'b'"])
def test_a_part_of_an_unknown_kind_that_refuses_leaves_all_as_they_were(repo: Repository, which: str) -> None:
    run, _ = resumed(repo, lambda _: Choosy("s", 1), extra={"a": Choosy("a", 2), "b": Choosy("b", 3)})
    with run:
        run.after_step(0)
    model = net()
    before = [weight.clone() for weight in model.parameters()]
    scheduler = Choosy("s" if which != "scheduler" else "other", 10)
    extra = {"a": Choosy("a", 20), "b": Choosy("b" if which == "scheduler" else "other", 30)}
    with (
        Checkpointer(repo, model, adamw(model), scheduler, extra=extra, final=False) as run,
        pytest.raises(
            UsageError, match=f"does not fit the {which}: its load_state_dict raised KeyError: 139"
        ),
    ):
        run.resume()
    assert (scheduler.count, extra["a"].count, extra["b"].count) == (10, 20, 30)
    assert all(torch.equal(one, weight) for one, weight in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize("state", [torch.zeros(3), 5, torch.zeros(3, dtype=torch.uint8)], ids=repr)
def test_what_is_no_state_of_a_generator_is_refused(repo: Repository, state: object) -> None:
    run, _ = resumed(repo, lambda _: None, extra={"g": state})
    with run:
        run.after_step(0)
    generator = torch.Generator().manual_seed(5)
    before = generator.get_state()
    run, _ = resumed(repo, lambda _: None, extra={"g": generator})
    with run, pytest.raises(UsageError, match="does not fit the extra 'g': it is no state of a generator"):
        run.resume()
    assert torch.equal(generator.get_state(), before)


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
