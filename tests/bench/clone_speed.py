"""Clones, beside copies of the same packs that hash them and no more: `python -m tests.bench.clone_speed`.

The history is that of `commit_speed.py`: four states of matrices, each committed after all values moved.
Seconds are of the clock and of the processor, the least of three.
"""

import argparse
import os
import pathlib
import tempfile
import time
from collections.abc import Callable
from functools import partial

import torch

from mvcs import Repository
from mvcs.store.packs.pack import name_of
from tests.bench import results
from tests.bench.commit_speed import states

TIMES = 3


def main() -> None:
    """Print one line for each kind of history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    results.add_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    run = states(options.megabytes)
    rows, load = [], results.load()
    print(f"load {load:.1f}, {os.cpu_count()} cores; seconds of clock and processor")
    print(f"{'commits':34}{'packs':>9}{'clone':>14}{'copy and hash':>16}")
    for name, quantizer in {"bounded": {"step_size": 0.5}, "exact": {}}.items():
        with tempfile.TemporaryDirectory() as made:
            source = pathlib.Path(made) / "source"
            with Repository.init(source) as repo:
                for number, state in enumerate(run):
                    repo.commit(state, step=number, **quantizer)
            packs = sorted((source / ".mvcs/packs").glob("*/*"))
            size = sum(pack.stat().st_size for pack in packs)
            wall, cpu = least(partial(clone, source))
            plain, plain_cpu = least(partial(copy, packs))
        print(f"{name:34}{size / 1e6:6.0f} MB{wall:7.2f}{cpu:7.2f}{plain:9.2f}{plain_cpu:7.2f}", flush=True)
        clock = {"clone_s": wall, "copy_s": plain}
        processor = {"clone_processor_s": cpu, "copy_processor_s": plain_cpu}
        rows.append({"commits": name, "megabytes": size / 1e6} | clock | processor)
    results.write(options.json, {"load": load, "histories": rows})


def clone(source: pathlib.Path) -> None:
    """Clone a repository into a folder that goes again."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Repository.clone(str(source), pathlib.Path(folder) / "clone"),
    ):
        pass


def copy(packs: list[pathlib.Path]) -> None:
    """Copy packs into a folder that goes again, each hashed and durable."""
    with tempfile.TemporaryDirectory() as folder:
        for pack in packs:
            data = pack.read_bytes()
            assert name_of(data) == pack.stem
            with (pathlib.Path(folder) / pack.name).open("wb") as file:
                file.write(data)
                os.fsync(file.fileno())


def least(action: Callable[[], None]) -> tuple[float, float]:
    """Return the least seconds of the clock, and of the processor, that an action takes."""
    found = []
    for _ in range(TIMES):
        wall, cpu = time.perf_counter(), time.process_time()
        action()
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    walls, cpus = zip(*found, strict=True)
    return min(walls), min(cpus)


if __name__ == "__main__":
    main()
