"""A few bytes that claim to be gigabytes are refused before they cost anything; what fits passes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository
from mvcs.errors import LimitError
from tests.cli import hostile, many
from tests.cli.conftest import Console

# Loads all that commands load, by one of them, then forks for each that comes.
RUN = """
import json, os, resource, sys, threading
from mvcs.cli import main
assert main(sys.argv[1:]) == 0
print("ready", flush=True)
calls = 0

def count(*event):
    global calls
    calls += 1

for line in sys.stdin:
    folder, words, is_counted = json.loads(line)
    child = os.fork()
    if not child:
        os.chdir(folder)
        for number, name in enumerate(("said.out", "said.err"), 1):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        if is_counted:
            threading.setprofile(count)
            sys.setprofile(count)
        code = main(words)
        sys.setprofile(None)
        used = resource.getrusage(resource.RUSAGE_SELF)
        cost = [code, calls, used.ru_maxrss, used.ru_utime + used.ru_stime]
        print(json.dumps(cost), file=sys.stderr, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print("done", flush=True)
"""
# Calls and returns, of Python's functions and of C's: about half a second of the processor.
CALLS, KILOBYTES, SECONDS = 8_000_000, 100_000, 5.0


@dataclass(frozen=True)
class Cost:
    """What a command took: an exit code, calls and returns, peak memory in kB, seconds of the processor."""

    code: int
    calls: int
    memory: int
    seconds: float
    said: str

    def is_little(self, beyond: "Cost") -> bool:
        """Tell whether it is hardly more than what another command took."""
        return self.calls <= beyond.calls + CALLS and self.memory <= beyond.memory + KILOBYTES


class Runner:
    """Runs commands in processes of their own and measures them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert "ready\n" in iter(process.stdout.readline, "")

    def __call__(self, folder: Path, *words: object, counted: bool = True) -> Cost:
        """Run a command, and count its calls, which takes it more time."""
        self.process.stdin.write(json.dumps([str(folder), [*map(str, words)], counted]) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"
        *said, last = (folder / "said.err").read_text().splitlines()
        return Cost(*json.loads(last), "\n".join(said))


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """A repository of one small commit of this kind."""
    folder = tmp_path_factory.mktemp("small")
    with Repository.init(folder) as repo:
        repo.commit({"w": np.zeros(4, np.float32)})
    return folder


@pytest.fixture(scope="module")
def measured(small) -> Iterator[Runner]:
    command = [sys.executable, "-c", RUN, "checkout", "main", "-o", "first.npz"]
    pipe = subprocess.PIPE
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # a process that forks has one thread
    with subprocess.Popen(command, cwd=small, stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        yield Runner(process)
        process.stdin.close()


@pytest.fixture(scope="module")
def idle(measured, small) -> Cost:
    """What a command costs that reads one small commit of this kind."""
    return measured(small, "checkout", "main", "-o", "out.npz")


ATTACKS = [
    (hostile.huge_state, ("checkout", "main", "-o", "out.npz"), 1),
    (hostile.huge_state, ("diff", "main~1", "main"), 1),
    (hostile.many_constants, ("diff", "main~1", "main"), 1),
    (hostile.huge_state, ("show", "main"), 0),
    (hostile.huge_files, ("checkout", "main"), 1),
    (hostile.huge_files, ("diff", "main~1", "main"), 0),
    (hostile.huge_files, ("status",), 0),
    (hostile.huge_blob, ("checkout", "main"), 1),
    (hostile.huge_blob, ("checkout", "main", "-o", "weights.bin"), 1),
]


@pytest.mark.parametrize(("attack", "words", "code"), ATTACKS)
def test_a_claim_is_refused_before_it_costs_anything(tmp_path, measured, idle, attack, words, code) -> None:
    attack(tmp_path)
    if "diff" in words and code == 0:
        words = (*words, "--max-bytes", "1MB")
        code = 1
    cost = measured(tmp_path, *words)
    assert cost.code == code, cost.said
    assert (code == 0) or ("takes" in cost.said and "hint:" in cost.said)
    assert cost.is_little(idle)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 1 << 20


MANY = [
    (many.leaves_of_nothing, 5_000, "show"),
    (many.leaves_of_nothing, 5_000, "fsck"),
    (many.aliases, 10_000, "show"),
    (many.nothings, 200_000, "show"),
    (many.nothings, 200_000, "fsck"),
    (many.many_keys, 25_000, "show"),
    (many.set_members, 25_000, "show"),
    (many.deep_chains, 1_000, "show"),
    (many.deep_chains, 1_000, "fsck"),
    (many.damaged_chain, 500, "fsck"),
    (many.unchanged_chain, 40, "fsck"),
    (many.many_members, 20_000, "log"),
]
CODES = {many.damaged_chain: 5}


@pytest.mark.parametrize(("make", "count", "word"), MANY)
def test_many_small_things_cost_little(tmp_path, measured, idle, make, count, word) -> None:
    make(tmp_path, count)
    cost = measured(tmp_path, word)
    assert cost.code == CODES.get(make, 0), cost.said
    assert cost.is_little(idle)


@pytest.mark.soak
@pytest.mark.parametrize(("make", "count", "word"), MANY)
def test_many_small_things_take_little_time(tmp_path, measured, make, count, word) -> None:
    make(tmp_path, 3 * count)
    assert measured(tmp_path, word, counted=False).seconds <= SECONDS


def test_a_comparison_of_little_that_claims_much_waits_for_the_word_of_its_user(tmp_path) -> None:
    with Repository.init(tmp_path) as repo:
        repo.commit({"w": np.zeros(1 << 25, np.float32)})
        repo.commit({"w": np.ones(1 << 25, np.float32)})
        with pytest.raises(LimitError, match=r"134217728 bytes, restored from [0-9]+ stored ones") as caught:
            repo.diff("HEAD~1", "HEAD")
    assert "--max-bytes 134217728" in caught.value.hint
    with Repository.open(tmp_path, max_bytes=1 << 27) as repo:
        assert repo.diff("HEAD~1", "HEAD").tensors[0].changed_fraction == 1.0


def test_a_clone_of_files_beyond_the_disk_is_stopped_before_the_first(tmp_path, measured, idle) -> None:
    hostile.huge_files(tmp_path / "there")
    cost = measured(tmp_path, "clone", tmp_path / "there", "here")
    assert (cost.code, "takes" in cost.said) == (1, True)
    assert cost.is_little(idle)
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
