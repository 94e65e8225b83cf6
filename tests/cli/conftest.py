"""A command line as a user has it, and real checkpoint files to put under version control."""

import contextlib
import io
import json
import re
import secrets
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from mvcs.cli import main


def pytest_addoption(parser):
    parser.addoption(
        "--regenerate", action="store_true", help="write the golden help and docs/commands.md again"
    )


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self):
        return self.raw.decode()

    @property
    def json(self):
        return json.loads(self.raw)

    @property
    def error(self):
        """The error of a command that was asked for JSON."""
        assert self.raw == b""
        return json.loads(self.err.splitlines()[-1])["error"]


class Console:
    """Runs commands in a folder, in this process."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def __call__(self, *words, code=0):
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            found = main([str(word) for word in words])
            err.flush()
        result = Result(found, out.buffer.getvalue(), err.buffer.getvalue().decode())
        assert result.code == code, f"mvcs {words}: {result}"
        return result

    def json(self, *words, code=0):
        return self(*words, "--json", code=code).json

    def model(self, name="model.safetensors", *, seed=0, shift=0.0):
        """Write a small checkpoint as another library would."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors(seed, shift), path, metadata={"format": "pt"})
        return path

    def commit(self, message="a state", *words, seed=0, shift=0.0):
        """Write a model, commit it, and return the commit as JSON."""
        self.model(seed=seed, shift=shift)
        return self.json("commit", "model.safetensors", "-m", message, *words)

    def packs(self):
        return sorted((self.folder / ".mvcs" / "packs").rglob("*.pack"))


def tensors(seed=0, shift=0.0):
    generator = np.random.default_rng(seed)
    weights = generator.normal(size=(2, 64, 48)).astype(np.float32)
    return {
        "blocks.0.weight": weights[0] + np.float32(shift),
        "blocks.1.weight": weights[1],
        "blocks.1.bias": np.zeros(48, np.float32),
        "steps": np.array([seed], np.int64),
    }


@pytest.fixture
def console(tmp_path):
    """A folder that is no repository."""
    folder = tmp_path / "run"
    folder.mkdir()
    return Console(folder)


@pytest.fixture(scope="session")
def empty(tmp_path_factory):
    """A folder whose repository has no commit. To be copied."""
    made = Console(tmp_path_factory.mktemp("empty"))
    made("init")
    made("config", "user.name", "Ada Lovelace")
    return made.folder


@pytest.fixture
def mvcs(empty, console):
    """A folder that is a repository."""
    shutil.copytree(empty, console.folder, dirs_exist_ok=True)
    # Under the ids of another one, values of other tests would count as its own.
    described = console.folder / ".mvcs" / "mvcs.json"
    described.write_text(re.sub("[0-9a-f]{32}", lambda _: secrets.token_hex(16), described.read_text()))
    return console


@pytest.fixture(scope="session")
def five_commits(tmp_path_factory):
    """A folder whose repository has five bounded commits: three on main, two more on side. To be copied."""
    made = Console(tmp_path_factory.mktemp("five"))
    made("init")
    made("config", "user.name", "Ada Lovelace")
    for step in range(3):
        made.commit(
            f"step {step}", "--step", step, "--metric", f"loss={3 - step}", "--bins", 16, shift=step / 100
        )
    made("switch", "-c", "side", "main~1")
    for step in (5, 6):
        made.commit(f"side {step}", "--step", step, "--metric", "loss=nan", "--bins", 16, shift=step / 100)
    return made.folder


@pytest.fixture
def history(five_commits, console):
    """A repository with five bounded commits: three on main, two more on side."""
    shutil.copytree(five_commits, console.folder, dirs_exist_ok=True)
    return console


@pytest.fixture
def elsewhere(tmp_path):
    """Another folder."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return Console(folder)


@pytest.fixture
def python():
    return sys.executable
