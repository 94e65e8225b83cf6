"""Commands on a file of torch.save beside the start of Python with torch: `python -m tests.bench.file_speed`.

Whole processes, each beside such a start, in turn. Seconds are the processor's, medians with their quartiles.
Each repository is new. But for `commit` the file was committed, and written anew since.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch

from mvcs import Repository
from mvcs.bench.codecs.clock import compare
from tests.bench import results

NEIGHBOUR = "python -c 'import torch'"
COMMANDS = {"commit": ["commit", "model.pt", "-m", "first"], "status": ["status"], "diff": ["diff"]}


def main() -> None:
    """Print what each command takes on a file of few large tensors, and on one of many small ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--megabytes", type=int, default=100, help="of a file of matrices of 1 million values"
    )
    parser.add_argument("--tensors", type=int, default=2000, help="of 1,024 values in the other file")
    parser.add_argument("--pairs", type=int, default=5, help="of which medians are taken")
    results.add_option(parser)
    options = parser.parse_args()
    load = results.load()
    print(f"load {load:.1f}, {os.cpu_count()} cores; medians of {options.pairs} pairs, quartiles")
    large, small = options.megabytes // 4, options.tensors
    files = {f"{4 * large} MB": (large, 1000), f"{small:,} tensors": (small, 32)}
    rows = [row for name, sizes in files.items() for row in commands(name, *sizes, options.pairs)]
    base = partial(python, "import numpy, click")
    found = compare(base, partial(python, "import torch"), options.pairs, clock=results.children_seconds)
    rows.append(results.row("python -c 'import numpy, click'", found, NEIGHBOUR))
    results.write(options.json, {"load": load, "commands": rows})


def commands(name: str, tensors: int, size: int, pairs: int) -> Iterator[dict[str, object]]:
    """Measure the commands on a file of so many square matrices of float32."""
    with tempfile.TemporaryDirectory(prefix="mvcs-bench-") as top:
        file = Path(top) / "model.pt"
        torch.save({f"layers.{at}.weight": torch.randn(size, size) for at in range(tensors)}, file)
        beside = partial(python, "import torch")
        for what, words in COMMANDS.items():
            ours = partial(command, words, file, committed=what != "commit")
            found = compare(ours, beside, pairs, clock=results.children_seconds)
            yield results.row(f"mvcs {what}, {name}", found, NEIGHBOUR)


def command(words: list[str], file: Path, *, committed: bool) -> None:
    """Run a command in a new repository with a copy of the file."""
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        copy = Path(shutil.copy(file, folder))
        with Repository.init(folder) as repository:
            if committed:
                repository.commit_files([copy], message="first")
        os.utime(copy, (0, 0))
        mvcs = shutil.which("mvcs", path=str(Path(sys.executable).parent)) or "mvcs"
        run([mvcs, "-C", folder, *words])


def python(program: str) -> None:
    """Start Python with a program."""
    run([sys.executable, "-c", program])


def run(words: list[str]) -> None:
    """Run a whole process."""
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
