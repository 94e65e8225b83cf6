"""How far estimated seconds of restores are off: `python -m tests.bench.restore_plans FOLDER...`.

Each folder is a repository. Its commits are planned and restored, some of them, in turn; what is printed is a
table for the page of the lab. Requests and bytes have to be exact. Seconds are those of the processor, so
that other processes do no harm.
"""

import argparse
import dataclasses
import gc
import sys
from pathlib import Path
from statistics import median
from time import process_time

from mvcs import Repository
from mvcs.repository.session import Session
from tests.store.faults import FaultyBackend

AT_MOST = 8
TIMES = 3


def counted(folder: Path, rev: str) -> tuple[int, int, float]:
    """Restore a commit in a fresh repository; return requests, bytes, and the least seconds."""
    took = []
    for _ in range(TIMES):
        gc.collect()  # what stores before kept in memory would leave no room
        with Repository.open(folder) as repo:
            session = repo._session
            backend = FaultyBackend(session.place.backend)
            repo._session = Session(dataclasses.replace(session.place, backend=backend), session.progress)
            start = process_time()
            repo.checkout(rev, numpy=True)
            took.append(process_time() - start)
            reads = [size for name, _, size in backend.reads if name.endswith(".pack")]
    return len(reads), sum(reads), min(took)


def rows(folder: Path) -> list[tuple[int, float, float]]:
    """Return depth, estimated and measured seconds of some commits; figures have to be exact."""
    with Repository.open(folder) as repo:
        every = [info.id for info in repo.log()]
    chosen = every[:: max(len(every) // AT_MOST, 1)][:AT_MOST]
    found = []
    for number, commit in enumerate(chosen):
        with Repository.open(folder) as repo:
            plan = repo.checkout_plan(commit, measure=number == 0)
        requests, size, took = counted(folder, commit)
        if (plan.requests, plan.read_bytes) != (requests, size):
            sys.exit(f"{folder}: {commit}: planned {plan}, read {requests} and {size} bytes")
        found.append((plan.depth, plan.seconds or 0.0, took))
    return found


def main() -> None:
    """Print a row for each folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    print("| history | commits | deepest | seconds | estimated | median error | largest |")
    print("|---|---|---|---|---|---|---|")
    for folder in parser.parse_args().folders:
        found = rows(folder)
        errors = [abs(estimated / took - 1) for _, estimated, took in found]
        deepest = max(depth for depth, *_ in found)
        took, estimated = (sum(row[place] for row in found) for place in (2, 1))
        share = f"{median(errors):.0%} | {max(errors):.0%}"
        print(f"| {folder.name} | {len(found)} | {deepest} | {took:.2f} | {estimated:.2f} | {share} |")


if __name__ == "__main__":
    main()
