"""A command loads what it needs and no more."""

import json
import os
import subprocess

import pytest
import torch

from mvcs.cli.group import NAMES

HEAVY = {"alembic", "aiobotocore", "rich", "s3fs", "sqlalchemy", "torch"}
PROGRAM = """
import json, sys
from mvcs.cli import main
code = main(sys.argv[1:])
ours = sorted(name for name in sys.modules if name.startswith("mvcs."))
print(json.dumps([code, sorted({name.partition(".")[0] for name in sys.modules}), ours]), file=sys.stderr)
"""


def loaded(python, folder, *words):
    done = subprocess.run(
        [python, "-c", PROGRAM, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    code, packages, modules = json.loads(done.stderr.splitlines()[-1])
    assert code == 0, done.stderr
    return set(packages), modules


@pytest.mark.parametrize(
    "words", [("log",), ("log", "--graph", "--oneline"), ("log", "--json"), ("reflog",), ("branch",)]
)
def test_looking_back_loads_nothing_heavy(history, python, words):
    packages, modules = loaded(python, history.folder, *words)
    assert not packages & HEAVY
    commands = [name for name in modules if name.startswith("mvcs.cli.commands.")]
    assert commands == [f"mvcs.cli.commands.{words[0]}"]
    # Nothing is restored or captured: what turns codes into values, and files into leaves, stays away.
    assert not {"mvcs.quantize.restore", "mvcs.checkpoint.files", "mvcs.commits.committer"} & set(modules)


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("commit", "--help")])
def test_help_loads_no_library(console, python, words):
    packages, _ = loaded(python, console.folder, *words)
    assert not packages & (HEAVY | {"numpy", "fsspec", "blake3", "safetensors"})


def test_a_first_commit_loads_no_library_of_databases(console, python):
    console("init")
    console.model()
    packages, _ = loaded(python, console.folder, "commit", "model.safetensors", "-m", "first")
    assert not packages & {"alembic", "sqlalchemy"}
    assert console.json("lineage", "status")["commits"] == 1


FILE_COMMANDS = [
    ("status",),
    ("diff",),
    ("commit", "model.pt", "-m", "second"),
    ("checkout", "HEAD:model.pt", "-o", "copy.pt"),
    ("restore", "--force", "model.pt"),
]


@pytest.mark.parametrize("words", FILE_COMMANDS, ids=lambda words: words[0])
def test_files_of_torch_are_read_and_written_without_it(console, python, words):
    console("init")
    weight = torch.nn.Parameter(torch.arange(5000.0))
    path = console.folder / "model.pt"
    torch.save({"weight": weight, "tied": weight, "half": weight.detach().bfloat16()[::2]}, path)
    console("commit", "model.pt", "-m", "first")
    torch.save({"weight": weight, "tied": weight, "half": weight.detach().bfloat16()[1::2]}, path)
    os.utime(path, (0, 0))
    packages, _ = loaded(python, console.folder, *words)
    assert "torch" not in packages


def test_commands_import_no_torch_by_themselves(python, tmp_path):
    names = [f"mvcs.cli.commands.{name.replace('-', '_')}" for name in NAMES]
    program = f"import importlib, sys; [importlib.import_module(name) for name in {names}]"
    program += f"; assert not {HEAVY!r} & set(sys.modules)"
    subprocess.run([python, "-c", program], cwd=tmp_path, check=True)
