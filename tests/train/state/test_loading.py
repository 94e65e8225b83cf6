"""Every part of a run is given its state once, and may do with it what it likes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler as schedules

from mvcs.errors import UsageError
from mvcs.repository import Repository
from mvcs.train import Checkpointer


def cyclic(of: Any) -> Any:
    return schedules.CyclicLR(of, 1e-3, 1e-1, step_size_up=3, cycle_momentum=False)


def one_cycle(of: Any) -> Any:
    return schedules.OneCycleLR(of, 0.1, 20)


class Growth:
    """A rate that is a state of its own, as LambdaLR takes one."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, _: int) -> float:
        self.calls += 1
        return 1.0 + self.calls / 10


EVERY: list[Callable[[Any], Any]] = [
    cyclic,
    one_cycle,
    lambda of: schedules.CyclicLR(of, 1e-3, 1e-1, scale_fn=lambda x: 0.9**x, scale_mode="iterations"),
    lambda of: schedules.SequentialLR(of, [schedules.ConstantLR(of), cyclic(of)], [3]),
    lambda of: schedules.ChainedScheduler([cyclic(of), schedules.ExponentialLR(of, 0.9)]),
    lambda of: schedules.CosineAnnealingLR(of, 10),
    lambda of: schedules.CosineAnnealingWarmRestarts(of, 3),
    lambda of: schedules.LambdaLR(of, Growth()),
    lambda of: schedules.LambdaLR(of, lambda step: 1 / (1 + step)),
    lambda of: schedules.MultiplicativeLR(of, Growth()),
    lambda of: schedules.StepLR(of, 2),
    lambda of: schedules.MultiStepLR(of, [1, 3, 5]),
    schedules.LinearLR,
    lambda of: schedules.PolynomialLR(of, 8),
    lambda of: torch.optim.swa_utils.SWALR(of, 0.05, anneal_epochs=4),
]


def trained(repo: Repository, made: Callable[[Any], Any], steps: range) -> list[float]:
    """Go on to the last of some steps from wherever the branch is; return the rates from there."""
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = made(optimizer)
    rates = []
    with Checkpointer(repo, model, optimizer, scheduler, every=1) as run:
        assert run.resume() == steps.start
        for step in steps:
            optimizer.step()
            scheduler.step()
            run.after_step(step)
            rates.append(optimizer.param_groups[0]["lr"])
    return rates


@pytest.mark.filterwarnings("ignore:.*get_last_lr.*:UserWarning")
@pytest.mark.parametrize("made", EVERY)
def test_a_schedule_goes_on_as_if_nothing_had_been(
    repo: Repository, tmp_path: Any, made: Callable[[Any], Any]
) -> None:
    with Repository.init(tmp_path / "whole") as whole:
        expected = trained(whole, made, range(8))
    assert trained(repo, made, range(4)) + trained(repo, made, range(4, 8)) == expected


class Seen:
    """Adds what it loads to what it has, and takes it out of what it is given."""

    def __init__(self) -> None:
        self.items: list[int] = []

    def state_dict(self) -> dict[str, Any]:
        return {"items": list(self.items), "tail": {"last": self.items[-1:]}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        state["tail"].pop("last")
        while state["items"]:
            self.items.append(state["items"].pop(0))


def test_a_part_is_loaded_once_also_under_two_names(repo: Repository) -> None:
    for start in range(3):
        model = nn.Linear(2, 2)
        seen, other = Seen(), Seen()
        extra = {"seen": seen, "again": seen, "other": other}
        optimizer = torch.optim.SGD(model.parameters())
        with Checkpointer(repo, model, optimizer, loader=seen, extra=extra, every=1) as run:
            assert run.resume() == start
            assert seen.items == other.items == list(range(start))
            seen.items.append(start)
            other.items.append(start)
            run.after_step(start)


def lazy() -> nn.Module:
    return nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d(), nn.ReLU(), nn.LazyLinear(1, bias=False))


@pytest.mark.parametrize("between", [False, True], ids=["after a step", "before a step"])
def test_a_lazy_module_that_has_not_run_takes_its_shapes_from_the_state(
    repo: Repository, between: bool
) -> None:
    def stepped(model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
        model(torch.randn(5, 4, generator=torch.Generator().manual_seed(step))).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    model = lazy()
    model(torch.ones(5, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    with Checkpointer(repo, model, optimizer, every=1, final=False) as run:
        stepped(model, optimizer, 0)
        if between:
            model(torch.ones(5, 4)).sum().backward()
        run.after_step(0)
    again = lazy()
    optimizer_again = torch.optim.AdamW(again.parameters(), lr=0.1)
    with Checkpointer(repo, again, optimizer_again, final=False) as run:
        assert run.resume() == 1
    for one, other in ((model, optimizer), (again, optimizer_again)):
        stepped(one, other, 1)
    assert all(map(torch.equal, model.state_dict().values(), again.state_dict().values()))


def test_a_lazy_module_of_another_type_is_refused(repo: Repository) -> None:
    model = nn.LazyLinear(3)
    model(torch.ones(5, 4))
    with Checkpointer(repo, model, torch.optim.SGD(model.parameters()), every=1) as run:
        run.after_step(0)
    other = nn.LazyLinear(3, dtype=torch.float64)
    with (
        Checkpointer(repo, other, torch.optim.SGD(other.parameters()), final=False) as run,
        pytest.raises(UsageError, match="'weight' is float32 there and float64 here"),
    ):
        run.resume()
