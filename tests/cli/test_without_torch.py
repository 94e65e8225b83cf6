"""Reading and restoring where torch is not installed: of a repository that was written where it is."""

import json
import shutil
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from safetensors.torch import save_file

from mvcs.repository import Repository
from mvcs.train import Checkpointer
from tests.train.runs import Run

# Each line of the input is a command; each line of the answer is its exit code and what it printed.
COMMANDS = """
import contextlib, io, json, os, site, sys
site.addsitedir(sys.argv[1])
from mvcs.cli import main
for line in sys.stdin:
    folder, *words = json.loads(line)
    os.chdir(folder)
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
        out.flush(), err.flush()
    print(json.dumps([code, out.buffer.getvalue().decode(), err.buffer.getvalue().decode()]))
"""
IN_PYTHON = """
import site, sys
site.addsitedir(sys.argv[1])
import numpy as np
import mvcs
with mvcs.Repository.open("run") as repo:
    state = repo.checkout(numpy=True)
    np.savez("state.npz", weight=state["model"]["0.weight"], step=state["step"])
    kept = repo.restore(numpy=True)
    np.savez("kept.npz", weight=kept.state["model"]["0.weight"])
    print(sorted(repo.checkout(numpy=True, tensors="model.0.*")), kept.layer)
    for ask in (repo.checkout, repo.restore, lambda: repo.checkout(tensors="model.0.*")):
        try:
            ask()
        except mvcs.UsageError as error:
            print(f"{error.message}; {error.hint}")
with mvcs.Repository.open("files") as repo:
    print(repo.checkout("constants", numpy=True))
    print(repo.checkout("HEAD:m.pt", numpy=True)["m.pt"]["size"])
print("torch" in sys.modules)
"""


