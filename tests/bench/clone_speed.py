"""Clones, beside copies of the same packs that hash them and no more: `python -m tests.bench.clone_speed`.

The history is that of `commit_speed.py`: four states of matrices, each committed after all values moved.
Clones and copies take turns; seconds are the processor's.
"""

import argparse
import os
import pathlib
import tempfile
from functools import partial

import torch

from mvcs import Repository
from mvcs.bench.codecs.clock import compare
from mvcs.store.packs.pack import name_of
from tests.bench import results
from tests.bench.commit_speed import LARGE, states


def main() -> None:
    """Print one line for each kind of history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=5, help="of which medians are taken")
    results.add_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    run = states(LARGE, options.megabytes, 4)
    rows, load = [], results.load()
    print(f"load {load:.1f}, {os.cpu_count()} cores; medians of {options.pairs} pairs, quartiles")
    for name, quantizer in {"bounded": {"step_size": 0.5}, "exact": {}}.items():
        with tempfile.TemporaryDirectory() as made:
            source = pathlib.Path(made) / "source"
            with Repository.init(source) as repo:
                for number, state in enumerate(run):
                    repo.commit(state, step=number, **quantizer)
            packs = sorted((source / ".mvcs/packs").glob("*/*"))
            megabytes = sum(pack.stat().st_size for pack in packs) / 1e6
            found = compare(partial(clone, source), partial(copy, packs), options.pairs)
        rows.append(results.row(f"clone, {name}, {megabytes:.0f} MB", found, "copy and hash"))
    results.write(options.json, {"load": load, "clones": rows})


def clone(source: pathlib.Path) -> None:
    """Clone a repository into a folder that goes again."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Repository.clone(str(source), pathlib.Path(folder) / "clone"),
    ):
        pass


def copy(packs: list[pathlib.Path]) -> None:
    """Copy packs into a folder that goes again, each hashed and durable."""
    with tempfile.TemporaryDirectory() as folder:
        for pack in packs:
            data = pack.read_bytes()
            assert name_of(data) == pack.stem
            with (pathlib.Path(folder) / pack.name).open("wb") as file:
                file.write(data)
                os.fsync(file.fileno())


if __name__ == "__main__":
    main()
