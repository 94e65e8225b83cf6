"""Evaluations that do not see the candidates: commits are exact and say why, until one is seen."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from mvcs import Checkpointer, Repository
from mvcs.cli import main
from tests.train import evaluations
from tests.train.evaluations import Run, train, undisturbed

ASKED = "does it use the model that it is given?"
BOUND = 0.02


class Wrapped(nn.Module):
    """A model whose state calls its weights otherwise."""

    def __init__(self, model: nn.Module, *, copies: bool = False) -> None:
        super().__init__()
        self.net, self.copies = model, copies

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)

    def state_dict(self, *args: Any, **options: Any) -> dict[str, Any]:
        inner = self.net.state_dict(*args, **options)
        if self.copies:
            inner = {name: value.clone() for name, value in inner.items()}
        return {"parts": [inner], "version": 1}

    def load_state_dict(self, state: dict[str, Any], *_: Any, **__: Any) -> Any:
        return self.net.load_state_dict(state["parts"][0])


class Scaled(nn.Module):
    """A model with a tensor that is neither a parameter nor a buffer, as layers of narrow floats have."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.net, self.scale = model, torch.full((4, 4), 1 / 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x) * self.scale.mean()

    def get_extra_state(self) -> torch.Tensor:
        return self.scale

    def set_extra_state(self, state: torch.Tensor) -> None:
        self.scale = state


def wrapped(**options: bool) -> Run:
    run = Run()
    run.model = Wrapped(run.model, **options)
    return run


def unseen(repo: Repository) -> list[str | None]:
    return [commit.not_evaluated for commit in repo.log()][::-1]


def test_weights_of_a_nested_state_are_evaluated(repo: Repository) -> None:
    run = wrapped()
    train(repo, run, 20, max_degradation=BOUND)
    commits = [commit for commit in repo.log() if commit.bounded]
    assert len(commits) >= 3
    for commit in commits:
        net, restored = evaluations.make(), repo.restore(commit.id, prefer_exact=False).state
        after = evaluations.measured(net, restored["model"]["parts"][0])
        assert after / commit.metrics["evaluation"] - 1 == pytest.approx(commit.degradation, abs=1e-4)
        assert commit.degradation != 0
    without = Run()
    for _ in range(20):
        without.step()
    assert all(
        torch.equal(value, run.model.net.state_dict()[name])
        for name, value in without.model.state_dict().items()
    )


def test_extra_state_of_a_module_is_exact_and_the_rest_bounded(repo: Repository) -> None:
    run = Run()
    run.model = Scaled(run.model)
    train(repo, run, 15, max_degradation=BOUND)
    found = [commit for commit in repo.log() if commit.bounded]
    assert len(found) == 3
    restored = repo.restore(found[0].id, prefer_exact=False).state["model"]
    assert torch.equal(restored["_extra_state"], run.model.scale)


def test_a_state_of_copies_is_not_guessed_at(repo: Repository) -> None:
    train(repo, wrapped(copies=True), 10, max_degradation=BOUND)
    assert [commit.exactness for commit in repo.log()] == ["exact"] * 2
    why = "the model has no ordinary parameter or buffer 'parts.0.0.weight'"
    assert all(why in (each or "") for each in unseen(repo))


@pytest.mark.parametrize("method", ["lattice", "inshrinkerator"])
@pytest.mark.parametrize("on_failure", ["exact", "unchecked"])
def test_an_evaluation_of_something_else_leaves_commits_exact(
    method: str, on_failure: str, repo: Repository, capsys: Any
) -> None:
    run, other = Run(), evaluations.make()
    options = {"method": method, "on_evaluation_failure": on_failure, "max_degradation": BOUND}
    hook = train(repo, run, 15, evaluate=lambda _: evaluations.batches(other), **options)
    assert run.bits() == undisturbed(15)
    assert [commit.exactness for commit in repo.log()] == ["exact"] * 3
    assert all(ASKED in (each or "") for each in unseen(repo))
    assert [commit.degradation for commit in repo.log()] == [None] * 3
    assert [timing.evaluations for timing in hook.timings[1:]] == pytest.approx([2.0, 2.0])
    assert main(["-C", str(repo.top), "show"]) == 0
    assert (
        "not measured, since the evaluation gave for quite other weights exactly what it gives"
        in " ".join(capsys.readouterr().out.split())
    )


