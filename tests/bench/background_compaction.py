"""What a compaction in the background takes beside a run, and what it does to the steps of that run.

    python -m tests.bench.background_compaction DIR OUT --share 0.01 [--depth 8] [--seconds 120] [--stop]

The checkpoints of DIR are committed with a step of 0.5, unless OUT holds that history. A copy of it goes on
in a run whose steps compute on one thread, and which commits a small state every few seconds. It lasts
until the compaction ends, or so many seconds. With `--stop` the compaction is stopped and goes on every two
seconds, so that steps with it and without it can be compared; then its share says nothing.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import time

import torch

from mvcs import Checkpointer, Repository
from tests.bench.compaction import committed

SLICE = 2.0
TICKS = os.sysconf("SC_CLK_TCK")


def history(folder: pathlib.Path, out: pathlib.Path) -> pathlib.Path:
    """Return the history of a folder, which is made once."""
    made = out / "history"
    if not made.exists():
        committed(folder, made, {"step_size": 0.5})
    copy = out / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(made, copy)
    return copy


def computed(process: "subprocess.Popen[bytes]") -> float:
    """Return the seconds that another process computed, all its threads and the start included."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Watched:
    """The compaction beside a run: stopped now and then where that is asked for."""

    def __init__(self, process: "subprocess.Popen[bytes]", *, stops: bool) -> None:
        """Begin to watch."""
        self._process, self._stops = process, stops
        self._began = time.monotonic()
        self.is_stopped = False
        self.cpu, self.seconds = 0.0, 0.0

    def look(self) -> bool:
        """Tell whether it is still there; what it took is noted."""
        now = time.monotonic() - self._began
        if self._process.poll() is not None:
            return False
        self.cpu, self.seconds = computed(self._process), now
        wanted = self._stops and int(now / SLICE) % 2 == 1
        if wanted != self.is_stopped:
            self._process.send_signal(signal.SIGSTOP if wanted else signal.SIGCONT)
            self.is_stopped = wanted
        return True


def trained(folder: pathlib.Path, seconds: float, *, stops: bool) -> dict[str, object]:
    """Train beside a compaction; return what both took."""
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256))
    optimizer = torch.optim.AdamW(model.parameters())
    steps: dict[bool, list[float]] = {True: [], False: []}
    with (
        Repository.open(folder) as repo,
        Checkpointer(repo, model, optimizer, seconds=5, final=False) as checkpointer,
    ):
        checkpointer.save(0)
        checkpointer.flush()
        watched = Watched(checkpointer._line._compaction._process, stops=stops)
        began, number = time.monotonic(), 0
        while watched.look() and time.monotonic() - began < seconds:
            number += 1
            started = time.perf_counter()
            optimizer.zero_grad()
            model(torch.randn(512, 256)).square().mean().backward()
            optimizer.step()
            steps[watched.is_stopped].append(time.perf_counter() - started)
            checkpointer.after_step(number)
        ended = not watched.look()
        if watched.is_stopped:
            watched._process.send_signal(signal.SIGCONT)
    return {
        "cpu": watched.cpu,
        "seconds": watched.seconds,
        "share": watched.cpu / watched.seconds,
        "ended": ended,
        "commits": len(checkpointer.timings),
        "failures": len(checkpointer.failures),
        "step_ms": {
            ("stopped" if stopped else "beside"): [1e3 * statistics.median(times), len(times)]
            for stopped, times in steps.items()
            if times
        },
    }


def main() -> None:
    """Measure one share."""
    parser = argparse.ArgumentParser()
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--share", default="0.01")
    parser.add_argument("--depth", default="8")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--stop", action="store_true")
    given = parser.parse_args()
    folder = history(given.dir, given.out)
    with Repository.open(folder) as repo:
        repo.config_set("compaction.background", given.share)
        repo.config_set("compaction.max_depth", given.depth)
    found = trained(folder, given.seconds, stops=given.stop)
    with Repository.open(folder) as repo:
        found["problems"] = repo.status().problems
        found["ok"] = repo.fsck().ok
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
