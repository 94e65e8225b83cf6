"""Every benchmark runs to its end on something small, so that none breaks unseen."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mvcs import Repository
from mvcs.bench.runs.run_maker import make_run
from mvcs.progress import SILENT
from tests.bench.runs import tiny_gpt

PROGRAMS = sorted(
    path.stem for path in Path(__file__).parent.glob("*.py") if "\nif __name__" in path.read_text()
)
QUICK = {
    "blocked": "--state small --layers 2 --commits 1",
    "clone_speed": "--megabytes 1 --pairs 1",
    "commit_speed": "--megabytes 1 --pairs 1",
    "demo_bytes": "{repository}",
    "depth": "--commits 2 --megabytes 1 --pairs 1",
    "kernels": "--values 10000 --pairs 1",
    "log_speed": "--commits 2 --pairs 1",
    "long_history": "--commits 22 --lengths 1",
    "metadata": "--tensors 2",
    "moments": "gpt {run} --at 2 --arms exact w+light --steps 3 --results {out}",
    "momentum_bits": "{run} --at 2 4 --steps 1.0",
    "overhead": "{run} --task gpt --pairs 2 --steps 1",
    "restore_plans": "{repository}",
    "restores": "{run} {out} --task gpt --at 2 --control 1",
    "skip_deltas": "{repository}",
    "small_tensors": "--tensors 40",
}
SLOW = {
    "background_compaction": "{run} {out} --seconds 1",
    "chain_decoding": "{out} --commits 2",
    "compaction": "{run} {out}",
    "file_speed": "--megabytes 4 --tensors 2 --pairs 1",
    "hostile_stores": "many_folders",
    "optimizers": "--optimizers Adagrad --arms exact light --results {out}",
    "qd_training": "feedback --steps 2 --seeds 1",
    "split_learning": "--clients 2 --pictures 64 --rounds 1 --valid 64 --augment --arms aq",
    "unseen": "cnn --commits 2 --every 1 --batches 2 --unseen 2",
}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A recorded run and a repository of its checkpoints."""
    top = tmp_path_factory.mktemp("bench")
    task = tiny_gpt(top / "data")
    make_run(task, top / "run", steps=8, every=2, seed=0, progress=SILENT)
    with Repository.init(top / "repository") as repository:
        for path in sorted((top / "run").glob("*.pt")):
            repository.commit(torch.load(path), step=int(path.stem[-6:]), step_size=0.5)
    return task, {"run": top / "run", "repository": top / "repository"}


@pytest.mark.parametrize("name", QUICK)
def test_a_benchmark_runs_to_its_end(name, places, tmp_path, monkeypatch):
    task, folders = places
    program = importlib.import_module(f"tests.bench.{name}")
    if name in {"clone_speed", "commit_speed"}:
        large = importlib.import_module("tests.bench.commit_speed")
        monkeypatch.setattr(large, "SHAPES", {large.LARGE: ((256, 256), 1), "small tensors": ((8,), 4)})
    if name == "moments":
        monkeypatch.setattr(program, "_task", lambda *_: task)
    if name in {"overhead", "restores"}:
        monkeypatch.setattr(program, "given_task", lambda *_: task)
    given = QUICK[name].format(**folders, out=tmp_path / "out")
    monkeypatch.setattr(sys, "argv", [name, *given.split()])
    monkeypatch.chdir(Path(__file__).parents[2])
    program.main()


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_a_slow_benchmark_runs_to_its_end(name, places, tmp_path):
    given = SLOW[name].format(**places[1], out=tmp_path / "out").split()
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-m", f"tests.bench.{name}", *given], cwd=root, check=True, timeout=500)


@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_benchmark_of_a_gpu_runs_to_its_end():
    command = [sys.executable, "-m", "tests.bench.gpu", "--size", "small", "--rounds", "1"]
    subprocess.run(command, cwd=Path(__file__).parents[2], check=True, timeout=500)


def test_every_benchmark_is_run():
    assert sorted([*QUICK, *SLOW, "gpu"]) == PROGRAMS
