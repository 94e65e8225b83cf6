"""A part that does not move while others do is told once: mostly it is not the one that is trained."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

from mvcs.repository import Repository
from mvcs.train import Checkpointer

Given = tuple[nn.Module, torch.optim.Optimizer, dict[str, object]]


class Trained:
    """A model and its optimizer, which has stepped."""

    def __init__(self, kind: type[torch.optim.Optimizer] = torch.optim.AdamW, **options: float) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
        self.optimizer = kind(self.model.parameters(), **options)
        self.step()

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.model(torch.randn(3, 4)).square().sum().backward()
        self.optimizer.step()


def told(
    repo: Repository,
    caplog: pytest.LogCaptureFixture,
    trained: Trained,
    given: Given,
    every: int = 1,
    **options: object,
) -> list[str]:
    """Train and commit; return what is told of parts that rest."""
    model, optimizer, extra = given
    with Checkpointer(
        repo, model, optimizer, extra=extra, every=every, final=False, **options
    ) as checkpointer:
        for step in range(6):
            trained.step()
            checkpointer.after_step(step)
        assert not checkpointer.failures
    return [
        text.partition(": ")[2] for text in caplog.messages if "rest" in text and text.startswith("commit ")
    ]


def stale_optimizer(trained: Trained) -> Given:
    return trained.model, copy.deepcopy(trained.optimizer), {}


def stale_model(trained: Trained) -> Given:
    return copy.deepcopy(trained.model), trained.optimizer, {}


def new_optimizer(trained: Trained) -> Given:
    return trained.model, torch.optim.AdamW(trained.model.parameters()), {}


def resting_second(trained: Trained) -> Given:
    return trained.model, trained.optimizer, {"second": copy.deepcopy(trained.optimizer)}


@pytest.mark.parametrize("options", [{}, {"step_size": 0.5}, {"every": 2, "weights_every": 1}])
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (stale_optimizer, "optimizer: its moments are those of the commit before, bit for bit"),
        (stale_model, "model: no weight differs from the commit before, though moments do"),
        (new_optimizer, "optimizer: it has made no step and has no state"),
        (resting_second, "extra.second: its moments are those of the commit before"),
    ],
)
def test_a_part_that_rests_is_told_once(
    repo: Repository,
    caplog: pytest.LogCaptureFixture,
    make: Callable[[Trained], Given],
    said: str,
    options: dict[str, float],
) -> None:
    trained = Trained()
    (note,) = told(repo, caplog, trained, make(trained), **options)
    assert note.startswith(said)
    assert "hand over the" in note
    assert "on purpose" in note


@pytest.mark.parametrize(
    "trained",
    [
        Trained,
        lambda: Trained(torch.optim.SGD, lr=0.1),
        lambda: Trained(torch.optim.SGD, lr=0.1, momentum=0.9),
        lambda: Trained(torch.optim.AdamW, lr=0.0),
    ],
    ids=["AdamW", "SGD", "momentum", "a rate of zero"],
)
def test_of_a_run_in_which_all_moves_nothing_is_told(
    repo: Repository, caplog: pytest.LogCaptureFixture, trained: Callable[[], Trained]
) -> None:
    run = trained()
    assert told(repo, caplog, run, (run.model, run.optimizer, {})) == []


def test_frozen_weights_are_none_that_rest(repo: Repository, caplog: pytest.LogCaptureFixture) -> None:
    run = Trained()
    run.model[0].requires_grad_(False)
    assert told(repo, caplog, run, (run.model, run.optimizer, {})) == []


def test_moments_rest_while_gradients_are_accumulated(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    run = Trained()
    with Checkpointer(repo, run.model, run.optimizer, every=1, final=False) as checkpointer:
        for step in range(3):
            run.model(torch.randn(3, 4)).square().sum().backward()
            checkpointer.after_step(step)
    assert "bit for bit" not in caplog.text
