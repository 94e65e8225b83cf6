"""What `evaluate` does not measure is not rounded: averages of the model are measured, others are exact."""

import copy
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from mvcs import Checkpointer, Repository
from mvcs.cli import main
from mvcs.errors import UsageError
from mvcs.quantize import LatticeConfig
from tests.train import evaluations
from tests.train.evaluations import Run

BOUND = 0.02


class Shadow:
    """An average as many scripts keep it: of parameters alone, beside other numbers."""

    def __init__(self, model: nn.Module, decay: float = 0.8, kind: torch.dtype = torch.float32) -> None:
        self.decay, self.kind, self.updates = decay, kind, 0
        self.shadow = {name: value.detach().to(kind, copy=True) for name, value in model.named_parameters()}

    def update(self, model: nn.Module) -> None:
        self.updates += 1
        for name, value in model.named_parameters():
            self.shadow[name].lerp_(value.detach().to(self.kind), 1 - self.decay)

    def state_dict(self) -> dict[str, Any]:
        return {"decay": self.decay, "updates": self.updates, "shadow": self.shadow}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.updates, self.shadow = state["updates"], state["shadow"]


class Listed(Shadow):
    """The same in a list, as torch_ema has it."""

    def state_dict(self) -> dict[str, Any]:
        return {"decay": self.decay, "shadow_params": list(self.shadow.values()), "collected_params": None}


class Kept(nn.Module):
    """The same as a module with statistics, as timm has it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.module = copy.deepcopy(model).eval()

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        for own, other in zip(self.state_dict().values(), model.state_dict().values(), strict=True):
            own.copy_(other if not own.is_floating_point() else own.lerp(other, 0.2))


def averaged(model: nn.Module) -> AveragedModel:
    return AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.8), use_buffers=True)


def train(
    repo: Repository, extra: Mapping[str, Any], run: Run | None = None, steps: int = 15, **options: Any
) -> Run:
    """Train with averages that are updated after each step, and commit every fifth."""
    repo.config_set("retention.exact_layers", "1000")
    run = run or Run()
    made = {
        name: value if isinstance(value, nn.Module) or not callable(value) else value(run.model)
        for name, value in extra.items()
    }
    given = {"every": 5, "evaluate": evaluations.batches, "max_degradation": BOUND, **options}
    with Checkpointer(repo, run.model, run.optimizer, extra=made, **given) as saving:
        start = saving.resume()
        for step in range(start, start + steps):
            run.step()
            for one in made.values():
                update = getattr(one, "update", None) or getattr(one, "update_parameters", None)
                if update is not None and not isinstance(one, dict):
                    update(run.model)
            saving.after_step(step)
    assert saving.failures == []
    return run


def states(repo: Repository, rev: str = "HEAD") -> tuple[dict[str, Any], dict[str, Any]]:
    """What a commit restores, and what was handed over."""
    return repo.restore(rev, prefer_exact=False).state, repo.checkout(rev, exact=True)


def tensors(value: object) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [tensor for item in items for tensor in tensors(item)]


def same(one: object, other: object) -> bool:
    return all(torch.equal(first, second) for first, second in zip(tensors(one), tensors(other), strict=True))


def metric(weights: Mapping[str, torch.Tensor], model: Mapping[str, torch.Tensor]) -> float:
    """The metric of an average: what it does not have is the model's."""
    names = {name.removeprefix("module."): value for name, value in weights.items()}
    net = evaluations.make()
    own = {name: names.get(name, value) for name, value in model.items()}
    if "5.weight" not in names and "3.weight" in names:
        own["5.weight"], own["5.bias"] = own["3.weight"], own["3.bias"]
    return evaluations.measured(net, own)


def shadow_of(average: Mapping[str, Any]) -> Mapping[str, torch.Tensor]:
    if "shadow_params" in average:
        names = [name for name, _ in evaluations.make().named_parameters()]
        return dict(zip(names, average["shadow_params"], strict=True))
    return average.get("shadow", average)


AVERAGES: dict[str, Callable[[nn.Module], Any]] = {
    "dict": Shadow,
    "list": Listed,
    "module": Kept,
    "torch": averaged,
    "bfloat16": lambda model: Shadow(model, kind=torch.bfloat16),
}


@pytest.mark.parametrize("kind", AVERAGES)
def test_an_average_keeps_the_bound_as_the_model_does(kind: str, repo: Repository) -> None:
    train(repo, {"ema": AVERAGES[kind]})
    found = [commit for commit in repo.log() if commit.bounded]
    assert len(found) == 3
    for commit in found:
        restored, exact = states(repo, commit.id)
        pairs = [(shadow_of(state["extra"]["ema"]), state["model"]) for state in (restored, exact)]
        after, before = (metric(*pair) for pair in pairs)
        [told] = [
            fields for name, fields in commit.errors.items() if name.startswith("evaluation of extra.ema")
        ]
        assert after / before - 1 == pytest.approx(told["degradation"], abs=2e-3)
        assert after / before - 1 <= BOUND
        assert told["baseline"] == pytest.approx(before, rel=1e-4)
        worst = max(commit.errors["evaluation of model"]["degradation"], told["degradation"])
        assert commit.degradation == worst
    assert not same(restored["extra"]["ema"], exact["extra"]["ema"]) or kind == "bfloat16"


