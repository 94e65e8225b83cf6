"""Averages that frameworks hold are measured or exact; verdicts are of the weights that are committed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from mvcs import Repository
from tests.train.adapters.test_lightning import KilledError, Net, data, fit

lightning = pytest.importorskip("lightning.pytorch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

pytestmark = [pytest.mark.adapters, pytest.mark.filterwarnings("ignore")]

BOUND = 0.02
callbacks = lightning.callbacks


class Tuned(Net):
    """The net of the other tests, with steps so long that an average is far better than the weights."""

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=3e-2)


class Inside(Tuned):
    """One that has its average as a submodule."""

    def __init__(self, die_after: int | None = None) -> None:
        super().__init__(die_after)
        self.ema = AveragedModel(self.layers, multi_avg_fn=get_ema_multi_avg_fn(0.8))
        self.ema.requires_grad_(False)

    def on_train_batch_end(self, *_: Any) -> None:
        self.ema.update_parameters(self.layers)


class Kept(callbacks.Callback):
    """One that a callback has as its state."""

    shadow: dict[str, torch.Tensor]

    def setup(self, _made: Any, net: nn.Module, stage: str) -> None:  # noqa: ARG002 - its name
        self.shadow = {name: value.detach().clone() for name, value in net.named_parameters()}

    def on_train_batch_end(self, _made: Any, net: nn.Module, *_: Any) -> None:
        for name, value in net.named_parameters():
            self.shadow[name].lerp_(value.detach(), 0.2)

    def state_dict(self) -> dict[str, Any]:
        return {"shadow": self.shadow}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.shadow = state["shadow"]


def evaluate(model: nn.Module) -> float:
    x = data().tensors[0]
    return float((model.layers(x) - x.sum(1, keepdim=True)).square().mean())


def measured(weights: Mapping[str, torch.Tensor], kind: Any = Tuned) -> float:
    net = kind()
    net.load_state_dict(weights, strict=False)
    with torch.no_grad():
        return evaluate(net.eval())


def made(kind: Any = Tuned, die_after: int | None = None) -> Any:
    lightning.seed_everything(7, verbose=False)
    return kind(die_after)


def averaging() -> Any:
    return callbacks.WeightAveraging(multi_avg_fn=get_ema_multi_avg_fn(0.9))


AVERAGES = {
    "WeightAveraging": averaging,
    "EMAWeightAveraging": lambda: callbacks.EMAWeightAveraging(decay=0.8, use_buffers=False),
    "StochasticWeightAveraging": lambda: callbacks.StochasticWeightAveraging(1e-2, swa_epoch_start=1),
    "callback": Kept,
}


def same(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> bool:
    return all(torch.equal(value, other[name]) for name, value in one.items())


def averages(state: Any, path: str = "extra") -> dict[str, dict[str, torch.Tensor]]:
    """Whatever beside the model has a weight by its name, by where it stands."""
    found: dict[str, dict[str, torch.Tensor]] = {}
    for name, value in state.items() if isinstance(state, Mapping) else ():
        if str(name).endswith("layers.0.weight"):
            tensors = {key: one for key, one in state.items() if isinstance(one, torch.Tensor)}
            return {path: {key.removeprefix("module."): one for key, one in tensors.items()}}
        found |= averages(value, f"{path}.{name}")
    return found


@pytest.mark.parametrize("kind", AVERAGES)
def test_a_verdict_is_of_the_weights_that_are_committed(tmp_path: Path, kind: str) -> None:
    from mvcs.train.lightning import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        repo.config_set("retention.exact_layers", "1000")
        callback = MvcsCallback(repo, every=5, evaluate=evaluate, max_degradation=BOUND)
        fit(tmp_path, made(), callback, AVERAGES[kind]())
        assert not callback.checkpointer.failures
        commits = list(repo.log())
        for commit in commits:
            restored, exact = (
                repo.restore(commit.id, prefer_exact=False).state,
                repo.checkout(commit.id, exact=True),
            )
            told = {
                name.partition(" (")[0]: fields
                for name, fields in commit.errors.items()
                if name.startswith("evaluation")
            }
            now, before = measured(restored["model"]), measured(exact["model"])
            if commit.bounded:
                own = told.get("evaluation of model") or told["evaluation"]
                assert own["baseline"] == pytest.approx(before, rel=1e-3)
            assert now / before - 1 <= BOUND
            beside = averages(restored["extra"])
            for place, exactly in averages(exact["extra"]).items():
                if f"evaluation of {place}" in told:
                    assert measured(exact["model"] | beside[place]) <= (1 + BOUND) * measured(
                        exact["model"] | exactly
                    )
                else:
                    assert same(beside[place], exactly)
        assert any(commit.bounded for commit in commits)


def test_an_average_within_the_module_that_is_not_evaluated_is_exact(tmp_path: Path) -> None:
    from mvcs.train.lightning import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        repo.config_set("retention.exact_layers", "1000")
        callback = MvcsCallback(repo, every=5, evaluate=evaluate, max_degradation=BOUND)
        fit(tmp_path, made(Inside), callback)
        state = repo.restore("HEAD", prefer_exact=False).state["model"]
        exact = repo.checkout("HEAD", exact=True)["model"]
        inner = {name: value for name, value in state.items() if name.startswith("ema.")}
        assert inner
        assert [name for name, value in inner.items() if not torch.equal(value, exact[name])] == []
        assert not same(state, exact)


# Lightning's own files do not resume the first epoch of a StochasticWeightAveraging within it.
@pytest.mark.parametrize(
    ("kind", "died"), [(kind, 8) for kind in AVERAGES] + [(kind, 4) for kind in AVERAGES if "Sto" not in kind]
)
def test_a_killed_run_with_an_average_goes_on_exactly(tmp_path: Path, kind: str, died: int) -> None:
    from mvcs.train.lightning import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        with pytest.raises(KilledError):
            fit(
                tmp_path,
                made(die_after=died),
                MvcsCallback(repo, every=6 if died > 6 else 1),
                AVERAGES[kind](),
            )
        again = fit(tmp_path, made(), MvcsCallback(repo, every=1), AVERAGES[kind]())
        assert (
            again.weights() == fit(tmp_path, made(), AVERAGES[kind](), enable_checkpointing=False).weights()
        )


@pytest.mark.parametrize("kind", ["WeightAveraging", "EMAWeightAveraging"])
def test_the_last_step_has_the_trained_weights_beside_their_average(tmp_path: Path, kind: str) -> None:
    from mvcs.train.lightning import MvcsCallback

    with Repository.init(tmp_path / "run") as repo:
        net = fit(tmp_path, made(), MvcsCallback(repo, every=100), AVERAGES[kind]())
        state = repo.checkout("HEAD")
        trained = state["extra"]["lightning"]["current_model_state"]
        assert same(dict(net.named_parameters()), state["model"])
        assert not same(trained, state["model"])


class Ema(transformers.TrainerCallback):
    """An average of the trainer's model, which it ships in place of the weights."""

    def __init__(self, net: nn.Module) -> None:
        self.model = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.8))

    def on_step_end(self, *_: Any, model: nn.Module, **__: Any) -> None:
        self.model.update_parameters(model)

    def on_train_end(self, *_: Any, model: nn.Module, **__: Any) -> None:
        model.load_state_dict(self.model.module.state_dict())


