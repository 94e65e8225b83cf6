"""Modules that do something when the mode changes: training goes on as it does without an evaluation."""

from collections.abc import Callable, Iterator
from typing import Self

import pytest
import torch
from torch import nn

from mvcs import Repository
from mvcs.search import Bound
from mvcs.train import Checkpointer, Evaluator
from tests.train import evaluations

STEPS = 12


class Merging(nn.Linear):
    """A layer with an adapter that is merged into its weights in eval mode, as loralib does it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.down, self.up = (
            nn.Parameter(torch.randn(4, inputs) / 4),
            nn.Parameter(torch.randn(outputs, 4) / 4),
        )
        self.weight.requires_grad_(requires_grad=False)
        self.merged = False

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if mode is self.merged:
            self.weight.data += (self.up @ self.down) * (-1 if mode else 1)
            self.merged = not mode
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        base = super().forward(x)
        return base if self.merged else base + x @ self.down.T @ self.up.T


class Folding(Merging):
    """The same, with weights that are trained."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.weight.requires_grad_()


class Forgetful(Merging):
    """Keeps the merged weights in a new attribute, counts its switches, and cannot go back."""

    switches = 0

    def train(self, mode: bool = True) -> Self:
        self.switches += 1
        if not mode:
            self.kept = self.weight
        elif self.switches > 1:
            raise ValueError("no way back")
        return super().train(mode)


class Swapping(nn.Linear):
    """Evaluates with an average of its weights, which it swaps in."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.register_buffer("average", self.weight.detach().clone())
        self.backup: torch.Tensor | None = None

    def train(self, mode: bool = True) -> Self:
        if mode and self.backup is not None:
            self.weight.data, self.backup = self.backup, None
        elif not mode and self.backup is None:
            self.backup, self.weight.data = self.weight.data, self.average.clone()
        return super().train(mode)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.average.lerp_(self.weight.detach(), 0.1)
        return super().forward(x)


class Net(nn.Sequential):
    """Keeps its statistics in eval mode."""

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        self[1].eval()
        return self


def make(layer: type[nn.Linear] = Merging) -> Net:
    torch.manual_seed(3)
    model = Net(layer(12, 32), nn.BatchNorm1d(32), nn.Tanh(), nn.Dropout(0.2), nn.Linear(32, 1))
    return model.train()


def trained(
    model: Net, evaluate: object, repo: Repository, **options: object
) -> tuple[dict[str, torch.Tensor], list[str]]:
    """Return the weights and gradients of a run, and how its commits are; exact without `evaluate`."""
    x = torch.randn(64, 12, generator=torch.Generator().manual_seed(5))
    optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], lr=1e-2)
    torch.manual_seed(4)
    with Checkpointer(repo, model, optimizer, every=4, evaluate=evaluate, **options) as checkpointer:
        for step in range(STEPS):
            optimizer.zero_grad()
            (model(x) - x.sin().sum(1, keepdim=True)).square().mean().backward()
            optimizer.step()
            checkpointer.after_step(step)
    gradients = {f"{name}.grad": value.grad for name, value in model.named_parameters()}
    found = {**model.state_dict(), **gradients}
    commits = [commit.not_evaluated or commit.exactness for commit in repo.log()]
    return {name: value for name, value in found.items() if value is not None}, commits


def leaving_it_in_train_mode(model: nn.Module) -> Iterator[tuple[float, int]]:
    yield from evaluations.batches(model)
    model.train()


def counting(model: nn.Module) -> float:
    model.evaluated = getattr(model, "evaluated", 0) + 1
    return float(evaluations.number(model))


@pytest.mark.parametrize(
    ("layer", "evaluate", "commits"),
    [
        (Merging, evaluations.batches, "bounded"),
        (Merging, leaving_it_in_train_mode, "bounded"),
        (Merging, counting, "bounded"),
        (Swapping, evaluations.batches, "bounded"),
        (Folding, evaluations.batches, "bounded"),
        (Folding, leaving_it_in_train_mode, "or the model's own train() changes weights that are trained"),
        (Forgetful, evaluations.batches, "the model's own train() failed: ValueError: no way back"),
    ],
)
def test_training_goes_on_as_without(
    layer: type[nn.Linear],
    evaluate: Callable[[nn.Module], object],
    commits: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with Repository.init(tmp_path_factory.mktemp("without")) as repo:
        model = make(layer)
        expected, _ = trained(model, None, repo)
        attributes = dict(vars(model[0]))
    with Repository.init(tmp_path_factory.mktemp("with")) as repo:
        evaluated = make(layer)
        found, told = trained(evaluated, evaluate, repo, max_degradation=0.05)
    assert list(found) == list(expected)
    assert [name for name in expected if not torch.equal(found[name], expected[name])] == []
    assert all(commits in each for each in told)
    assert vars(evaluated[0]).keys() == attributes.keys()
    plain = {name: value for name, value in attributes.items() if not isinstance(value, dict)}
    assert {name: vars(evaluated[0])[name] for name in plain} == plain
    assert [module.training for module in evaluated.modules()] == [
        module.training for module in model.modules()
    ]


def test_a_counter_of_ones_own_stays() -> None:
    model = make()
    Evaluator(model, counting, Bound(0.05)).baseline(0)
    assert model.evaluated == 2


def test_a_model_that_is_merged_stays_so() -> None:
    model = make().eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    value = Evaluator(model, leaving_it_in_train_mode, Bound(0.05)).baseline(0).value
    assert model[0].merged
    assert not model[0].training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert Evaluator(model, evaluations.batches, Bound(0.05)).baseline(1).value == value


def test_what_is_restored_is_merged_before_it_is_evaluated() -> None:
    model, other = make(), make()
    with torch.no_grad():
        other[0].up.add_(0.1)
    weights = {name: value.clone() for name, value in other.state_dict().items()}
    with torch.no_grad():
        expected = float(evaluations.number(other))
    evaluator = Evaluator(model, evaluations.number, Bound(0.05))
    for _ in range(2):
        with evaluator.measuring(0, weights) as measured:
            assert measured == pytest.approx(expected, rel=1e-6)


@pytest.mark.usefixtures("forked_replicas")
def test_a_child_process_merges_what_it_is_given() -> None:
    torch.set_num_threads(1)
    model = make()
    here = Evaluator(model, evaluations.number, Bound(0.05)).baseline(0)
    with Evaluator(model, evaluations.number, Bound(0.05), replica=make) as evaluator:
        assert [evaluator.baseline(step, repeat=0) for step in range(3)] == [here] * 3
