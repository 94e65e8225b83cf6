"""Whole commits of a large state in memory, as shares of memcpy: `python -m tests.bench.commit_speed`.

A state of matrices of two million float32 values with both moments of Adam, committed again and again after
all values moved. Seconds are of the processor and of the clock, the least of three commits.
"""

import argparse
import itertools
import os
import resource
import tempfile
import time

import torch

from mvcs import Repository
from tests.bench import results

ROWS, COLUMNS = 2048, 1024
COMMITS = 3
FIGURES = (
    "commit",
    "threads",
    "memcpy_gb_per_s",
    "clock_s",
    "processor_s",
    "clock_share",
    "processor_share",
)


def main() -> None:
    """Print one line for every way to commit and number of threads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    results.add_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    run = states(options.megabytes)
    size = 3 * sum(each.nbytes for each in run[0]["model"].values()) / 1e9
    load = results.load()
    print(f"{size:.2f} GB, load {load:.1f}, {os.cpu_count()} cores; shares of memcpy")
    print(f"{'commit':34}{'threads':>8}{'memcpy':>8}{'wall s':>8}{'cpu s':>8}{'wall':>8}{'cpu':>8}")
    ways = {
        "bounded, no exact layer": ({"step_size": 0.5}, "0"),
        "bounded": ({"step_size": 0.5}, "2"),
        "exact": ({}, "2"),
    }
    rows = []
    for (name, (quantizer, layers)), threads in itertools.product(ways.items(), ("1", "2")):
        wall, cpu, copy = measure(run, quantizer, layers, threads)
        shares = size / wall / copy, size / cpu / copy
        speeds = "".join(f"{share:8.4f}" for share in shares)
        print(f"{name:34}{threads:>8}{copy:8.1f}{wall:8.2f}{cpu:8.2f}{speeds}", flush=True)
        values = (name, int(threads), copy, wall, cpu, *shares)
        rows.append(dict(zip(FIGURES, values, strict=True)))
    results.write(options.json, {"load": load, "gigabytes": size, "commits": rows})


def states(megabytes: int) -> list[dict[str, dict[str, object]]]:
    """Return a state and what became of it."""
    generator = torch.Generator().manual_seed(0)
    count = max(1, megabytes * 1_000_000 // (12 * ROWS * COLUMNS))

    def normal(scale: float) -> torch.Tensor:
        return scale * torch.randn(ROWS, COLUMNS, generator=generator)

    def moments() -> dict[str, torch.Tensor]:
        return {"exp_avg": normal(1e-3), "exp_avg_sq": normal(1e-3).square()}

    weights = [normal(0.02) for _ in range(count)]
    return [
        {
            "model": {f"layers.{i}.weight": weight + normal(0.002) for i, weight in enumerate(weights)},
            "optimizer": {"state": {i: moments() for i in range(count)}, "param_groups": []},
        }
        for _ in range(COMMITS + 1)
    ]


def measure(run: list[object], quantizer: dict[str, float], layers: str, threads: str) -> tuple[float, ...]:
    """Return seconds and processor seconds of a commit, and memcpy in GB/s."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, Repository.init(folder) as repository:
        repository.config_set("commit.threads", threads)
        repository.config_set("retention.exact_layers", layers)
        for state in run:
            copy, wall, cpu = memcpy(), time.perf_counter(), processor()
            repository.commit(state, **quantizer)
            rows.append((time.perf_counter() - wall, processor() - cpu, copy))
    walls, cpus, copies = zip(*rows[1:], strict=True)
    return min(walls), min(cpus), max(copies)


def memcpy() -> float:
    """Return GB/s of copying 256 MB out of the cache."""
    source = torch.zeros(1 << 26)
    target = torch.zeros_like(source)
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        target.copy_(source)
        best = min(best, time.perf_counter() - started)
    return source.nbytes / best / 1e9


def processor() -> float:
    """Return processor seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
