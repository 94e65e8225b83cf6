"""Files and states that somebody writes while they are committed: a conflict, or a commit that restores."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from mvcs import Repository
from mvcs.errors import ConflictError
from mvcs.progress import Silent

SIDE = 512
MARGIN = 1 << 16  # bytes at both ends of a file in which formats keep what they need
EDGE = np.uint32(1 << 20)  # a bit of the mantissa: values stay finite
FORMATS = ["model.safetensors", "model.npz", "model.pt", "folder/model.bin"]


def weights(number: int) -> dict[str, np.ndarray]:
    """Two tensors that differ by number."""
    drift = np.random.default_rng(number).standard_normal((SIDE, SIDE)).astype(np.float32)
    return {"a.weight": drift, "b.weight": drift[: SIDE // 2] + np.float32(1)}


def write(path: Path, number: int) -> None:
    """Write a file of the format that its name says."""
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".npz":
        np.savez(path, **weights(number))
    elif path.suffix == ".pt":
        torch.save({name: torch.from_numpy(value) for name, value in weights(number).items()}, path)
    elif path.suffix == ".safetensors":
        save_file(weights(number), path)
    else:
        path.write_bytes(b"".join(value.tobytes() for value in weights(number).values()))


def named(path: Path) -> Path:
    """Return what is named in a commit: files of no format are found inside their folder."""
    return path.parent if path.suffix == ".bin" else path


class Meddler(Silent):
    """Does something to a file once, when storing begins or after the first tensor was stored."""

    def __init__(self, action: Callable[[], object], hook: str) -> None:
        self.action, self.hook = action, hook

    def _once(self, hook: str) -> None:
        if self.hook == hook:
            self.hook = ""
            self.action()

    def start(self, stage: str, total: int | None, unit: str) -> None:  # noqa: ARG002 - any will do
        self._once("start")

    def advance(self, amount: int) -> None:  # noqa: ARG002 - any will do
        self._once("advance")

    def finish(self) -> None:
        self._once("finish")


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def replace(path: Path) -> None:
    aside = path.with_name("aside")
    shutil.copyfile(path, aside)
    aside.rename(path)


def rewrite(path: Path) -> None:
    """Change a byte and put size and time of writing back, as a careful tool would."""
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(status.st_size // 2)
        byte = file.read(1)
        file.seek(status.st_size // 2)
        file.write(bytes([byte[0] ^ 1]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize(
    ("action", "hook"),
    [
        (truncate, "start"),
        (truncate, "advance"),
        (append, "advance"),
        (replace, "start"),
        (rewrite, "advance"),
    ],
)
@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_changes_while_it_is_committed_is_a_conflict_that_names_it(
    tmp_path: Path, name: str, action: Callable[[Path], object], hook: str
) -> None:
    path = tmp_path / name
    write(path, 0)
    with Repository.init(tmp_path) as repo:
        before = repo.commit({"w": np.zeros(3)})
    with Repository.open(tmp_path, progress=Meddler(lambda: action(path), hook)) as repo:
        with pytest.raises(ConflictError, match=f"'.*{path.name}' changed while it was read") as caught:
            repo.commit_files([named(path)], message="0")
        assert caught.value.exit_code == 4
        assert repo.head().id == before.id


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_is_replaced_right_after_it_was_read_is_modified_and_not_overwritten(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    write(path, 0)
    os.utime(path, ns=(0, 0))
    Repository.init(tmp_path).close()
    with Repository.open(tmp_path, progress=Meddler(lambda: write(path, 1), "finish")) as repo:
        first = repo.commit_files([named(path)], message="0")
        assert [found.state for found in repo.status().entries] == ["modified"]
        repo.commit_files([named(path)], message="1")
        write(path, 2)
        with pytest.raises(ConflictError):
            repo.checkout_files(first.id)


@pytest.mark.parametrize("hook", ["advance", "finish"])
def test_a_file_that_is_edited_while_a_checkout_runs_is_not_lost(tmp_path: Path, hook: str) -> None:
    path = tmp_path / "model.safetensors"
    with Repository.init(tmp_path) as repo:
        write(path, 0)
        first = repo.commit_files([path], message="0")
        write(path, 1)
        repo.commit_files([path], message="1")
    with Repository.open(tmp_path, progress=Meddler(lambda: write(path, 2), hook)) as repo:
        with pytest.raises(ConflictError) if hook == "advance" else nullcontext():
            repo.checkout_files(first.id)
        assert [found.state for found in repo.status().entries] == ["modified"]
        write(tmp_path / "expected.safetensors", 2)
        assert path.read_bytes() == (tmp_path / "expected.safetensors").read_bytes()


@contextmanager
def mapped_writer(path: Path) -> Iterator[None]:
    """Keep a file mapped and change it all the time."""
    words = np.memmap(path, np.uint32, "r+", MARGIN, (path.stat().st_size - 2 * MARGIN) // 4)
    with all_the_time(words):
        yield


@contextmanager
def all_the_time(words: np.ndarray) -> Iterator[None]:
    """Change memory from another thread."""
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            np.bitwise_xor(words, EDGE, out=words)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def readable(repo: Repository, rev: str) -> None:
    """Read all of a commit, in both layers."""
    assert repo.fsck().problems == []
    repo.checkout(rev, numpy=True)
    assert repo.restore(rev, numpy=True).layer == "exact"


@pytest.mark.parametrize("bound", [{}, {"step_size": 0.5}])
@pytest.mark.parametrize("name", ["model.safetensors", "model.pt", "folder/model.bin"])
def test_what_a_writer_that_keeps_a_file_mapped_changes_is_a_conflict_or_restores(
    tmp_path: Path, name: str, bound: dict[str, float]
) -> None:
    path = tmp_path / name
    write(path, 0)
    with Repository.init(tmp_path) as repo:
        for number in range(3):
            with mapped_writer(path), suppress(ConflictError):
                repo.commit_files([named(path)], message=str(number), **bound)
            if repo.head() is not None:
                readable(repo, "HEAD")


BOUNDS = [{}, {"step_size": 0.5}, {"bins": 16}, {"moments": "light", "step_size": 0.5}]


@pytest.mark.parametrize(
    ("make", "bound", "times"),  # twice the side: each tensor is stored in a thread of its own
    [
        *((torch.from_numpy, bound, 1) for bound in BOUNDS),
        (np.asarray, BOUNDS[0], 2),
        *(pytest.param(np.asarray, bound, 2, marks=pytest.mark.slow) for bound in BOUNDS[1:]),
    ],
)
def test_a_state_that_changes_while_it_is_committed_is_readable(
    tmp_path: Path, make: Callable[[np.ndarray], object], bound: dict[str, float], times: int
) -> None:
    values = np.tile(weights(0)["a.weight"], (times, times))
    half = values.astype(np.float16)
    squares = np.square(values)
    moments = {"step": 1, "exp_avg": make(values.copy()), "exp_avg_sq": make(squares)}
    group = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "params": [0]}
    state = {
        "model": {"w": make(values), "half": make(half)},
        "optimizer": {"state": {0: moments}, "param_groups": [group]},
    }
    with Repository.init(tmp_path) as repo:
        repo.commit(state, **bound)
        for _ in range(2):
            with all_the_time(values.view(np.uint32)), all_the_time(squares.view(np.uint32)):
                info = repo.commit(state, **bound)
            readable(repo, info.id)


@pytest.mark.parametrize("target", ["best.safetensors", "out/", "best.npz"])
@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("hook", ["start", "advance", "finish"])
def test_what_is_written_where_an_export_goes_is_not_lost(
    tmp_path: Path, target: str, there: bool, hook: str
) -> None:
    write(tmp_path / "run/model.safetensors", 0)
    write(tmp_path / "run/second.safetensors", 1)
    rev = "HEAD" if target == "out/" else "HEAD:run/model.safetensors"
    place = tmp_path / (target if target != "out/" else "out/run/second.safetensors")
    with Repository.init(tmp_path) as repo:
        repo.commit_files([tmp_path / "run"], message="both")
        if there:
            repo.export(rev, f"{tmp_path}/{target}")

    def meddle() -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("mine")

    with Repository.open(tmp_path, progress=Meddler(meddle, hook)) as repo:
        late = nullcontext() if hook == "finish" else pytest.raises(ConflictError, match="changed while")
        with late:  # at the end all is in place: what comes then must not count as written from here
            repo.export(rev, f"{tmp_path}/{target}")
        assert place.read_text() == "mine"
        assert not list(tmp_path.rglob("*.tmp"))
        with pytest.raises(ConflictError, match="no commit here has it"):
            repo.export(rev, f"{tmp_path}/{target}")
        for _ in range(2):
            repo.export(rev, f"{tmp_path}/{target}", force=place.read_bytes() == b"mine")


CUTTER = """
import os, sys, threading
from pathlib import Path
from mvcs import Repository
from mvcs.errors import ConflictError, FileFormatError

path = Path(sys.argv[1])
content, stop = path.read_bytes(), threading.Event()

def cut_and_write():
    while not stop.is_set():
        os.truncate(path, len(content) // 3)
        with path.open("r+b") as file:
            file.write(content)

thread = threading.Thread(target=cut_and_write)
with Repository.init(path.parent) as repo:
    thread.start()
    for number in range(15):
        try:
            repo.commit_files([path], message=str(number), step_size=0.5)
        except (ConflictError, FileFormatError) as error:
            assert path.name in error.message
    stop.set()
    thread.join()
    assert repo.fsck().problems == []
"""


@pytest.mark.parametrize(
    "name", ["model.safetensors", "model.npz", pytest.param("model.pt", marks=pytest.mark.slow)]
)
def test_cutting_a_file_short_while_it_is_committed_kills_nobody(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, 0)
    command = [sys.executable, "-c", CUTTER, str(tmp_path / name)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