@pytest.fixture(scope="module")
def site_packages(tmp_path_factory):
    """A folder of all that is installed here, but torch and what is built on it."""
    folder = tmp_path_factory.mktemp("site-packages")
    for path in (path for place in sys.path for path in Path(place).glob("*")):
        paths_alone = path.suffix == ".pth" and "import" not in path.read_text()
        wanted = path.parent.name == "site-packages" and "torch" not in path.name and not paths_alone
        if wanted and not (folder / path.name).exists():
            (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A training run of three bounded commits, and commits of a state and of files of every format."""
    top = tmp_path_factory.mktemp("written")
    write_run(top / "run")
    write_files(top / "files")
    return top


def write_run(folder):
    run = Run()
    with (
        Repository.init(folder) as repo,
        Checkpointer(repo, *run.parts, run.scheduler, loader=run.data, every=1, bins=16) as checkpointer,
    ):
        for step in range(3):
            x, y = run.data.next()
            run.optimizer.zero_grad()
            torch.nn.functional.mse_loss(run.model(x), y).backward()
            run.optimizer.step()
            run.scheduler.step()
            checkpointer.after_step(step, metrics={"loss": 1.0})


def write_files(folder):
    constants = {"kind": torch.bfloat16, "device": torch.device("cpu"), "size": torch.Size([2, 3])}
    with Repository.init(folder) as repo:
        repo.commit({"n": 1} | constants, message="constants")
        repo.create_tag("constants")
        for seed in range(2):
            weights = torch.randn(40, 30, generator=torch.Generator().manual_seed(seed))
            saved = {
                "weight": torch.nn.Parameter(weights),
                "half": weights.bfloat16(),
                "names": OrderedDict(a=1),
            }
            torch.save(saved | constants, folder / "m.pt")
            save_file({"weight": weights, "half": weights.bfloat16()}, folder / "m.safetensors")
            np.savez(folder / "m.npz", weight=weights.numpy())
            named = [folder / name for name in ("m.pt", "m.safetensors", "m.npz")]
            repo.commit_files(named, message=f"files {seed}")


@pytest.fixture
def without_torch(site_packages, written, tmp_path):
    """Runs commands in copies of both repositories, in one process that cannot import torch."""
    shutil.copytree(written, tmp_path / "here")

    def run(*lines):
        typed = "".join(json.dumps([str(tmp_path / "here" / line[0]), *line[1:]]) + "\n" for line in lines)
        words = [sys.executable, "-S", "-c", COMMANDS, str(site_packages)]
        done = subprocess.run(words, input=typed, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    run.here = tmp_path / "here"
    return run


def test_torch_is_not_there(site_packages):
    program = f"import site; site.addsitedir({str(site_packages)!r}); import mvcs, torch"
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'torch'"


def test_a_history_is_read(without_torch):
    looks = [
        *[("log",), ("log", "--graph", "--stat"), ("log", "-p"), ("log", "--json"), ("show",)],
        *[("show", "HEAD~1", "--json"), ("show", "--all"), ("diff", "HEAD~1", "HEAD")],
        *[
            ("diff", "HEAD~1", "HEAD", "--json"),
            ("reflog",),
            ("branch",),
            ("tag",),
            ("fsck",),
            ("gc",),
            ("stats",),
            ("why", "HEAD"),
        ],
    ]
    lines = [(folder, *words) for folder in ("run", "files") for words in looks]
    lines += [("run", "status"), ("run", "show", "HEAD:model"), ("files", "show", "HEAD:m.pt")]
    answers = without_torch(*lines)
    assert [code for code, _, _ in answers] == [0] * len(lines), answers
    assert "model.0.weight" in answers[looks.index(("show", "--all"))][1]


def test_tensors_are_written_to_safetensors_and_npz(without_torch):
    lines = [
        ("run", "checkout", "HEAD:model", "-o", "m.safetensors"),
        ("run", "checkout", "HEAD", "--exact", "-o", "all.npz"),
        ("files", "checkout", "HEAD:m.pt", "-o", "x.safetensors"),
        ("files", "checkout", "HEAD:m.pt", "-o", "x.npz", "--tensor", "weight"),
        ("files", "checkout", "HEAD:m.safetensors", "-o", "y.safetensors"),
        ("files", "restore", "-s", "HEAD~1", "m.npz", "m.safetensors"),
    ]
    answers = without_torch(*lines)
    assert [code for code, _, _ in answers] == [0] * len(lines), answers
    files = without_torch.here / "files"
    with Repository.open(without_torch.here / "run") as repo:
        values = repo.checkout(tensors="model.0.weight")["model.0.weight"]
        exact = repo.checkout(exact=True)["model"]["0.weight"]
    assert np.array_equal(load_file(files.parent / "run/m.safetensors")["0.weight"], values)
    assert np.array_equal(np.load(files.parent / "run/all.npz")["model.0.weight"], exact)
    weights = torch.load(files / "m.pt", weights_only=True)["weight"].detach()
    assert np.array_equal(np.load(files / "x.npz")["weight"], weights)
    assert not np.array_equal(np.load(files / "m.npz")["weight"], weights)


def test_a_run_is_cloned(without_torch):
    answers = without_torch(
        ("", "clone", "run", "cloned"), ("cloned", "checkout", "HEAD:model", "-o", "m.npz")
    )
    assert [code for code, _, _ in answers] == [0, 0], answers


def test_states_are_arrays_in_python(without_torch, site_packages):
    here = without_torch.here
    words = [sys.executable, "-S", "-c", IN_PYTHON, str(site_packages)]
    done = subprocess.run(words, cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    refused = "a state of torch tensors needs torch, which is not installed"
    assert done.stdout.splitlines() == [
        "['model.0.bias', 'model.0.weight'] exact",
        *[f"{refused}; numpy=True gives arrays, and needs no torch"] * 3,
        "{'n': 1, 'kind': 'bfloat16', 'device': 'cpu', 'size': (2, 3)}",
        "(2, 3)",
        "False",
    ]
    with Repository.open(here / "run") as repo:
        assert np.array_equal(np.load(here / "state.npz")["weight"], repo.checkout()["model"]["0.weight"])
        kept = repo.restore().state["model"]["0.weight"]
        assert np.array_equal(np.load(here / "kept.npz")["weight"], kept)


WRITTEN = "tensors are written without to a file that ends in .safetensors or .npz"
TRAINS = "'pip install torch'; reading a history and restoring arrays need none"


REFUSED = [
    (("run", "checkout", "HEAD", "-o", "x.pt"), "writing a file of torch.save", WRITTEN),
    (("run", "checkout", "HEAD", "-o", "x.pt", "--tensor", "*"), "writing a file of torch.save", WRITTEN),
    (("files", "bench", "make", "gpt", "out"), "this command", TRAINS),
]


def test_what_needs_torch_says_so_and_leaves_nothing(without_torch):
    before = contents(without_torch.here)
    answers = without_torch(*(line for line, _, _ in REFUSED))
    for (line, what, instead), (code, out, said) in zip(REFUSED, answers, strict=True):
        expected = [f"mvcs: error: {what} needs torch, which is not installed", f"hint: {instead}"]
        assert (line, code, out, said.splitlines()[-2:]) == (line, 2, "", expected)
    assert contents(without_torch.here) == before
    ((_, out, said), (_, log, _)) = without_torch((*REFUSED[0][0], "--json"), ("files", "log", "--json"))
    assert (out, json.loads(said.splitlines()[-1])["error"]["kind"]) == ("", "usage")
    assert len(json.loads(log)) == 3


def contents(here):
    """Return all files of both folders; what mvcs keeps is its own matter."""
    paths = [path for name in ("run", "files") for path in (here / name).glob("**/*")]
    return {path: path.read_bytes() for path in paths if path.is_file() and ".mvcs" not in path.parts}


def test_a_clone_has_files_of_torch_too_byte_for_byte(without_torch):
    answers = without_torch(
        ("", "clone", "files", "x"),
        ("x", "checkout", "HEAD:m.pt", "-o", "m.npz.safetensors"),
        ("x", "checkout", "HEAD:m.pt", "-o", "copy.pt"),
    )
    assert [code for code, _, _ in answers] == [0, 0, 0], answers
    made = without_torch.here / "x"
    for name, other in (("m.pt", "m.pt"), ("copy.pt", "m.pt"), ("m.safetensors", "m.safetensors")):
        assert (made / name).read_bytes() == (without_torch.here / "files" / other).read_bytes()


def test_a_file_of_torch_is_committed_and_comes_back_byte_for_byte(without_torch):
    files = without_torch.here / "files"
    shutil.copy(files / "m.pt", files / "other.pt")
    answers = without_torch(
        ("files", "commit", "other.pt", "-m", "again"),
        ("files", "checkout", "HEAD:other.pt", "-o", "copy.pt"),
    )
    assert [code for code, _, _ in answers] == [0, 0], answers
    assert (files / "copy.pt").read_bytes() == (files / "m.pt").read_bytes()


def test_status_tells_whether_a_file_of_torch_changed(without_torch):
    files = without_torch.here / "files"
    (files / "m.pt").touch()
    ((_, listed, _),) = without_torch(("files", "status", "--json"))
    assert json.loads(listed)["problems"] == []


def test_a_file_of_torch_that_is_as_committed_is_written_over(without_torch):
    (without_torch.here / "files" / "m.pt").touch()
    ((code, _, said),) = without_torch(("files", "restore", "-s", "HEAD~1", "m.pt"))
    assert (code, said) == (0, "")
