"""What `evaluate` changes of a run beside its model is said, and undone: training goes on as without it."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from mvcs import Checkpointer, Repository
from tests.train import evaluations
from tests.train.evaluations import Run, undisturbed


class Changing:
    """Evaluations that change something of the run that they are of."""

    def __init__(self, run: Run) -> None:
        self.run, self.generator = run, torch.Generator().manual_seed(3)
        self.scheduler = torch.optim.lr_scheduler.ConstantLR(run.optimizer, factor=1.0)
        with torch.random.fork_rng():
            self.critic = nn.Linear(4, 4)

    def rate(self) -> None:
        self.run.optimizer.param_groups[0]["lr"] *= 0.5

    def setting(self) -> None:
        self.run.optimizer.param_groups[0]["used"] = True

    def moments(self) -> None:
        for state in self.run.optimizer.state.values():
            state["exp_avg"].mul_(0.5)

    def forgets(self) -> None:
        self.run.optimizer.state.clear()

    def steps(self) -> None:
        self.scheduler.last_epoch += 1

    def draws(self) -> None:
        torch.rand(3, generator=self.generator)

    def dtype(self) -> None:
        torch.set_default_dtype(torch.float64)

    def other(self) -> None:
        with torch.no_grad():
            self.critic.weight.add_(1.0)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("rate", "optimizer"),
        ("setting", "optimizer"),
        ("moments", "optimizer"),
        ("forgets", "optimizer"),
        ("steps", "scheduler"),
        ("draws", "extra.generator"),
        ("dtype", "torch's default dtype"),
        ("other", "extra.critic"),
    ],
)
def test_what_evaluate_changes_is_named_and_undone(
    kind: str, name: str, repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run()
    changing = Changing(run)
    before = changing.generator.get_state(), changing.critic.weight.clone(), changing.scheduler.state_dict()
    change: Callable[[], None] = getattr(changing, kind)

    def evaluate(model: nn.Module) -> Any:
        change()
        return evaluations.batches(model)

    extra = {"generator": changing.generator, "critic": changing.critic}
    given = {"scheduler": changing.scheduler, "extra": extra, "evaluate": evaluate, "every": 5}
    with (
        caplog.at_level(logging.WARNING, "mvcs.train"),
        Checkpointer(repo, run.model, run.optimizer, max_degradation=0.02, **given) as saving,
    ):
        for step in range(10):
            run.step()
            saving.after_step(step)
    assert saving.failures == []
    assert run.bits() == undisturbed(10)
    assert torch.equal(changing.generator.get_state(), before[0])
    assert torch.equal(changing.critic.weight, before[1])
    assert changing.scheduler.state_dict() == before[2]
    assert torch.get_default_dtype() is torch.float32
    assert run.optimizer.param_groups[0]["lr"] == 1e-2
    assert "used" not in run.optimizer.param_groups[0]
    told = [record.getMessage() for record in caplog.records if "and so training" in record.getMessage()]
    assert told == [f"evaluate changed {name}, and so training: that is undone after each evaluation"]


def test_nothing_is_said_of_an_evaluation_that_changes_nothing(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run()
    changing = Changing(run)
    extra = {
        "generator": changing.generator,
        "critic": changing.critic,
        "second": torch.optim.SGD(changing.critic.parameters()),
    }
    with (
        caplog.at_level(logging.WARNING, "mvcs.train"),
        Checkpointer(
            repo, run.model, run.optimizer, changing.scheduler, extra=extra, evaluate=evaluations.batches
        ) as saving,
    ):
        run.step()
        saving.save(0)
    assert "and so training" not in caplog.text
