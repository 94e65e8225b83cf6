"""A repository whose commits hold states, as the training hook makes them: there are no files to speak of."""

import shutil

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from mvcs import Checkpointer
from mvcs.repository import Repository


def train(folder, steps, **bounding):
    """Train on with the hook for some steps; every second one is committed."""
    with Repository.open(folder) as repo:
        torch.manual_seed(0)
        model = torch.nn.Linear(8, 4)
        optimizer = torch.optim.AdamW(model.parameters())
        with Checkpointer(
            repo, model, optimizer, loader=None, every=2, rng=False, **bounding
        ) as checkpointer:
            start = checkpointer.resume()
            for step in range(start, start + steps):
                optimizer.zero_grad()
                model(torch.ones(8)).square().sum().backward()
                optimizer.step()
                checkpointer.after_step(step, metrics={"loss": 9.0 - step})
    return start


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    Repository.init(folder).close()
    train(folder, 6)
    return folder


@pytest.fixture
def hook(console, trained):
    """A repository with three commits of a training hook, of the steps 1, 3 and 5."""
    shutil.copytree(trained, console.folder, dirs_exist_ok=True)
    return console


def test_a_part_is_shown(hook):
    text = hook("show", "HEAD:model").out
    assert "model  part, 144 B" in text
    assert "model.weight" in text
    assert "optimizer" not in text
    found = hook.json("show", "HEAD:optimizer")
    assert (found["format"], found["files"]) == ("part", [])
    assert {tensor["role"] for tensor in found["tensors"]} == {"moment", "other"}
    assert "optimizer.param_groups.0.lr" in found["values"]
    assert hook("show", "HEAD:step").out.endswith("step: 5\n")


def test_a_part_is_written_as_a_model_is_loaded(hook):
    hook("checkout", "HEAD:model", "-o", "model.safetensors")
    assert {name: found.shape for name, found in load_file(hook.folder / "model.safetensors").items()} == {
        "weight": (4, 8),
        "bias": (4,),
    }
    with Repository.open(hook.folder) as repo:
        torch.nn.Linear(8, 4).load_state_dict(repo.checkout("HEAD:model"))
        assert repo.checkout("HEAD:step") == 5


def test_a_value_alone_is_left_out_by_its_name(hook):
    assert "the value itself" in hook("checkout", "HEAD:step", "-o", "step.npz").err


@pytest.mark.parametrize(
    "words",
    [
        ("restore", "model"),
        ("checkout", "HEAD", "model"),
        ("checkout", "HEAD:model"),
        ("rm", "model", "-m", "x"),
        ("mv", "model", "x", "-m", "x"),
    ],
)
def test_a_part_is_no_file(hook, words):
    result = hook(*words, code=3)
    assert "'model' is a part of the state" in result.err
    assert ":model -o model.safetensors' writes that part to a file" in result.err
    hint = result.err.rpartition("'mvcs ")[2].partition("'")[0]
    hook(*hint.split())
    assert (hook.folder / "model.safetensors").exists()


@pytest.mark.parametrize("words", [("restore", "."), ("show", "HEAD:x.pt"), ("rm", "x", "-m", "x")])
def test_a_file_that_a_state_lacks(hook, words):
    result = hook(*words, code=3)
    assert "holds a state, committed from Python, and no file" in result.err
    assert "its parts are model, optimizer" in result.err
    assert ":model -o model.safetensors' writes its model to a file" in result.err


def test_a_state_without_a_model(mvcs):
    with Repository.open(mvcs.folder) as repo:
        repo.commit({"w": np.ones(4), "b": np.ones(4)})
    hint = mvcs("restore", "x", code=3).err.rpartition("'mvcs ")[2].partition("'")[0]
    mvcs(*hint.split())
    assert set(load_file(mvcs.folder / "state.safetensors")) == {"w", "b"}


def test_a_difference_of_a_part(hook):
    found = hook.json("diff", "HEAD~1", "HEAD", "model")
    assert {tensor["path"] for tensor in found["tensors"]} == {"model.weight", "model.bias"}
    assert [part["path"] for part in hook.json("diff", "--stat", "HEAD~1", "HEAD", "step")] == ["step"]
    assert len(hook.json("log", "step")) == 3
    assert len(hook.json("log", "scheduler")) == 1
