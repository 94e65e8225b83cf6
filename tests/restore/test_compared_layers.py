"""A comparison sets like beside like, says what it compares, and tells rounding from a move."""

import copy

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from mvcs import Repository
from mvcs.errors import NotFoundError


def trained():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(48, 40), torch.nn.LayerNorm(40), torch.nn.Linear(40, 32))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(16, 48)).square().mean().backward()
        optimizer.step()
    return copy.deepcopy({"model": model.state_dict(), "optimizer": optimizer.state_dict()})


def nudged(state):
    """The same state, every float off by what no quantizer can see."""
    found = copy.deepcopy(state)
    for part in (found["model"], *found["optimizer"]["state"].values()):
        for value in part.values():
            if value.numel() > 1:
                value.mul_(1 + 2**-22)
    return found


@pytest.fixture
def repo(tmp_path):
    with Repository.init(tmp_path / "run") as repository:
        yield repository


@pytest.mark.parametrize(
    "quantizer",
    [
        {"step_size": 0.5, "moments": "light"},
        {"step_size": 0.5, "moments": "resume"},
        {"bins": 16},
    ],
)
def test_what_a_quantizer_did_is_no_move(repo, quantizer):
    state = trained()
    repo.commit(state, message="exact")
    repo.commit(nudged(state), message="bounded", **quantizer)
    found = repo.diff("HEAD~1", "HEAD", exact=False)
    assert (found.left_layer, found.right_layer) == ("exact", "value")
    assert {tensor.cause for tensor in found.tensors} <= {"rounding", "left out"}
    assert any(tensor.changed_fraction > 0.9 for tensor in found.tensors)
    moved = nudged(state)
    moved["model"]["0.weight"][3, 5] += 10
    repo.commit(moved, message="moved", **quantizer)
    by_path = {tensor.path: tensor for tensor in repo.diff("HEAD~2", "HEAD", exact=False).tensors}
    assert by_path["model.0.weight"].cause is None
    assert 0 < by_path["model.0.weight"].moved_fraction < 0.01
    assert by_path["model.2.weight"].cause == "rounding"


def test_exact_values_are_compared_where_both_sides_have_them(repo):
    state = trained()
    for number in range(4):
        state["model"]["0.weight"][0, 0] = number
        repo.commit(state, message=f"{number}", step_size=0.5)
    found = repo.diff("HEAD~1", "HEAD")
    assert (found.left_layer, found.right_layer) == ("exact", "exact")
    (tensor,) = found.tensors
    assert tensor.moved_fraction == tensor.changed_fraction == 1 / 1920
    assert tensor.role == "weight"
    dropped = repo.diff("HEAD~3", "HEAD")
    assert (dropped.left_layer, dropped.right_layer) == ("value", "value")
    assert repo.diff("HEAD~1", "HEAD", exact=False).left_layer == "value"
    with pytest.raises(NotFoundError, match="exact layer"):
        repo.diff("HEAD~3", "HEAD", exact=True)


def test_means_of_rows_and_columns_move_beside_their_like(repo):
    state = trained()
    repo.commit(state, message="one", step_size=0.5, moments="light")
    state["optimizer"]["state"][0]["exp_avg_sq"] *= 3
    repo.commit(state, message="two", step_size=0.5, moments="light")
    (tensor,) = repo.diff("HEAD~1", "HEAD", exact=False).tensors
    assert tensor.path == "optimizer.state.0.exp_avg_sq"
    assert tensor.cause is None
    assert tensor.relative == pytest.approx(2, rel=0.2)


def test_restored_files_are_compared_with_what_was_restored(tmp_path):
    path = tmp_path / "run" / "model.safetensors"
    with Repository.init(tmp_path / "run") as repo:
        for number in range(2):
            weights = np.random.default_rng(number).normal(size=(64, 48)).astype(np.float32)
            save_file({"w": weights, "v": weights[:8] + 1}, path)
            repo.commit_files([path], message="one", step_size=0.5)
        assert repo.diff("HEAD~1").left_layer == "exact"
        repo.checkout_files("HEAD")
        found = repo.diff()
        assert (found.left_layer, found.right_layer, found.tensors) == ("value", "files", [])
        assert {tensor.cause for tensor in repo.diff(exact=True).tensors} == {"rounding"}
        restored = load_file(path)
        restored["w"][0, 0] += 3
        save_file(restored, path)
        (tensor,) = repo.diff().tensors
        assert tensor.changed_fraction == pytest.approx(1 / 3072)
        repo.checkout_files("HEAD", exact=True, force=True)
        assert (repo.diff().left_layer, repo.diff().tensors) == ("exact", [])
