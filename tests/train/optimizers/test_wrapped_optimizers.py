"""Optimizers in wrappers, and others with a state of their own form: found, or kept with one note."""

import pytest
import torch
from torch import nn

from mvcs import Repository
from tests.train.optimizers.nets import committed

ADAM = {"exp_avg", "exp_avg_sq"}


class Wrapper:
    """What all of these have in common: a base that steps."""

    def __init__(self, model, **settings):
        self.base = torch.optim.AdamW(model.parameters(), **settings)

    def zero_grad(self):
        self.base.zero_grad()

    def step(self):
        self.base.step()


class Sam(Wrapper):
    """Has the form of an optimizer, and its base beside it."""

    def state_dict(self):
        held = self.base.state_dict()
        old = {key: {"old_p": value["exp_avg"] + 1} for key, value in held["state"].items()}
        return {"state": old, "param_groups": held["param_groups"], "base": held}

    def load_state_dict(self, state):
        self.base.load_state_dict(state["base"])


class Lookahead(Wrapper):
    """Has the groups of an optimizer, and two states."""

    def state_dict(self):
        held = self.base.state_dict()
        slow = {key: {"slow_state": value["exp_avg"] + 1} for key, value in held["state"].items()}
        return {"fast_state": held["state"], "slow_state": slow, "param_groups": held["param_groups"]}

    def load_state_dict(self, state):
        self.base.load_state_dict({"state": state["fast_state"], "param_groups": state["param_groups"]})


class Own(Wrapper):
    """Has a form of its own, in which the names mean what they do elsewhere or do not."""

    def state_dict(self):
        return {"moments": self.base.state_dict()["state"], "betas": (1.0, 1.0)}

    def load_state_dict(self, state):
        groups = self.base.state_dict()["param_groups"]
        self.base.load_state_dict({"state": state["moments"], "param_groups": groups})


class Odd(Sam):
    """Tells of settings that no run has."""

    def state_dict(self):
        state = super().state_dict()
        for group in state["base"]["param_groups"]:
            group["betas"] = (0.9, 1.0)
        return state


@pytest.mark.parametrize("moments", ["resume", "light", "auto"])
def test_what_a_wrapper_wraps_is_found(tmp_path, moments):
    def made(model):
        return Sam(model, betas=(0.9, 0.95))

    found = committed(tmp_path / "run", made, moments=moments, inner=("base", "state"))

    assert found.rounded == ADAM
    [note] = found.commit.notes
    assert note.startswith("the optimizer that keeps old_p is not known: its moments are kept exactly")
    assert "AdamW betas=0.9,0.95" in found.optimizer


@pytest.mark.parametrize("moments", ["resume", "light", "auto"])
def test_settings_count_inside_of_a_wrapper(tmp_path, moments):
    found = committed(tmp_path / "run", Odd, moments=moments, inner=("base", "state"))

    assert found.rounded == set()
    assert sum("the Adam with betas=(0.9, 1.0)" in note for note in found.commit.notes) == 1


@pytest.mark.parametrize("moments", ["resume", "light", "auto"])
@pytest.mark.parametrize(
    ("made", "inner", "names"),
    [
        (Lookahead, ("fast_state",), ["exp_avg", "exp_avg_sq", "slow_state"]),
        (Lookahead, ("slow_state",), ["exp_avg", "exp_avg_sq", "slow_state"]),
        (Own, ("moments",), ["exp_avg", "exp_avg_sq"]),
    ],
)
def test_what_has_another_form_is_kept_with_one_note(tmp_path, made, inner, names, moments):
    found = committed(tmp_path / "run", made, moments=moments, inner=inner)

    assert found.rounded == set()
    [note] = found.commit.notes
    assert note.startswith(f"the optimizer that keeps {', '.join(names)} is not known: its moments are kept")
    assert found.optimizer == f"unknown ({', '.join(names)}; kept exactly)"


def test_what_has_another_form_can_be_described(tmp_path):
    kinds = {"exp_avg": "first", "exp_avg_sq": "second"}
    found = committed(tmp_path / "run", Own, moments=kinds, inner=("moments",))

    assert (found.rounded, found.commit.notes) == (ADAM, [])
    assert found.tier == ("sign", 2.0)
    assert found.optimizer == "unknown (exp_avg, exp_avg_sq; described)"
    assert found.after[0] == pytest.approx(found.before[0], rel=0.02)


def test_what_stands_under_numbers_is_called_by_the_name_before(tmp_path):
    class Bare(Lookahead):
        def state_dict(self):
            state = super().state_dict()
            return {
                **state,
                "slow_state": {key: one["slow_state"] for key, one in state["slow_state"].items()},
            }

    names = ["exp_avg", "exp_avg_sq", "slow_state"]
    with Repository.init(tmp_path / "run") as repo:
        model = nn.Linear(128, 128)
        optimizer = Bare(model)
        for parameter in optimizer.base.param_groups[0]["params"]:
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        commit = repo.commit(state, step_size=0.01, moments="resume")
        shortfall = repo.show().shortfall
    [note] = commit.notes
    assert note.startswith(f"the optimizer that keeps {', '.join(names)} is not known")
    assert all(name in shortfall.told for name in names)
    assert "more)" not in shortfall.told
