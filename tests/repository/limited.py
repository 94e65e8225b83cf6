"""A process that commits, bounded, a state of many times its budget, and tells what memory that took.

python limited.py FOLDER BUDGET ROOM COUNT SIDE THREADS; it can have ROOM bytes more, or any with a ROOM of 0.
"""

import json
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np

from mvcs import Repository
from mvcs.quantize import LatticeConfig, MomentsConfig

STATUS = Path("/proc/self/status")
SETTINGS = LatticeConfig(step_size=0.5, moments=MomentsConfig.LIGHT)


def status(name: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) << 10


def filled(count: int, side: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)

    def matrix(scale: float) -> np.ndarray:
        return rng.standard_normal((side, side), dtype=np.float32) * np.float32(scale)

    group = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.0, "amsgrad": False}
    moments = {
        i: {"step": 10.0, "exp_avg": matrix(1e-3), "exp_avg_sq": matrix(1e-3) ** 2} for i in range(count)
    }
    return {
        "model": {f"layer{i}.weight": matrix(0.02) for i in range(count)},
        "optimizer": {
            "state": moments,
            "param_groups": [{**group, "maximize": False, "params": list(range(count))}],
        },
    }


def train(state: dict[str, Any]) -> None:
    for weight, moments in zip(state["model"].values(), state["optimizer"]["state"].values(), strict=True):
        np.subtract(weight, np.float32(0.1) * moments["exp_avg"], out=weight)
        moments["step"] += 10


def commits(repo: Repository, state: dict[str, Any], count: int) -> list[int]:
    """Commit a few times, and return the most bytes in memory during each."""
    peaks = []
    for _ in range(count):
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        repo.commit(state, quantizer=SETTINGS)
        peaks.append(status("VmHWM"))
        train(state)
    return peaks


def limit(room: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (status("VmSize") + room, resource.RLIM_INFINITY))


def main() -> None:
    folder, budget, *numbers = sys.argv[1:]
    room, count, side, threads = map(int, numbers)
    with Repository.init(folder) as repo:
        repo.config_set("memory.budget", budget)
        repo.config_set("commit.threads", str(threads))
    with Repository.open(folder) as repo:
        # What is loaded once is no part of any budget.
        commits(repo, filled(2, 64), 3)
        repo.checkout()
        state = filled(count, side)
        own, before = 3 * 4 * count * side * side, status("VmRSS")
        if room:
            limit(room)
        peaks = commits(repo, state, 3)
        if room:
            limit(room + own)
        Path("/proc/self/clear_refs").write_text("5")
        restored = repo.checkout()
        peaks.append(status("VmHWM") - own)
        same = restored["model"].keys() == state["model"].keys()
    told = {"above": [peak - before for peak in peaks], "state": own, "same": same}
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
