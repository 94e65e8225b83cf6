"""A commit that leaves a mechanism out restores what it says all the same."""

from dataclasses import fields

import numpy as np
import pytest
import torch

from mvcs import Repository
from mvcs.commits.request import ALL, Mechanisms
from mvcs.errors import UsageError
from mvcs.local.place import find
from mvcs.local.trust import Trust

ROWS, COLUMNS, COMMITS = 64, 400, 6
NAMES = [each.name.replace("_", "-") for each in fields(Mechanisms)]


def states(pace=0.0):
    """A matrix that goes to and fro, and on at some pace, its optimizer, and one that repeats itself."""
    torch.manual_seed(0)
    model = torch.nn.Linear(COLUMNS, ROWS, bias=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95))
    start = model.weight.detach().clone()
    for number in range(COMMITS):
        model.weight.grad = torch.randn(ROWS, COLUMNS)
        optimizer.step()
        model.weight.data = start + number * pace + 0.02 * torch.randn(ROWS, COLUMNS)
        repeated = torch.arange(100, dtype=torch.float32).repeat(200)
        yield {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "repeated": repeated}


def history(place, *without, pace=0.0):
    """Return what six bounded commits record and restore, and how exact weights come back."""
    Repository.init(place).close()
    with Repository(find(str(place), None, Trust.of_user()), mechanisms=Mechanisms.without(without)) as repo:
        made = []
        for state in states(pace):
            info = repo.commit(state, step_size=0.5, moments="light")
            value = repo.checkout(info.id, numpy=True)
            exact = repo.checkout(info.id, exact=True, numpy=True)
            weight = state["model"]["weight"].numpy()
            assert np.array_equal(exact["model"]["weight"], weight)
            assert np.array_equal(exact["optimizer"]["state"][0]["exp_avg_sq"].shape, weight.shape)
            off = np.abs(value["model"]["weight"] - weight).max()
            assert off <= info.errors["weight"]["max_abs"] * (1 + 1e-6)
            made.append((info, repo.show(info.id), value))
        assert repo.fsck().problems == []
    return made


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return history(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("name", NAMES)
def test_a_history_without_one_restores_as_it_says(name, tmp_path):
    assert len(history(tmp_path, name)) == COMMITS


def test_first_moments_are_left_out_and_not_carried(whole, tmp_path):
    found = history(tmp_path, "carried-momentum")
    assert whole[-1][1].quantizer["first"] == "carried"
    assert found[-1][1].quantizer["first"] == "absent"
    assert not np.array_equal(whole[-1][2]["model"]["weight"], found[-1][2]["model"]["weight"])


def test_weights_that_go_nowhere_are_followed_without_the_gate(whole, tmp_path):
    found = history(tmp_path, "drift-gate")
    assert whole[-1][0].errors["pace"]["drift"] < 0.05
    assert not any("pace" in info.errors for info, _, _ in found)
    assert not np.array_equal(whole[-1][2]["model"]["weight"], found[-1][2]["model"]["weight"])


def test_weights_that_go_somewhere_are_not_followed_without_keeping_pace(tmp_path):
    whole = history(tmp_path / "whole", pace=0.05)
    found = history(tmp_path / "without", "keep-pace", pace=0.05)
    assert whole[-1][0].errors["pace"]["drift"] > 0.05
    assert not np.array_equal(whole[-1][2]["model"]["weight"], found[-1][2]["model"]["weight"])


def test_what_is_not_known_is_refused():
    assert Mechanisms.without([]) == ALL
    with pytest.raises(UsageError, match="a mechanism cannot be 'snap-back'"):
        Mechanisms.without(["keep-pace", "snap-back"])
