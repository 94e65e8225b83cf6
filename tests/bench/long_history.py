"""What does and does not grow with a history: `python -m tests.bench.long_history [--commits 20000]`.

Commits of a small state are made through the API. At some lengths the same things are measured: CPU seconds
and requests of a commit, of a collection, of `log -n 20` and of `status`, restores of commits drawn at
random, and the lineage made anew. CPU seconds are those of this process, whatever else the machine does.
"""

import argparse
import pathlib
import random
import shutil
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable

import numpy as np

from mvcs import Repository
from mvcs.bench.codecs.clock import seconds
from mvcs.store import Backend
from tests.bench import results

METHODS = ("read", "head", "create", "put", "adopt", "size", "list", "stamps", "children", "newest", "delete")
VALUES, DRAWN, COUNTED = 1024, 20, 10


class Requests:
    """Counts what is asked of a backend."""

    def __init__(self, backend: Backend) -> None:
        """Count from now on."""
        self.counts = Counter[str]()
        for name in METHODS:
            setattr(backend, name, self._counted(name, getattr(backend, name)))

    def _counted(self, name: str, method: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **options: object) -> object:
            self.counts[name] += 1
            return method(*args, **options)

        return call

    def during(self, work: Callable[[], object]) -> int:
        """Return how many requests some work makes."""
        before = self.counts.total()
        work()
        return self.counts.total() - before


class Run:
    """A history that gets longer."""

    def __init__(self, folder: pathlib.Path) -> None:
        """Begin one."""
        self.folder = folder
        self._drift = np.random.default_rng(0)
        self._weights = self._drift.standard_normal(VALUES).astype(np.float32)
        self.commits: list[tuple[str, float]] = []
        Repository.init(folder).close()

    def commit(self, repo: Repository) -> None:
        """Commit the weights after one more step."""
        number = len(self.commits)
        self._weights += self._drift.standard_normal(VALUES).astype(np.float32) * np.float32(0.01)
        state = {"model": {"weight": self._weights, "bias": self._weights[:16].copy()}}
        info = repo.commit(state, message=str(number), step=number, metrics={"loss": 1 / (number + 1)})
        self.commits.append((info.id, float(self._weights.sum())))

    def grow(self, length: int) -> list[float]:
        """Commit until the history has a length, and return the CPU seconds of each commit."""
        taken = []
        with Repository.open(self.folder) as repo:
            while len(self.commits) < length:
                taken.append(seconds(lambda: self.commit(repo)))
        return taken


def opened(folder: pathlib.Path, work: Callable[[Repository], object]) -> tuple[float, int]:
    """Return CPU seconds and requests of one thing that is done with a repository just opened."""
    with Repository.open(folder) as repo:
        requests = Requests(repo._session.place.backend)
        taken = list[float]()
        count = requests.during(lambda: taken.append(seconds(lambda: work(repo))))
        return taken[0], count


def measured(run: Run, length: int) -> dict[str, float]:
    """Lengthen a history and return what things take then."""
    commits = run.grow(length - COUNTED)
    with Repository.open(run.folder) as repo:
        run.commit(repo)  # what a process does once is no part of a commit
        requests = Requests(repo._session.place.backend)
        counted = [requests.during(lambda: run.commit(repo)) for _ in range(COUNTED - 1)]
    opened(run.folder, lambda repo: repo.gc(execute=True))
    gc_s, gc_requests = opened(run.folder, lambda repo: repo.gc(execute=True))
    log_s, log_requests = opened(run.folder, lambda repo: list(repo.log(limit=20)))
    status_s, status_requests = opened(run.folder, lambda repo: repo.status())
    drawn = random.Random(length).sample(run.commits, min(DRAWN, len(run.commits)))
    restores = [opened(run.folder, lambda repo, one=one: restored(repo, *one)) for one in drawn]
    lineage_s, _ = opened(run.folder, lambda repo: repo.lineage_rebuild())
    return {
        "commits": length,
        "commit_ms": 1000 * statistics.median(commits[-500:]),
        "commit_requests": statistics.median(counted),
        "gc_s": gc_s,
        "gc_requests": gc_requests,
        "log_ms": 1000 * log_s,
        "log_requests": log_requests,
        "status_ms": 1000 * status_s,
        "status_requests": status_requests,
        "restore_ms": 1000 * statistics.median(taken for taken, _ in restores),
        "restore_requests": max(count for _, count in restores),
        "rebuild_s": lineage_s,
    }


def restored(repo: Repository, name: str, total: float) -> None:
    """Restore a commit and compare it."""
    found = float(repo.checkout(name, numpy=True)["model"]["weight"].sum())
    assert found == total, f"{name} restores something else"


def main() -> None:
    """Measure at some lengths, each twice the one before, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=20_000)
    parser.add_argument("--lengths", type=int, default=6, help="at how many lengths")
    results.add_option(parser)
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mvcs-bench-"))
    rows: list[dict[str, float]] = []
    try:
        run = Run(folder / "history")
        for step in reversed(range(options.lengths)):
            rows.append(measured(run, options.commits >> step))
            print(" ".join(f"{name} {value:.4g}" for name, value in rows[-1].items()), flush=True)
            results.write(options.json, {"load": results.load(), "rows": rows})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