def test_an_average_of_a_trainer_is_measured_and_the_weights_are_the_trained(tmp_path: Path) -> None:
    from mvcs.train.huggingface import MvcsCallback
    from tests.train.adapters import test_huggingface as runs

    def loss(model: nn.Module) -> float:
        x = runs.Points(6).x
        return float(model(x=x, labels=x.sum(1))["loss"])

    def of(state: Mapping[str, torch.Tensor]) -> float:
        net = runs.seeded()
        net.load_state_dict({name.removeprefix("module."): one for name, one in state.items() if "." in name})
        with torch.no_grad():
            return loss(net.eval())

    with Repository.init(tmp_path / "run") as repo:
        repo.config_set("retention.exact_layers", "1000")
        net = runs.seeded()
        ema = Ema(net)
        given = {"extra": {"ema": ema.model}, "evaluate": loss, "max_degradation": BOUND}
        callback = MvcsCallback(repo, every=5, **given)
        made = runs.trainer(tmp_path, net, callback, ema)
        made.train()
        assert not callback.checkpointer.failures
        for commit in repo.log():
            restored = repo.restore(commit.id, prefer_exact=False).state
            exact = repo.checkout(commit.id, exact=True)
            assert commit.bounded
            assert of(restored["model"]) <= (1 + BOUND) * of(exact["model"])
            assert of(restored["extra"]["ema"]) <= (1 + BOUND) * of(exact["extra"]["ema"])
        trained = repo.checkout("HEAD", exact=True)["model"]
        assert not torch.equal(trained["layers.0.weight"], net.state_dict()["layers.0.weight"])
