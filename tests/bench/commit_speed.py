"""Whole commits and restores of states in memory, as shares of memcpy: `python -m tests.bench.commit_speed`.

States are of float32 weights with both moments of Adam, committed again after all values moved. A share is
the bytes of a state over memcpy's rate and the time, both taken in this process. Seconds are of the processor
and of the clock, the least of three commits or restores. Restores are of a repository that was just opened;
what they read is decoded and hashed. Beside them stands what `torch.distributed.checkpoint` loads, which
checks nothing.
"""

import argparse
import itertools
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator

import torch
from torch.distributed import checkpoint as dcp

from mvcs import Repository
from tests.bench import results
from tests.bench.adam_states import State, adam_states, state_bytes

COMMITS = 3
LARGE = "matrices of 2 million values"
SHAPES = {
    LARGE: ((2048, 1024), 1),
    "matrices of 1 million values": ((1024, 1024), 1),
    "1,000 tensors of 1,024 values": ((32, 32), 1000),
}
WAYS = {
    "bounded, no exact layer": ({"step_size": 0.5}, "0"),
    "bounded": ({"step_size": 0.5}, "2"),
    "exact": ({}, "2"),
}
FIGURES = (
    "commit",
    "threads",
    "memcpy_gb_per_s",
    "clock_s",
    "processor_s",
    "clock_share",
    "processor_share",
)
Spent = tuple[float, float, float]
"""GB/s of memcpy, then seconds of the clock and of the processor."""


def main() -> None:
    """Print a line for every way to commit and number of threads, for other shapes, and for restores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000, help="of a state of matrices")
    results.add_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    load, size = results.load(), options.megabytes
    run, gigabytes = states(LARGE, size, COMMITS + 1), 0.0
    gigabytes = state_bytes(run[0]) / 1e9
    print(f"{gigabytes:.2f} GB, load {load:.1f}, {os.cpu_count()} cores; shares of memcpy")
    print(f"{'':52}{'threads':>8}{'memcpy':>8}{'wall s':>8}{'cpu s':>8}{'wall':>8}{'cpu':>8}")
    commits = [
        told(name, threads, gigabytes, least(committed(run, *way, threads)))
        for (name, way), threads in itertools.product(WAYS.items(), ("1", "2"))
    ]
    shapes = [row for shape in list(SHAPES)[1:] for row in of_shape(shape, size)]
    written = {
        "load": load,
        "gigabytes": gigabytes,
        "commits": commits,
        "shapes": shapes,
        "restores": list(restores(run[0], gigabytes)),
    }
    results.write(options.json, written)


def states(shape: str, megabytes: int, commits: int) -> list[State]:
    """Return so many states of a shape; of matrices as many as fill so many megabytes."""
    sizes, least_count = SHAPES[shape]
    count = megabytes * 1_000_000 // (12 * torch.Size(sizes).numel()) if least_count == 1 else least_count
    return adam_states(sizes, max(count, 1), commits)


def of_shape(shape: str, megabytes: int) -> Iterator[dict[str, object]]:
    """Measure bounded commits of a shape with one thread: the first of a run, then those near a parent."""
    run = states(shape, megabytes, COMMITS + 1)
    size = state_bytes(run[0]) / 1e9
    for name in ("bounded, no exact layer", "bounded"):
        spent = list(committed(run, *WAYS[name], "1"))
        yield told(f"{shape}: first {name}", "1", size, spent[0])
        yield told(f"{shape}: {name}", "1", size, least(spent))


def restores(state: State, size: float) -> Iterator[dict[str, object]]:
    """Measure restores of one commit, and the load of DCP."""
    for name, (quantizer, layers) in WAYS.items():
        with tempfile.TemporaryDirectory() as folder:
            with Repository.init(folder) as repository:
                repository.config_set("retention.exact_layers", layers)
                repository.commit(state, **quantizer)
            yield told(f"restore, {name}", "1", size, best(lambda: restored(folder)))
    with tempfile.TemporaryDirectory() as folder:
        dcp.save(state, checkpoint_id=folder, no_dist=True)
        yield told("DCP load", "1", size, best(lambda: dcp.load(state, checkpoint_id=folder, no_dist=True)))


def restored(folder: str) -> None:
    """Restore the newest commit of a repository that is opened for it."""
    with Repository.open(folder) as repository:
        repository.restore("main")


def told(name: str, threads: str, size: float, spent: Spent) -> dict[str, object]:
    """Print one line, and return its figures."""
    copy, wall, cpu = spent
    shares = size / wall / copy, size / cpu / copy
    speeds = "".join(f"{share:8.4f}" for share in shares)
    print(f"{name:52}{threads:>8}{copy:8.1f}{wall:8.2f}{cpu:8.2f}{speeds}", flush=True)
    return dict(zip(FIGURES, (name, int(threads), copy, wall, cpu, *shares), strict=True))


def committed(run: list[State], quantizer: dict[str, float], layers: str, threads: str) -> Iterator[Spent]:
    """Commit states one after the other, and yield what each takes."""
    with tempfile.TemporaryDirectory() as folder, Repository.init(folder) as repository:
        repository.config_set("commit.threads", threads)
        repository.config_set("retention.exact_layers", layers)
        for state in run:
            yield spent(lambda: repository.commit(state, **quantizer))  # noqa: B023 - called at once


def best(work: Callable[[], object]) -> Spent:
    """Return what three runs of some work take at least."""
    return least([spent(work) for _ in range(COMMITS + 1)])


def least(rows: Iterator[Spent] | list[Spent]) -> Spent:
    """Return the least times of all rows but the first, and the fastest memcpy."""
    copies, walls, cpus = zip(*list(rows)[1:], strict=True)
    return max(copies), min(walls), min(cpus)


def spent(work: Callable[[], object]) -> Spent:
    """Return what some work takes, and how fast memcpy is just before it."""
    copy, wall, cpu = memcpy(), time.perf_counter(), processor()
    work()
    return copy, time.perf_counter() - wall, processor() - cpu


def memcpy() -> float:
    """Return GB/s of copying 256 MB out of the cache, by time of the processor."""
    source = torch.zeros(1 << 26)
    target = torch.zeros_like(source)
    least_time = float("inf")
    for _ in range(5):
        started = time.thread_time()
        target.copy_(source)
        least_time = min(least_time, time.thread_time() - started)
    return source.nbytes / least_time / 1e9


def processor() -> float:
    """Return processor seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
