"""Averages of weights beside a model: their steps are those of the weights they follow, or finer."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from mvcs import Repository
from mvcs.checkpoint.state.state import capture_state
from mvcs.commits.plan.anatomy import Anatomy
from mvcs.objects import Lattice
from mvcs.quantize import LatticeConfig
from mvcs.train import Checkpointer
from tests import adapted
from tests.commits.bounded.test_bounded import forms


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with Repository.init(tmp_path / "run") as made:
        yield made


class Averaged(adapted.Run):
    """A run that keeps an average of its weights."""

    def __init__(self, kind: torch.dtype = torch.float32) -> None:
        super().__init__(steps=0)
        self.model.to(kind)
        self.restart()
        self.average = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        self.train_on(10)

    def train_on(self, steps: int) -> None:
        for _ in range(steps):
            self.train(1)
            self.average.update_parameters(self.model)

    def whole(self) -> dict[str, object]:
        return {**self.state(), "ema": adapted.copied(self.average.state_dict())}


def steps(repo: Repository) -> list[tuple[int, int]]:
    """The step bytes of each average, and of the weight that it follows."""
    matrices = {one.path for one in repo.show().tensors if len(one.shape) > 1}
    found = {path: form.step for path, form in forms(repo, "HEAD").items() if isinstance(form, Lattice)}
    pairs = [(path, "model." + path.partition(".module.")[2]) for path in found if ".module." in path]
    return [(found[path], found[other]) for path, other in pairs if other in matrices]


def followed(state: dict[str, object]) -> dict[str, str]:
    found = Anatomy(capture_state(state)).averages
    return {".".join(map(str, path)): ".".join(map(str, other)) for path, other in found.items()}


def test_averages_are_known_by_name_shape_and_values() -> None:
    torch.manual_seed(0)
    weight, other = torch.randn(40, 50), torch.randn(40, 50)
    state = {
        "model": {"net.weight": weight, "net.out": other, "zeros": torch.zeros(4, 4)},
        "ema": {"module.net.weight": 0.99 * weight + 0.01 * other, "zeros": torch.zeros(4, 4)},
        "best": {"net": {"weight": weight.clone(), "out": other.double()}},
        "half": {"net.weight": (weight * 1.01).bfloat16()},
        "critic": {"net.weight": torch.randn(40, 50)},
        "turned": {"net.weight": weight.t().contiguous()},
        "broken": {"net.weight": weight * float("nan")},
        "other": {"weight": weight.clone()},
    }
    assert followed(state) == {
        "ema.module.net.weight": "model.net.weight",
        "ema.zeros": "model.zeros",
        "best.net.weight": "model.net.weight",
        "best.net.out": "model.net.out",
        "half.net.weight": "model.net.weight",
    }


def test_what_is_trained_itself_or_a_copy_follows_nothing() -> None:
    run = adapted.Run(steps=2)
    masters = {name: value.detach() for name, value in run.model.named_parameters()}
    optimizer = torch.optim.AdamW(masters.items())
    for one in masters.values():
        one.grad = torch.ones_like(one)
    optimizer.step()
    copies = {name: value.bfloat16() for name, value in masters.items()}
    assert followed({"model": copies, "masters": masters, "optimizer": optimizer.state_dict()}) == {}
    assert followed({"model": masters, "copies": copies}) == {}


@pytest.mark.parametrize("share", ["type", "tensor"])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_no_average_has_coarser_steps_than_its_weights(repo: Repository, share, kind) -> None:
    run = Averaged(kind)
    for _ in range(3):
        run.train_on(4)
        repo.commit(run.whole(), step_size=0.3, share=share)
        found = steps(repo)
        assert len(found) >= 6
        assert all(own <= other for own, other in found)


def test_an_average_of_larger_values_than_its_weights_has_their_steps(repo: Repository) -> None:
    torch.manual_seed(0)
    weight = torch.randn(40, 50)
    repo.commit({"model": {"weight": weight}, "ema": {"module.weight": 1.6 * weight}}, step_size=0.3)
    [(own, other)] = steps(repo)
    assert own == other


def test_steps_that_are_given_by_name_are_kept(repo: Repository) -> None:
    torch.manual_seed(0)
    weight = torch.randn(40, 50)
    state = {"model": {"weight": weight}, "ema": {"module.weight": weight.clone()}}
    repo.commit(state, quantizer=LatticeConfig(steps=(("model.weight", 220), ("ema.module.weight", 224))))
    assert steps(repo) == [(224, 220)]


def test_steps_of_averages_follow_where_nothing_measures_them(repo: Repository) -> None:
    trial = repo.trial(Averaged().whole(), quantizer=LatticeConfig())
    assert all(kind.startswith("model.") for kind in trial.kinds)


def test_steps_of_averages_that_are_measured_are_their_own(repo: Repository) -> None:
    run = Averaged()
    options = {"evaluate": run.evaluate, "max_degradation": 0.02, "every": 1}
    with Checkpointer(repo, run.model, run.optimizer, extra={"ema": run.average}, **options) as checkpointer:
        for step in range(2):
            run.train_on(4)
            checkpointer.after_step(step)
        checkpointer.flush()
    assert len(steps(repo)) >= 6
    assert repo.head().errors["evaluation of extra.ema"]["degradation"] <= 0.02
    assert checkpointer.failures == checkpointer.not_evaluated == []


def test_a_frozen_base_and_its_average_are_stored_once(repo: Repository) -> None:
    run = Averaged()
    run.adapt()
    average = AveragedModel(run.model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    for _ in range(2):
        run.train(3)
        average.update_parameters(run.model)
        state = {**run.state(), "ema": adapted.copied(average.state_dict())}
        repo.commit(state, step_size=0.3)
    base = [one for one in repo.show().tensors if one.path.endswith("base.weight")]
    assert len(base) > 4
    assert sum(one.new_bytes for one in base) == 0


def written(repo: Repository, part: str) -> int:
    return sum(one.new_bytes for one in repo.show().tensors if one.path.startswith(f"{part}."))


def beside(seed: int = 0, moved: float = 0.1, sides: tuple[int, int] = (300, 200)) -> dict[str, object]:
    """Weights, and averages of them: each differs by a share of the root mean square."""
    generator = torch.Generator().manual_seed(seed)
    weights = {f"layers.{number}.weight": torch.randn(*sides, generator=generator) for number in range(3)}
    noise = {name: torch.randn(*sides, generator=generator) for name in weights}
    ema = {f"module.{name}": value + moved * noise[name] for name, value in weights.items()}
    return {"model": weights, "ema": ema}


@pytest.mark.parametrize("budget", [None, "8MiB"])
@pytest.mark.parametrize("sides", [(300, 200), (1100, 1000)])
def test_the_first_codes_of_averages_are_near_those_of_their_weights(
    repo: Repository, tmp_path: Path, sides, budget
) -> None:
    if budget is not None:
        repo.config_set("memory.budget", budget)
    state = beside(sides=sides)
    repo.commit({"model": state["model"]}, step_size=0.2)
    repo.commit(state, step_size=0.2)
    first = written(repo, "ema")
    for moved in (0.1, 0.05):
        state = beside(moved=moved, sides=sides)
        repo.commit(state, step_size=0.2)
        lost = repo.checkout()["ema"]
        assert all((lost[name] - one).abs().max() < 0.2 for name, one in state["ema"].items())
    whole = repo.checkout(exact=True)["ema"]
    assert all(torch.equal(whole[name], one) for name, one in state["ema"].items())
    assert repo.fsck().ok
    alone = {"other": {f"{name}.bias": one for name, one in beside(moved=0.1, sides=sides)["ema"].items()}}
    with Repository.init(tmp_path / "alone") as other:
        other.commit(alone, step_size=0.2)
        assert first < (0.6 if budget is None else 1.02) * written(other, "other")
    with Repository.clone(str(tmp_path / "run"), tmp_path / "clone") as clone:
        assert all(torch.equal(lost[name], one) for name, one in clone.checkout()["ema"].items())


def test_a_state_with_its_first_averages_is_one_commit(repo: Repository) -> None:
    repo.commit(beside(), step_size=0.2)
    assert written(repo, "ema") < 0.6 * written(repo, "model")
    assert repo.restore_figures().depth == 1
    assert repo.fsck().ok


def test_averages_that_are_still_the_weights_take_next_to_nothing(repo: Repository, tmp_path: Path) -> None:
    state = beside(moved=0.0)
    whole = repo.commit(state, step_size=0.2)
    with Repository.init(tmp_path / "alone") as other:
        alone = other.commit({"model": state["model"]}, step_size=0.2)
    assert whole.stored_bytes < alone.stored_bytes + 2000
    assert whole.exact_bytes < 1.1 * alone.exact_bytes