def test_training_with_an_average_is_undisturbed(repo: Repository) -> None:
    run = train(repo, {"ema": averaged})
    assert run.bits() == evaluations.undisturbed(15)


def test_an_average_that_is_not_to_be_measured_is_exact(repo: Repository) -> None:
    train(repo, {"ema": Shadow, "fast": lambda model: Shadow(model, 0.5)}, measure={"extra.ema": False})
    restored, exact = states(repo)
    assert same(restored["extra"]["ema"], exact["extra"]["ema"])
    assert not same(restored["extra"]["fast"], exact["extra"]["fast"])
    assert not same(restored["model"], exact["model"])
    assert {name for name in repo.head().errors if name.startswith("evaluation")} == {
        "evaluation",
        "evaluation of extra.fast.shadow",
        "evaluation of model",
    }


def test_two_averages_in_one_dict_are_measured_each(repo: Repository) -> None:
    class Both:
        def __init__(self, model: nn.Module) -> None:
            self.of = {"0.5": Shadow(model, 0.5), "0.9": Shadow(model, 0.9)}

        def update(self, model: nn.Module) -> None:
            for one in self.of.values():
                one.update(model)

        def state_dict(self) -> dict[str, Any]:
            return {name: one.shadow for name, one in self.of.items()}

        def load_state_dict(self, state: Any) -> None:
            raise NotImplementedError

    train(repo, {"averages": Both})
    names = [name for name in repo.head().errors if name.startswith("evaluation of extra")]
    assert names == ["evaluation of extra.averages.0.5", "evaluation of extra.averages.0.9"]


def test_other_weights_are_exact(repo: Repository) -> None:
    torch.manual_seed(9)
    others = {
        "critic": nn.Linear(40, 30),
        "like": evaluations.make_other(),
        "stranger": nn.Sequential(*[nn.Linear(8, 8) for _ in range(3)]),
        "buffer": {"memory": torch.randn(50, 60), "mean": torch.randn(60)},
    }
    train(repo, others)
    restored, exact = states(repo)
    assert same(restored["extra"], exact["extra"])
    assert not same(restored["model"], exact["model"])


def test_a_second_model_of_the_same_form_is_no_average(repo: Repository) -> None:
    second = evaluations.make()
    for parameter in second.parameters():
        nn.init.normal_(parameter)
    train(repo, {"second": second})
    restored, exact = states(repo)
    assert same(restored["extra"], exact["extra"])


class Iterates(torch.optim.Optimizer):
    """Has the state and the settings of schedule-free SGD."""

    def __init__(self, parameters: Any) -> None:
        settings = {"lr": 1e-2, "weight_sum": 0.0, "weight_lr_power": 2.0, "train_mode": True}
        super().__init__(parameters, settings)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # noqa: ARG002 - as torch calls it
        for one in self.param_groups[0]["params"]:
            z = self.state[one].setdefault("z", one.clone())
            z.sub_(one.grad, alpha=1e-2)
            one.lerp_(z, 0.1)


@pytest.mark.parametrize("kind", ["asgd", "schedule-free"])
def test_weights_in_an_optimizer_are_exact(kind: str, repo: Repository) -> None:
    run = Run()
    if kind == "asgd":
        run.optimizer = torch.optim.ASGD(run.model.parameters(), lr=1e-3)
    else:
        run.optimizer = Iterates(run.model.parameters())
    train(repo, {}, run)
    restored, exact = states(repo)
    assert repo.head().bounded
    assert not same(restored["model"], exact["model"])
    name = {"asgd": "ax", "schedule-free": "z"}[kind]
    for own, other in zip(
        restored["optimizer"]["state"].values(), exact["optimizer"]["state"].values(), strict=True
    ):
        assert torch.equal(own[name], other[name])


def test_what_the_user_measures_is_rounded_and_keeps_the_bound(repo: Repository) -> None:
    torch.manual_seed(4)
    teacher, x = nn.Linear(24, 16), torch.randn(64, 24)
    target = torch.randn(64, 16)

    def measure(one: nn.Module) -> float:
        assert one is teacher
        return float((one(x) - target).square().mean())

    train(repo, {"teacher": teacher}, evaluate={"model": evaluations.batches, "extra.teacher": measure})
    restored, exact = states(repo)
    before, after = nn.Linear(24, 16), nn.Linear(24, 16)
    before.load_state_dict(exact["extra"]["teacher"])
    after.load_state_dict(restored["extra"]["teacher"])
    assert not same(restored["extra"]["teacher"], exact["extra"]["teacher"])
    with torch.no_grad():
        lost = float((after(x) - target).square().mean() / (before(x) - target).square().mean()) - 1
    assert lost <= BOUND
    assert repo.head().errors["evaluation of extra.teacher"]["degradation"] == pytest.approx(lost, abs=1e-4)


