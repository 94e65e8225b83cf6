"""Kills, rot, faults, files rewritten under a commit, strangers: a few rounds here, all in `make soak`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def told(kind: str, rounds: int, seed: int, folder: Path) -> dict[str, Any]:
    """Run trials in a process of their own, and return what came out."""
    command = [sys.executable, "-m", "tests.soak.run", kind, str(rounds), str(seed), str(folder / "trials")]
    (folder / "trials").mkdir()
    # Each thread takes address space for memory of its own: two such parts do.
    environment = {**os.environ, "MALLOC_ARENA_MAX": "2"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    sys.stdout.write(done.stdout)
    found = json.loads(done.stdout)
    assert found["seen"]
    return found


def test_some_rounds(tmp_path: Path) -> None:
    assert told("some", 1, 1, tmp_path)["broken"] == []


@pytest.mark.soak
@pytest.mark.parametrize(
    ("kind", "rounds"),
    [
        ("kills", 300),
        ("rot", 600),
        ("corrupted", 500),
        ("faults", 100_000),  # all there are
        ("rewritten", 200),
        ("strangers", 1000),
        ("together", 200),
        ("mutants", 20_000),
    ],
)
def test_all_rounds(tmp_path: Path, kind: str, rounds: int) -> None:
    found = told(kind, rounds, 2, tmp_path)
    assert found["broken"] == []
    assert found["slowest"] < 10
