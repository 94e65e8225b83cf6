"""A few bytes that claim to be gigabytes are refused before they cost anything; what fits passes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository
from mvcs.errors import LimitError
from tests.cli import hostile
from tests.cli.conftest import Console

RUN = """
import resource, sys
from mvcs.cli import main
code = main(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_SELF)
print("USED", code, used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)
"""
SECONDS, KILOBYTES = 1.0, 100_000


def measured(folder: Path, *words: object) -> tuple[int, float, int, str]:
    """Run a command and return its code, seconds of the processor, peak memory in kB, and what it said."""
    command = [sys.executable, "-c", RUN, *map(str, words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    *said, last = done.stderr.splitlines()
    _, code, seconds, memory = last.split()
    return int(code), float(seconds), int(memory), "\n".join(said)


@pytest.fixture(scope="module")
def idle(tmp_path_factory) -> tuple[float, int]:
    """What a command costs that reads one small commit of this kind."""
    folder = tmp_path_factory.mktemp("idle")
    with Repository.init(folder) as repo:
        repo.commit({"w": np.zeros(4, np.float32)})
    costs = [measured(folder, "checkout", "main", "-o", f"out{turn}.npz") for turn in range(2)]
    return max(cost[1] for cost in costs), max(cost[2] for cost in costs)


ATTACKS = [
    (hostile.huge_state, ("checkout", "main", "-o", "out.npz"), 1),
    (hostile.huge_state, ("diff", "main~1", "main"), 1),
    (hostile.huge_state, ("show", "main"), 0),
    (hostile.huge_files, ("checkout", "main"), 1),
    (hostile.huge_files, ("diff", "main~1", "main"), 0),
    (hostile.huge_files, ("status",), 0),
    (hostile.huge_blob, ("checkout", "main"), 1),
    (hostile.huge_blob, ("checkout", "main", "-o", "weights.bin"), 1),
]


@pytest.mark.parametrize(("attack", "words", "code"), ATTACKS)
def test_a_claim_is_refused_before_it_costs_anything(tmp_path, idle, attack, words, code) -> None:
    attack(tmp_path)
    if "diff" in words and code == 0:
        words = (*words, "--max-bytes", "1MB")
        code = 1
    found, seconds, memory, said = measured(tmp_path, *words)
    assert found == code, said
    assert (code == 0) or ("takes" in said and "hint:" in said)
    assert seconds <= idle[0] + SECONDS
    assert memory <= idle[1] + KILOBYTES
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 1 << 20


def test_a_clone_of_files_beyond_the_disk_is_stopped_before_the_first(tmp_path, idle) -> None:
    hostile.huge_files(tmp_path / "there")
    found, seconds, memory, said = measured(tmp_path, "clone", tmp_path / "there", "here")
    assert (found, "takes" in said) == (1, True)
    assert seconds <= idle[0] + SECONDS
    assert memory <= idle[1] + KILOBYTES
    assert [path.name for path in (tmp_path / "here").iterdir()] == [".mvcs"]


def test_a_limit_is_what_the_user_says(history) -> None:
    history("checkout", "main", "-o", "small.npz", "--max-bytes", "10", code=1)
    assert not (history.folder / "small.npz").exists()
    history("checkout", "main", "-o", "small.npz", "--max-bytes", "1.5GiB")
    history("checkout", "main", "--max-bytes", "ten", code=2)
    history("diff", "main~1", "main", "--max-bytes", "1k", code=1)
    history("diff", "main~1", "main", "--max-bytes", "1GB")


def test_a_limit_holds_for_states_in_memory(tmp_path) -> None:
    with Repository.init(tmp_path) as repo:
        repo.commit({"w": np.zeros(1000, np.float32)})
    with Repository.open(tmp_path, max_bytes=3999) as repo, pytest.raises(LimitError, match="4000 bytes"):
        repo.checkout(numpy=True)
    with Repository.open(tmp_path, max_bytes=4000) as repo:
        assert repo.checkout(numpy=True)["w"].shape == (1000,)


@pytest.mark.parametrize("length", [1 << 24, pytest.param(1 << 26, marks=pytest.mark.slow)])
def test_a_real_state_that_compresses_well_passes(tmp_path, length) -> None:
    zeros = np.zeros(length, np.float32)
    with Repository.init(tmp_path) as repo:
        info = repo.commit({"w": zeros})
        assert info.stored_bytes < 4096
    with Repository.open(tmp_path) as repo:
        assert not repo.checkout(numpy=True)["w"].any()


def test_a_pack_that_unpacks_to_more_than_is_allowed_is_not_unpacked(history, tmp_path) -> None:
    history("remote", "add", "origin", tmp_path / "far")
    history("push")
    Console(tmp_path)("clone", tmp_path / "far", "near", "--max-bytes", "100", code=1)
    near = Console(tmp_path / "near")
    assert not list((tmp_path / "near/.mvcs/packs").rglob("*.pack"))
    Console(tmp_path)("clone", tmp_path / "far", "near")
    history.commit("later", shift=0.5)
    history("push")
    assert "unpacks to" in near("fetch", "--max-bytes", "100", code=1).err
    near("fetch")
