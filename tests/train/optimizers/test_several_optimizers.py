"""Several optimizers in one state: each has its moments kept as it needs, and the commit tells of each."""

import json

import pytest
import torch
from torch import nn
from torch.optim import SGD, AdamW, Muon, Optimizer

from mvcs import Repository
from mvcs.quantize import LatticeConfig, MomentsConfig
from tests.train.optimizers.nets import compared, matrices, net, train

ADAM = {"exp_avg", "exp_avg_sq"}
BOUND = 0.009  # at which AdamW does without its first moments, and Muon does not
ADAM_NAME, SLOW_NAME = "AdamW betas=0.9,0.95", "AdamW betas=0.9,0.999"


class Both:
    """Steps two optimizers as one."""

    def __init__(self, *optimizers: Optimizer) -> None:
        self.optimizers = optimizers

    def zero_grad(self) -> None:
        for one in self.optimizers:
            one.zero_grad()

    def step(self) -> None:
        for one in self.optimizers:
            one.step()

    def state_of(self, model: nn.Module) -> dict[str, object]:
        return {"model": model.state_dict(), "optimizers": [one.state_dict() for one in self.optimizers]}


def mixed(model: nn.Module) -> Both:
    """Muon for the first matrix, AdamW for all others."""
    own = matrices(model)[0]
    rest = [one for one in model.parameters() if one is not own]
    return Both(Muon([own]), AdamW(rest, betas=(0.9, 0.95)))


def tiers(repo: Repository) -> object:
    return json.loads(repo.show().provenance.get("moment tiers", "null"))


@pytest.fixture
def trained():
    model = net()
    both = mixed(model)
    train(model, both, range(4))
    return model, both


@pytest.mark.parametrize(
    ("bound", "found", "rounded", "shared"),
    [
        (BOUND, {ADAM_NAME: "light", "Muon": "resume"}, {"momentum_buffer"}, "sign"),
        (0.003, {ADAM_NAME: "resume", "Muon": "finer"}, {"momentum_buffer"}, 1.0),
        (0.0015, {ADAM_NAME: "resume", "Muon": "exact"}, set(), "exact"),
        (0.01, None, {"momentum_buffer"}, "carried"),
        (0.05, None, {"momentum_buffer"}, "carried"),
        (0.0001, None, set(), "exact"),
    ],
)
def test_each_has_the_tier_that_it_needs(tmp_path, trained, bound, found, rounded, shared):
    model, both = trained
    state = both.state_of(model)
    with Repository.init(tmp_path / "run") as repo:
        repo.config_set("retention.exact_layers", "0")
        made = repo.commit(state, quantizer=LatticeConfig(step_size=0.05, moments=MomentsConfig.auto(bound)))
        back = repo.checkout()["optimizers"]
        assert made.notes == []
        assert tiers(repo) == found
        assert repo.show().quantizer["first"] == shared
        assert made.left_out == ([] if bound < BOUND else ["first moment"])
    muon, adam = (one["state"] for one in state["optimizers"])
    assert compared(muon, back[0]["state"])[0] == rounded
    assert compared(adam, back[1]["state"])[0] == (ADAM if bound > 0.001 else set())
    left_out = bound >= BOUND
    assert all((kept["exp_avg"] == 0).all().item() is left_out for kept in back[1]["state"].values())
    assert (back[0]["state"][0]["momentum_buffer"] == 0).all().item() is (bound > BOUND)


def test_weights_carry_the_momentum_that_is_left_out_and_no_other(tmp_path, trained):
    model, both = trained
    restored = []
    for name, moments in (("auto", MomentsConfig.auto(BOUND)), ("resume", MomentsConfig.RESUME)):
        with Repository.init(tmp_path / name) as repo:
            repo.config_set("retention.exact_layers", "0")
            repo.commit(both.state_of(model), quantizer=LatticeConfig(step_size=0.01, moments=moments))
            restored.append(repo.checkout()["model"])
    assert torch.equal(restored[0]["0.weight"], restored[1]["0.weight"])
    assert not torch.equal(restored[0]["2.weight"], restored[1]["2.weight"])


def test_training_goes_on_from_it(tmp_path, trained):
    model, both = trained
    with Repository.init(tmp_path / "run") as repo:
        repo.config_set("retention.exact_layers", "0")
        repo.commit(both.state_of(model), step_size=0.01, moments="auto")
        back = repo.checkout()
    before = train(model, both, range(4, 8))
    other = net()
    again = mixed(other)
    other.load_state_dict(back["model"])
    for one, kept in zip(again.optimizers, back["optimizers"], strict=True):
        one.load_state_dict(kept)
    assert train(other, again, range(4, 8)) == pytest.approx(before, rel=0.05)


def test_groups_of_one_optimizer_with_other_betas(tmp_path):
    model = net()
    flat = [one for one in model.parameters() if one.dim() == 1]
    groups = [{"params": matrices(model), "betas": (0.9, 0.999)}, {"params": flat, "betas": (0.9, 0.95)}]
    optimizer = AdamW(groups)
    train(model, optimizer, range(3))
    with Repository.init(tmp_path / "run") as repo:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        repo.commit(state, quantizer=LatticeConfig(step_size=0.05, moments=MomentsConfig.auto(0.006)))
        assert tiers(repo) == {ADAM_NAME: "light", SLOW_NAME: "resume"}


def test_one_of_settings_that_lie_takes_nothing_from_the_other(tmp_path, trained):
    model, both = trained
    state = both.state_of(model)
    state["optimizers"][0]["param_groups"][0]["momentum"] = 1.0
    with Repository.init(tmp_path / "run") as repo:
        repo.config_set("retention.exact_layers", "0")
        [note] = repo.commit(state, step_size=0.05, moments="auto").notes
        assert "momentum=1.0" in note
        back = repo.checkout()["optimizers"]
    assert compared(state["optimizers"][0]["state"], back[0]["state"])[0] == set()
    assert (back[1]["state"][0]["exp_avg"] == 0).all()


def test_what_is_asked_for_by_name_counts_for_all_and_is_told_once(tmp_path):
    model = net()
    first, *rest = model.parameters()
    both = Both(SGD([first], 0.1, momentum=0.9), AdamW(rest))
    train(model, both, range(3))
    with Repository.init(tmp_path / "run") as repo:
        made = repo.commit(both.state_of(model), step_size=0.05, moments="light")
        assert (tiers(repo), made.left_out) == (None, ["first moment"])
        reworded = repo.commit(both.state_of(model), step_size=0.05, moments="auto", message="a")
        assert tiers(repo) == {"SGD momentum=0.9": "resume", SLOW_NAME: "light"}
        assert reworded.left_out == ["first moment"]


@pytest.mark.parametrize("text", ["{[", "[]", '{"AdamW": 3}', "[" * 5000, ""])
def test_a_hostile_record_of_tiers_is_no_error(tmp_path, text):
    with Repository.init(tmp_path / "run") as repo:
        made = repo.commit(
            {"w": torch.randn(40, 40)}, step_size=0.1, provenance={"moment tiers": text}, message="odd"
        )
        assert made.left_out == repo.show().commit.left_out == []
