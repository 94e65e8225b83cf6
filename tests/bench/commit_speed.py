"""Whole commits and restores of states in memory beside torch: `python -m tests.bench.commit_speed`.

States are of float32 weights with both moments of Adam, committed again after all values moved. Beside each
commit `torch.save` writes the same state, and beside each restore `torch.load` reads it, in turn. Restores
are of a repository that was just opened; what they read is decoded and hashed, which `torch.load` and the
load of `torch.distributed.checkpoint` do not do. Seconds are the processor's, of all threads.
"""

import argparse
import itertools
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.distributed import checkpoint as dcp

from mvcs import Repository
from mvcs.bench.codecs.clock import Pairs, compare
from tests.bench import results
from tests.bench.adam_states import State, adam_states, state_bytes

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
Row = dict[str, object]


def main() -> None:
    """Print a line for every way to commit each shape, on one thread and on two, and for restores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=250, help="of a state of matrices")
    parser.add_argument("--pairs", type=int, default=5, help="of which medians are taken")
    results.add_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    load = results.load()
    print(f"load {load:.1f}, {os.cpu_count()} cores; medians of {options.pairs} pairs, quartiles")
    commits = list(committed(options.megabytes, options.pairs))
    [state] = states(LARGE, options.megabytes, 1)
    rows = {"commits": commits, "restores": list(restores(state, options.pairs))}
    about = {"load": load, "megabytes": state_bytes(state) / 1e6, "pairs": options.pairs}
    results.write(options.json, about | rows)


def states(shape: str, megabytes: int, commits: int) -> list[State]:
    """Return so many states of a shape; of matrices as many as fill so many megabytes."""
    sizes, least_count = SHAPES[shape]
    count = megabytes * 1_000_000 // (12 * torch.Size(sizes).numel()) if least_count == 1 else least_count
    return adam_states(sizes, max(count, 1), commits)


def committed(megabytes: int, pairs: int) -> Iterator[Row]:
    """Measure commits near a parent; the first of each history does not count."""
    for shape in SHAPES:
        run = states(shape, megabytes, pairs + 1)
        for (name, way), threads in itertools.product(WAYS.items(), (1, 2) if shape == LARGE else (1,)):
            title = f"{shape}: {name}" + (", 2 threads" if threads == 2 else "")
            yield results.row(title, commits(run, *way, threads), "torch.save")


def commits(run: list[State], quantizer: dict[str, float], layers: str, threads: int) -> Pairs:
    """Commit states one after the other; `torch.save` writes each beside it."""
    with tempfile.TemporaryDirectory() as folder, Repository.init(folder) as repository:
        repository.config_set("commit.threads", str(threads))
        repository.config_set("retention.exact_layers", layers)
        ours, theirs = iter(run), iter(run)
        return compare(
            lambda: repository.commit(next(ours), **quantizer),
            lambda: torch.save(next(theirs), Path(folder) / "state.pt"),
            len(run) - 1,
        )


def restores(state: State, pairs: int) -> Iterator[Row]:
    """Measure restores of one commit, and the load of DCP."""
    with tempfile.TemporaryDirectory() as folder:
        file, peer = Path(folder) / "state.pt", Path(folder) / "dcp"
        torch.save(state, file)
        for name, (quantizer, layers) in WAYS.items():
            place = Path(folder) / name
            with Repository.init(place) as repository:
                repository.config_set("retention.exact_layers", layers)
                repository.commit(state, **quantizer)
            found = compare(lambda: restored(place), lambda: torch.load(file), pairs)  # noqa: B023
            yield results.row(f"restore, {name}", found, "torch.load")
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        dcp.save(state, checkpoint_id=peer, no_dist=True)
        found = compare(
            lambda: dcp.load(state, checkpoint_id=peer, no_dist=True), lambda: torch.load(file), pairs
        )
        yield results.row("load of torch.distributed.checkpoint", found, "torch.load")


def restored(folder: Path) -> None:
    """Restore the newest commit of a repository that is opened for it."""
    with Repository.open(folder) as repository:
        repository.restore("main")


if __name__ == "__main__":
    main()
