"""A name that is none of a file, a folder or a part of a state: it may be a tensor's, or nobody's."""

import shlex

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from mvcs import Repository
from mvcs.errors import NotFoundError


@pytest.fixture
def states(mvcs):
    """Two commits of a state, in which two tensors are tied, and one name has a bracket."""
    with Repository.open(mvcs.folder) as repo:
        for step in range(2):
            shared = torch.full((4, 4), float(step), dtype=torch.bfloat16)
            model = {"wte.weight": shared, "head.weight": shared, "b[0].bias": torch.ones(3) + step}
            repo.commit({"model": model, "step": step}, message=f"step {step}")
    return mvcs


@pytest.fixture
def files(mvcs):
    """Two commits of files whose tensors have one name, of which only one file changes."""
    for step in range(2):
        for name in ("a.safetensors", "deep/b.safetensors"):
            path = mvcs.folder / name
            path.parent.mkdir(exist_ok=True)
            moved = np.float32(step if name[0] == "a" else 0)
            save_file({"layers.0.bias": np.zeros(4, np.float32) + moved}, path)
        mvcs("commit", ".", "-m", f"step {step}")
    return mvcs


NOWHERE = "nosuchthing"


@pytest.mark.parametrize("short", [(), ("--stat",)])
def test_a_difference_of_nothing_there_is(states, short):
    error = states("diff", "--json", "HEAD~1", "HEAD", *short, "--", NOWHERE, "x", code=3).error
    assert error["message"] == "neither side has a file, a folder or a part named 'nosuchthing' or 'x'"
    assert "a part of a state, such as 'model'; 'mvcs diff ... --all' lists each tensor" in error["hint"]
    assert "did you mean 'model'?" in states("diff", "HEAD~1", "HEAD", *short, "--", "modle", code=3).err
    error = states("diff", "--json", "HEAD~1", *short, "--", "model.wte.weight", code=3).error
    assert error["message"].startswith("'model.wte.weight' names tensors, and only files")
    assert error["hint"] == "this lists each tensor in 'model': mvcs diff ... --all -- model"
    states("diff", "HEAD~1", "HEAD", "--all", "--", "model")


def test_a_difference_of_a_file_that_neither_side_has(files):
    result = files("diff", "HEAD~1", "HEAD", "--", "aa.safetensors", code=3)
    assert "neither side has a file, a folder or a part named 'aa.safetensors'" in result.err
    assert "did you mean 'a.safetensors'?" in result.err
    assert "did you mean 'deep'?" in files("diff", "--", "depe", code=3).err
    assert "mvcs diff ... --all -- a.safetensors" in files("diff", "--", "layers.0.bias", code=3).err


def test_one_name_that_is_there_is_enough_and_so_is_one_side(files):
    assert "no difference" in files("diff", "HEAD~1", "HEAD", "--", "deep", NOWHERE).out
    (files.folder / "new.txt").write_text("no commit has it yet")
    assert "no difference" in files("diff", "--", "new.txt").out
    assert "neither side" in files("diff", "HEAD~1", "HEAD", "--", "new.txt", code=3).err
    files("commit", "new.txt", "--plain", "-m", "new")
    for words in (("HEAD~1", "HEAD"), ("HEAD", "HEAD~1"), ("HEAD~1",)):
        assert "new.txt" in files("diff", *words, "--", "new.txt").out
    (files.folder / "new.txt").unlink()
    files("diff", "HEAD~2", "--", "new.txt")
    files("diff", "HEAD~2", "--", ".")
    files("log", "-p", "--", "new.txt")
    files("log", "--stat", "--", "new.txt")
    files("log", "-p", "--", NOWHERE)
    with Repository.open(files.folder) as repo, pytest.raises(NotFoundError, match="neither side"):
        repo.changed_files("HEAD~1", "HEAD", files=[files.folder / NOWHERE])


@pytest.mark.parametrize(
    ("name", "said", "found"),
    [
        ("model.head.weight", "a tensor", {"model.wte.weight", "model.head.weight"}),
        ("model.b[0].bias", "a tensor", {"model.b[0].bias"}),
        ("model.wte", "several tensors", {"model.wte.weight", "model.head.weight"}),
    ],
)
@pytest.mark.parametrize("words", [("show",), ("checkout",), ("checkout", "-o", "h.npz")])
def test_a_tensor_behind_the_colon_is_written_as_the_hint_says(states, words, name, said, found):
    error = states(words[0], f"HEAD:{name}", *words[1:], "--json", code=3).error
    assert f"has no file '{name}', which names {said}" in error["message"]
    _, *typed = shlex.split(error["hint"].partition(": ")[2])
    states(*typed)
    written = states.folder / "FILE.safetensors"
    with written.open("rb") as file:
        header = file.read()
    assert all(f'"{one}"'.encode() in header for one in found)


@pytest.mark.parametrize(
    "name", ["a.safetensors.layers.0.bias", "layers.0.bias", "layers", "deep/b.safetensors.layers.0"]
)
def test_a_tensor_of_a_file_behind_the_colon_is_written_as_the_hint_says(files, name):
    hint = files("show", f"HEAD:{name}", "--json", code=3).error["hint"]
    _, *typed = shlex.split(hint.partition(": ")[2])
    files(*typed)
    assert set(load_file(files.folder / "FILE.safetensors")) == {"layers.0.bias"}
