"""Cold `mvcs log -n 20` against starting Python with numpy and click, and against git, at two lengths.

    python -m tests.bench.log_speed [--commits 100 10000] [--runs 15]

Whole processes are timed in turn, so that a slow moment of the machine meets all of them. Building the long
history takes a few minutes.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

from mvcs import Repository
from tests.bench import results

BASE = "python -c 'import numpy, click'"


def build_mvcs(folder: pathlib.Path, commits: int) -> None:
    """Make a repository of so many small commits."""
    repository = Repository.init(folder)
    for step in range(commits):
        state = {"weight": np.full(4, step, np.float32), "step": step}
        repository.commit(state, message=f"commit {step}", step=step, metrics={"loss": 1 / (step + 1)})


def build_git(folder: pathlib.Path, commits: int) -> None:
    """Make a git repository of so many small commits, through fast-import."""
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    who = "bench <bench@example.invalid>"
    lines = []
    for step in range(commits):
        message, content = f"commit {step}", f"step {step}\n"
        when = f"{1_700_000_000 + step} +0000"
        lines.append(f"commit refs/heads/main\ncommitter {who} {when}\ndata {len(message)}\n{message}\n")
        lines.append(f"M 100644 inline state\ndata {len(content)}\n{content}\n")
    feed = "".join(lines).encode()
    subprocess.run(["git", "-C", str(folder), "fast-import", "--quiet"], input=feed, check=True)


def seconds(command: list[str]) -> float:
    """Return the wall-clock seconds of one whole process."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    """Build the histories, time the commands in turn, print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, nargs="+", default=[100, 10_000])
    parser.add_argument("--runs", type=int, default=15)
    results.add_option(parser)
    options = parser.parse_args()
    root = pathlib.Path(tempfile.mkdtemp(prefix="mvcs-bench-"))
    mvcs = shutil.which("mvcs", path=str(pathlib.Path(sys.executable).parent)) or "mvcs"
    commands = {BASE: [sys.executable, "-c", "import numpy, click"]}
    try:
        for count in options.commits:
            build_mvcs(root / f"mvcs-{count}", count)
            build_git(root / f"git-{count}", count)
            for tool, program in (("mvcs", mvcs), ("git", "git")):
                folder = str(root / f"{tool}-{count}")
                commands[f"{tool} log -n 20, {count} commits"] = [program, "-C", folder, "log", "-n", "20"]
        times = measured(commands, options.runs)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    found = figures(times)
    report(found)
    results.write(options.json, found)


def measured(commands: dict[str, list[str]], runs: int) -> dict[str, list[float]]:
    """Time the commands in turn, after one round that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, command in commands.items():
            taken = seconds(command)
            if turn:
                times[name].append(taken)
    return times


def figures(times: dict[str, list[float]]) -> dict[str, object]:
    """Return the median and the least of each command in ms, and its median over that of the base."""
    base = statistics.median(times[BASE])
    rows = {
        name: {
            "median_ms": 1000 * statistics.median(taken),
            "least_ms": 1000 * min(taken),
            "of_base": statistics.median(taken) / base,
        }
        for name, taken in times.items()
    }
    return {"load": results.load(), "runs": len(times[BASE]), "commands": rows}


def report(found: dict[str, Any]) -> None:
    """Print the median of each command and its ratio to the base."""
    print(f"load {found['load']:.1f}, {os.cpu_count()} cores, median of {found['runs']}")
    for name, row in found["commands"].items():
        median, ratio, least = (row[key] for key in ("median_ms", "of_base", "least_ms"))
        print(f"{name:40} {median:8.1f} ms  {ratio:5.2f} x base  (min {least:.1f})")


if __name__ == "__main__":
    main()
