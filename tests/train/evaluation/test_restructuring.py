"""An evaluation that takes the model apart: it is told so, and training goes on with its own model."""

import logging
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from torch.nn.utils import fuse_linear_bn_eval, parametrizations, parametrize

from mvcs import Checkpointer, Repository
from mvcs.errors import EvaluationError
from mvcs.search import Bound
from mvcs.train import Evaluator
from tests.train import evaluations

Evaluate = Callable[[nn.Module], Iterator[tuple[float, int]]]
STEPS = 12


class Adapted(nn.Module):
    """A layer with an adapter that is merged into its weights for inference."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(12, 32).requires_grad_(requires_grad=False)
        self.down, self.up = nn.Parameter(torch.randn(4, 12)), nn.Parameter(torch.zeros(32, 4))
        self.merged = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) if self.merged else self.base(x) + x @ self.down.T @ self.up.T


def make() -> nn.Sequential:
    torch.manual_seed(3)
    layers = nn.Linear(32, 32), nn.BatchNorm1d(32), nn.Linear(32, 32), nn.Linear(32, 1)
    parametrizations.weight_norm(layers[3])
    with pytest.warns(FutureWarning):
        nn.utils.weight_norm(layers[2])
    return nn.Sequential(Adapted(), nn.Tanh(), *layers)


def unparametrized(model: nn.Sequential) -> None:
    parametrize.remove_parametrizations(model[5], "weight")


def unnormed(model: nn.Sequential) -> None:
    nn.utils.remove_weight_norm(model[4])


def fused(model: nn.Sequential) -> None:
    model[2], model[3] = fuse_linear_bn_eval(model[2], model[3]), nn.Identity()


def replaced(model: nn.Sequential) -> None:
    model[0].base = nn.Linear(12, 32)


def added(model: nn.Sequential) -> None:
    model.add_module("head", nn.Linear(1, 1))


def removed(model: nn.Sequential) -> None:
    del model[1]


def merged(model: nn.Sequential) -> None:
    adapted = model[0]
    if not adapted.merged:
        adapted.base.weight += adapted.up @ adapted.down
        adapted.merged = True


def after(change: Callable[[nn.Sequential], None]) -> Evaluate:
    def evaluate(model: nn.Module) -> Iterator[tuple[float, int]]:
        change(model)
        yield from evaluations.batches(model)

    return evaluate


def trained(evaluate: Evaluate | None, repo: Repository) -> tuple[dict[str, torch.Tensor], list[str]]:
    """Return the weights of a run and what its commits say; without `evaluate` commits are exact."""
    model, x = make(), torch.randn(64, 12, generator=torch.Generator().manual_seed(5))
    optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], lr=1e-2)
    with Checkpointer(repo, model, optimizer, every=5, evaluate=evaluate) as checkpointer:
        for step in range(checkpointer.resume(), STEPS):
            optimizer.zero_grad()
            (model(x) - x.sin().sum(1, keepdim=True)).square().mean().backward()
            optimizer.step()
            checkpointer.after_step(step)
    return model.state_dict(), [commit.not_evaluated or "" for commit in repo.log()]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (unparametrized, "evaluate removed the module '5.parametrizations'"),
        (unnormed, "evaluate removed a hook of the module '4'"),
        (fused, "evaluate replaced the module '2', and made 1 more change to its modules"),
        (replaced, "evaluate replaced the module '0.base'"),
        (added, "evaluate added the module 'head'"),
        (removed, "evaluate replaced the module '1', and made 4 more changes"),
        (merged, "evaluate trains the model"),
    ],
)
def test_training_goes_on_with_its_own_model(
    change: Callable[[nn.Sequential], None],
    told: str,
    tmp_path_factory: pytest.TempPathFactory,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Repository.init(tmp_path_factory.mktemp("undisturbed")) as repo:
        expected, _ = trained(None, repo)
    with Repository.init(tmp_path_factory.mktemp("evaluated")) as repo, caplog.at_level(logging.WARNING):
        weights, notes = trained(after(change), repo)
        assert [commit.exactness for commit in repo.log()] == ["exact"] * 3
    assert list(weights) == list(expected)
    assert all(torch.equal(weights[name], expected[name]) for name in expected)
    assert all(told in note for note in notes)
    assert told in caplog.text


def test_hooks_that_an_evaluation_leaves_are_taken_off_and_no_fault() -> None:
    """A generator that is stopped early does not get to where it removes them."""
    model, seen = make(), []

    def listening(lent: nn.Module) -> Iterator[tuple[float, int]]:
        handle = lent[1].register_forward_hook(lambda *_: seen.append(1))
        yield from evaluations.batches(lent)
        handle.remove()

    evaluator = Evaluator(model, listening, Bound(0.05))
    baseline = evaluator.baseline(0)
    broken = {"5.bias": model[5].bias.detach() + 10}
    assert evaluator.judge(0, broken, baseline).is_early
    seen.clear()
    model(torch.ones(2, 12))
    assert seen == []


def test_what_fails_half_way_is_undone_too() -> None:
    model = make()
    before = dict(model[5].named_modules())

    def fails(lent: nn.Module) -> float:
        unparametrized(lent)
        lent[0].merged = True
        raise ValueError("no data")

    with pytest.raises(EvaluationError, match="no data"):
        Evaluator(model, fails, Bound(0.05)).baseline(0)
    assert dict(model[5].named_modules()) == before
    assert not model[0].merged
    assert model(torch.ones(2, 12)).shape == (2, 1)


def test_a_counter_of_ones_own_stays() -> None:
    model = make()

    def counts(lent: nn.Module) -> float:
        lent.evaluated = getattr(lent, "evaluated", 0) + 1
        return 1.0

    Evaluator(model, counts, Bound(0.05)).baseline(0)
    assert model.evaluated == 2
