"""What a commit and a restore cost as chains of deltas get deeper, beside torch.

    python -m tests.bench.depth [--commits 21] [--megabytes 50] [--bounded] [--threads 1]

A state of eight matrices takes a random step between commits. It is committed in a repository that stays
open, and its file by one process a commit (`mvcs commit FILE`), start included; `torch.save` writes the same
state beside each. Commits are then restored, each from a repository just opened, beside `torch.load` of the
same state. Seconds are the processor's. One thread, and no exact layers beside bounded commits.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch

from mvcs import Repository
from mvcs.bench.codecs.clock import Work, compare
from tests.bench import results

COLUMNS, LAYERS = 1024, 8
NEAR = 3  # commits at each end of a history whose ratios are compared
Row = dict[str, object]
State = dict[str, torch.Tensor]


def walk(commits: int, megabytes: int) -> Iterator[State]:
    """Yield the same tensors again and again, each time after a step of a hundredth of their size."""
    generator = torch.Generator().manual_seed(0)
    rows = max(megabytes * 1_000_000 // (4 * COLUMNS * LAYERS), 1)

    def normal() -> torch.Tensor:
        return torch.randn(rows, COLUMNS, generator=generator) * 0.02

    state = {f"layers.{number}.weight": normal() for number in range(LAYERS)}
    for _ in range(commits):
        yield state
        for values in state.values():
            values.add_(normal(), alpha=0.01)


def spent() -> float:
    """Return what this process and those it waited for took the processor."""
    return time.process_time() + results.children_seconds()


def size(folder: Path) -> int:
    """Return the bytes of a repository."""
    return sum(path.stat().st_size for path in (folder / ".mvcs").rglob("*") if path.is_file())


def history(folder: Path, title: str, given: argparse.Namespace, commit: Callable[[int, State], Work]) -> Row:
    """Commit a walk; return a row for each commit, and how much dearer the last ones are than early ones."""
    rows: list[Row] = []
    before, other = size(folder), folder.parent / "other.pt"
    for number, state in enumerate(walk(given.commits, given.megabytes)):
        torch.save(state, folder / "state.pt")
        save = partial(torch.save, state, other)
        found = compare(commit(number, state), save, 1, warm=0, clock=spent)
        after = size(folder)
        share = (after - before) / other.stat().st_size
        row = results.row(f"{title}, {number}: {share:.3f} of the bytes", found, "torch.save")
        rows.append(row | {"share": share})
        before = after
    # Writing a file over another takes `torch.save` a quarter or four times as long, as the system likes.
    beside = statistics.median(float(str(row["second_s"])) for row in rows)
    ratios = [float(str(row["first_s"])) / beside for row in rows]
    late, early = (statistics.median(part) for part in (ratios[-NEAR:], ratios[1 : NEAR + 1] or ratios))
    print(f"{title}: the last {NEAR} over commits 1 to {NEAR}: {late / early:.2f}")
    return {"title": title, "early": early, "late": late, "growth": late / early, "commits": rows}


def restores(folder: Path, given: argparse.Namespace) -> Iterator[Row]:
    """Restore commits at some depths, each beside `torch.load` of the same state."""
    last, file = given.commits - 1, folder.parent / "other.pt"
    for number, state in enumerate(walk(given.commits, given.megabytes)):
        if number not in {0, 1, 2, 4, 8, last // 2, last}:
            continue
        torch.save(state, file)
        with Repository.open(folder) as repository:
            depth = repository.checkout_plan(f"step:{number}").depth
        found = compare(partial(restored, folder, f"step:{number}"), partial(torch.load, file), given.pairs)
        row = results.row(f"restore of commit {number} at depth {depth}", found, "torch.load")
        yield row | {"commit": number, "depth": depth}


def restored(folder: Path, rev: str) -> None:
    """Restore a commit from a repository that is opened for it."""
    with Repository.open(folder) as repository:
        repository.restore(rev)


def main() -> None:
    """Make both histories, and restore from the first."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--commits", type=int, default=21)
    parser.add_argument("--megabytes", type=int, default=50)
    parser.add_argument("--bounded", action="store_true", help="with a step size of 0.5 instead of exactly")
    parser.add_argument("--threads", default="1", help="of a commit")
    parser.add_argument("--pairs", type=int, default=5, help="of restores, of which medians are taken")
    results.add_option(parser)
    given = parser.parse_args()
    torch.set_num_threads(1)
    load, settings = results.load(), {"step_size": 0.5} if given.bounded else {}
    print(f"load {load:.1f}, {os.cpu_count()} cores, {'bounded' if given.bounded else 'exact'} commits")
    with tempfile.TemporaryDirectory(prefix="mvcs-bench-") as top:
        opened, apart = Path(top) / "opened", Path(top) / "apart"
        for folder in (opened, apart):
            with Repository.init(folder) as repository:
                repository.config_set("commit.threads", given.threads)
                if given.bounded:
                    repository.config_set("retention.exact_layers", "0")
        command = [sys.executable, "-m", "mvcs", "-C", str(apart), "commit", "-q", "state.pt", "-m", "step"]
        command += [
            word for key, value in settings.items() for word in (f"--{key}".replace("_", "-"), str(value))
        ]
        with Repository.open(opened) as repository:
            found = [
                history(
                    opened,
                    "open",
                    given,
                    lambda at, state: partial(repository.commit, {"model": state}, step=at, **settings),
                ),
                history(
                    apart,
                    "a process each",
                    given,
                    lambda at, _: partial(subprocess.run, [*command, "--step", str(at)], check=True),
                ),
            ]
        about = {"load": load, "megabytes": given.megabytes, "bounded": given.bounded}
        results.write(given.json, about | {"histories": found, "restores": list(restores(opened, given))})


if __name__ == "__main__":
    main()