def test_a_part_that_is_no_module_is_given_itself(repo: Repository) -> None:
    def measure(one: Shadow) -> float:
        assert isinstance(one, Shadow)
        return float(metric(one.shadow, evaluations.make().state_dict()))

    train(repo, {"ema": Shadow}, evaluate={"model": evaluations.batches, "extra.ema": measure})
    restored, exact = states(repo)
    assert not same(restored["extra"], exact["extra"])
    assert repo.head().errors["evaluation of extra.ema"]["degradation"] <= BOUND


def test_a_function_may_give_a_metric_for_each_of_several(repo: Repository) -> None:
    def measure(model: nn.Module, average: AveragedModel) -> Any:
        return zip(evaluations.batches(model), evaluations.batches(average.module), strict=True)

    train(repo, {"ema": averaged}, evaluate={("model", "extra.ema"): measure})
    restored, exact = states(repo)
    assert not same(restored["extra"], exact["extra"])
    for name in ("model", "extra.ema"):
        assert repo.head().errors[f"evaluation of {name}"]["degradation"] <= BOUND


def test_what_is_measured_alone_is_rounded_alone(repo: Repository) -> None:
    def measure(average: AveragedModel) -> Any:
        return evaluations.batches(average.module)

    train(repo, {"ema": averaged}, evaluate={"extra.ema": measure})
    restored, exact = states(repo)
    assert same(restored["model"], exact["model"])
    assert not same(restored["extra"], exact["extra"])


def test_a_step_that_is_named_is_taken(repo: Repository) -> None:
    torch.manual_seed(4)
    named = LatticeConfig(steps=(("extra.teacher.weight", 226),))
    train(repo, {"teacher": nn.Linear(24, 16), "other": nn.Linear(24, 16)}, quantizer=named)
    restored, exact = states(repo)
    assert not torch.equal(restored["extra"]["teacher"]["weight"], exact["extra"]["teacher"]["weight"])
    assert same(restored["extra"]["other"], exact["extra"]["other"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"evaluate": {"extra.tutor": evaluations.batches}}, "cannot be 'extra.tutor'"),
        ({"evaluate": {"model": 3}}, "evaluate cannot be 3"),
        ({"measure": {"extra.none": False}}, "cannot be 'extra.none'"),
        (
            {"evaluate": None, "max_degradation": None, "measure": {"extra.ema": False}},
            "measure needs evaluate",
        ),
    ],
)
def test_names_of_no_part_are_refused(options: dict[str, Any], message: str, repo: Repository) -> None:
    with pytest.raises(UsageError, match=message):
        train(repo, {"ema": Shadow}, **options)


def test_an_average_that_cannot_be_evaluated_is_exact_and_the_model_is_not(repo: Repository) -> None:
    def evaluate(model: nn.Module) -> Any:
        if float(model[0].weight.abs().max()) > 100:
            raise ValueError("too large")
        return evaluations.batches(model)

    class Odd(Shadow):
        def update(self, model: nn.Module) -> None:
            super().update(model)
            self.shadow["0.weight"][0, 0] = 101.0

    train(repo, {"ema": Odd}, evaluate=evaluate, measure={"extra.ema": True})
    restored, exact = states(repo)
    assert same(restored["extra"], exact["extra"])
    assert not same(restored["model"], exact["model"])


@pytest.mark.usefixtures("forked_replicas")
@pytest.mark.parametrize("options", [{"method": "inshrinkerator"}, {"replica": evaluations.make}])
def test_averages_are_measured_by_other_methods_and_processes(options: Any, repo: Repository) -> None:
    train(repo, {"ema": averaged}, steps=10, max_degradation=0.05, **options)
    for commit in repo.log():
        restored, exact = states(repo, commit.id)
        after, before = (metric(state["extra"]["ema"], state["model"]) for state in (restored, exact))
        assert after / before - 1 <= 0.05
    assert repo.head().bounded
    assert not same(restored["extra"], exact["extra"])


def test_a_run_that_resumed_goes_on_alike(repo: Repository) -> None:
    run = train(repo, {"ema": averaged}, steps=10)
    again = Run()
    train(repo, {"ema": averaged}, again, steps=10)
    assert len(list(repo.log())) == 4
    assert all("evaluation of extra.ema" in commit.errors for commit in repo.log())
    assert run is not again


def test_what_each_part_gets_is_told_once_and_shown(
    repo: Repository, caplog: pytest.LogCaptureFixture, capsys: Any
) -> None:
    with caplog.at_level(logging.INFO, "mvcs.train"):
        train(repo, {"ema": averaged, "teacher": nn.Linear(8, 8)})
    [told] = [
        record.getMessage() for record in caplog.records if "what each part gets" in record.getMessage()
    ]
    assert "extra.ema: bounded, measured by the evaluation of the model" in told
    assert 'measure={"extra.ema": False}' in told
    assert "extra.teacher: exact" in told
    assert main(["-C", str(repo.top), "show"]) == 0
    shown = capsys.readouterr().out
    assert "extra.teacher: exact" in " ".join(shown.split())
    assert "of extra.ema" in shown
    assert main(["-C", str(repo.top), "show", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "extra.ema" in found["provenance"]["parts"]