def test_commits_are_bounded_again_once_a_candidate_is_seen(repo: Repository) -> None:
    run, other, step = Run(), evaluations.make(), [0]

    def evaluate(model: nn.Module) -> Any:
        return evaluations.batches(other if step[0] < 2 else model)

    with Checkpointer(repo, run.model, run.optimizer, evaluate=evaluate, max_degradation=BOUND) as saving:
        for step[0] in range(5):
            for _ in range(5):
                run.step()
            saving.save(step[0])
    assert [each is None for each in unseen(repo)] == [False, False, True, True, True]
    found = [commit for commit in repo.log() if commit.bounded]
    assert len(found) >= 2
    for commit in found:
        after = evaluations.measured(
            evaluations.make(), repo.restore(commit.id, prefer_exact=False).state["model"]
        )
        assert after / commit.metrics["evaluation"] - 1 == pytest.approx(commit.degradation, abs=1e-4)


def test_a_metric_that_minds_no_rounding_is_no_fault(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as an accuracy of few samples: it changes with quite other weights."""
    run = Run()

    def evaluate(model: nn.Module) -> float:
        return float(evaluations.number(model) < 50)

    train(repo, run, 10, evaluate=evaluate, goal="max", max_degradation=BOUND)
    assert unseen(repo) == [None, None]
    assert [commit.exactness for commit in repo.log()] == ["bounded"] * 2
    assert ASKED not in caplog.text


class Remembers:
    """Evaluations that tell something else than what they measure."""

    def __init__(self) -> None:
        self.model, self.values = evaluations.make(), list[float]()

    def best_so_far(self, model: nn.Module) -> float:
        self.values.append(float(evaluations.number(model)))
        return min(self.values)

    def averaged(self, model: nn.Module) -> float:
        last = self.values[-1:] or [float(evaluations.number(model))]
        self.values.append(0.9 * last[0] + 0.1 * float(evaluations.number(model)))
        return self.values[-1]

    def once(self, model: nn.Module) -> float:
        self.values = self.values or [float(evaluations.number(model))]
        return self.values[0]

    def copied(self, _model: nn.Module) -> float:
        return float(evaluations.number(self.model))


@pytest.mark.parametrize("kind", ["best_so_far", "averaged", "once", "copied"])
def test_an_evaluation_that_cannot_tell_leaves_commits_exact(kind: str, repo: Repository) -> None:
    train(repo, Run(), 15, evaluate=getattr(Remembers(), kind), max_degradation=BOUND)
    assert [commit.exactness for commit in repo.log()] == ["exact"] * 3
    assert all(why for why in unseen(repo))


def test_one_that_begins_to_remember_later_is_found(repo: Repository) -> None:
    later = Remembers()

    def evaluate(model: nn.Module) -> float:
        return later.best_so_far(model) if len(commits) > 3 else float(evaluations.number(model))

    run, commits = Run(), []
    run.step()
    options = {"evaluate": evaluate, "max_degradation": BOUND, "on_commit": commits.append}
    with Checkpointer(repo, run.model, run.optimizer, **options) as saving:
        for step in range(18):
            saving.save(step)
            saving.flush()
    assert commits[2].bounded
    assert not commits[17].bounded
    assert "depends on those before it" in (commits[17].not_evaluated or "") or "quite other weights" in (
        commits[17].not_evaluated or ""
    )


class Twofold(nn.Module):
    """A net that is evaluated, a head that is not, and a weight that is used without its module."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.head, self.scale = evaluations.make(), nn.Linear(12, 40), nn.Embedding(4, 32)
        self.norm = nn.BatchNorm1d(40, affine=False)
        self.norm.running_mean.normal_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x) * self.scale.weight[:, :1].square().mean()


