"""Cold `mvcs log -n 20` against starting Python with numpy and click, and against git, at two lengths.

    python -m tests.bench.log_speed [--commits 100 3000] [--pairs 15]

Whole processes, each beside such a start, in turn. Seconds are the processor's, medians with their quartiles.
Building the long history takes half a minute.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from functools import partial

import numpy as np

from mvcs import Repository
from mvcs.bench.codecs.clock import compare
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


def run(command: list[str]) -> None:
    """Run a whole process."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Build the histories, and print what each command takes beside a start of Python."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, nargs="+", default=[100, 3000])
    parser.add_argument("--pairs", type=int, default=15, help="of which medians are taken")
    results.add_option(parser)
    options = parser.parse_args()
    mvcs = shutil.which("mvcs", path=str(pathlib.Path(sys.executable).parent)) or "mvcs"
    base, rows, load = [sys.executable, "-c", "import numpy, click"], [], results.load()
    print(f"load {load:.1f}, {os.cpu_count()} cores; medians of {options.pairs} pairs, quartiles")
    with tempfile.TemporaryDirectory(prefix="mvcs-bench-") as root:
        for count in options.commits:
            for tool, program, build in (("mvcs", mvcs, build_mvcs), ("git", "git", build_git)):
                folder = pathlib.Path(root) / f"{tool}-{count}"
                build(folder, count)
                command = [program, "-C", str(folder), "log", "-n", "20"]
                clock = results.children_seconds
                found = compare(partial(run, command), partial(run, base), options.pairs, clock=clock)
                rows.append(results.row(f"{tool} log -n 20, {count:,} commits", found, BASE))
    results.write(options.json, {"load": load, "commands": rows})


if __name__ == "__main__":
    main()