class Ghosts(nn.Module):
    """A net with a layer that attention calls without its module, and much that only training uses."""

    def __init__(self) -> None:
        super().__init__()
        parts = {
            "attention": nn.MultiheadAttention(12, 2),
            "aux": nn.Linear(12, 40),
            "net": evaluations.make(),
        }
        self.parts = nn.ModuleDict(parts)
        self.parts["net"].ghost = nn.Parameter(torch.randn(40, 12))
        self.register_buffer("queue", torch.randn(40, 12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x[None]
        return self.parts["net"]((x + self.parts["attention"](x, x, x)[0])[0])


class Caches:
    """An evaluation that computes what a layer gives once."""

    def __init__(self) -> None:
        self.given: dict[int, torch.Tensor] = {}

    def evaluate(self, model: Any) -> Any:
        x = evaluations.Run().x
        for place, (rows, target) in enumerate(
            zip(x.split(16), x.sin().sum(1, keepdim=True).split(16), strict=True)
        ):
            if place not in self.given:
                self.given[place] = model[0](rows)
            yield (model[1:](self.given[place]) - target).square().sum().item(), 16


def copied(model: nn.Module) -> Any:
    yield from evaluations.batches(copy.deepcopy(model))


def converted(model: nn.Module) -> Any:
    yield from evaluations.batches(model.half().float())


@pytest.mark.parametrize("evaluate", [evaluations.batches, evaluations.number, copied, converted])
def test_tensors_that_no_module_call_shows_to_be_unused_are_exact(evaluate: Any, repo: Repository) -> None:
    run = Run()
    run.model = Ghosts()
    run.optimizer = torch.optim.AdamW(run.model.parameters(), lr=1e-2)
    train(repo, run, 5, max_degradation=0.1, evaluate=evaluate)
    restored = repo.restore(prefer_exact=False).state["model"]
    exact = repo.checkout(exact=True)["model"]
    rounded = {name for name, value in exact.items() if not torch.equal(value, restored[name])}
    assert not rounded & {"queue", "parts.aux.weight", "parts.aux.bias", "parts.net.ghost"}
    assert {"parts.net.0.weight", "parts.attention.in_proj_weight"} <= rounded


def test_a_layer_that_is_cached_is_not_measured_and_exact(repo: Repository) -> None:
    train(repo, Run(), 5, max_degradation=0.1, evaluate=Caches().evaluate)
    restored = repo.restore(prefer_exact=False).state["model"]
    exact = repo.checkout(exact=True)["model"]
    assert torch.equal(restored["0.weight"], exact["0.weight"])
    assert not torch.equal(restored["3.weight"], exact["3.weight"])


@pytest.mark.usefixtures("forked_replicas")
@pytest.mark.parametrize("options", [{}, {"method": "inshrinkerator"}, {"replica": Twofold}])
def test_weights_that_an_evaluation_does_not_use_are_exact(
    options: dict[str, Any], repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run()
    run.model = Twofold()
    run.optimizer = torch.optim.AdamW(run.model.parameters(), lr=1e-2)
    train(repo, run, 10, max_degradation=0.1, **options)
    restored = repo.restore(prefer_exact=False).state["model"]
    exact = repo.checkout(exact=True)["model"]
    assert torch.equal(restored["head.weight"], exact["head.weight"])
    assert torch.equal(restored["norm.running_mean"], exact["norm.running_mean"])
    assert not torch.equal(restored["net.0.weight"], exact["net.0.weight"])
    assert not torch.equal(restored["scale.weight"], exact["scale.weight"])
    told = [text for text in caplog.messages if "does not use" in text]
    some = "head.bias, head.weight, norm.running_mean, norm.running_var"
    assert told == [f"evaluate does not use {some}: they are kept exactly"]


class Other(nn.Module):
    """A model whose state has other weights by the names of its own, as an average may be handed over."""

    def __init__(self) -> None:
        super().__init__()
        self.net = evaluations.make()
        self._register_state_dict_hook(Other.replace)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)

    def replace(self, state: dict[str, Any], *_: Any) -> None:
        named = self.named_parameters(remove_duplicate=False)
        state.update({name: 0.9 * value.detach() for name, value in named})


@torch.no_grad()
def metric(state: dict[str, torch.Tensor]) -> float:
    net = Other()
    net.load_state_dict(state)
    return float(evaluations.number(net))


def test_a_verdict_is_of_what_the_state_has_and_not_of_what_the_model_holds(repo: Repository) -> None:
    repo.config_set("retention.exact_layers", "1000")
    run = Run()
    run.model = Other()
    run.optimizer = torch.optim.AdamW(run.model.parameters(), lr=1e-2)
    train(repo, run, 10, max_degradation=BOUND)
    for commit in repo.log():
        restored = metric(repo.restore(commit.id, prefer_exact=False).state["model"])
        before = metric(repo.checkout(commit.id, exact=True)["model"])
        assert commit.bounded
        assert commit.errors["evaluation"]["baseline"] == pytest.approx(before, rel=1e-4)
        assert restored / before - 1 <= BOUND
