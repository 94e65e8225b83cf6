"""Bits that a momentum takes, by step: `python -m tests.bench.momentum_bits runs/gru --at 200 400`.

Commits recorded states one after another, or with `--optimizer Muon` those of `tests.bench.optimizers`, once
for each step of momentum, in units of its root mean square. Each line is what a state's own commit stores.
"""

import argparse
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from mvcs.bench.tasks.next_byte import GptTask
from mvcs.quantize import LatticeConfig, MomentsConfig
from mvcs.reports import TensorInfo
from mvcs.repository import Repository
from tests.bench.optimizers import BATCH, SIZES, Probe

NAMES = ("momentum_buffer", "exp_avg")
STEPS = (1.0, 1.5, 2.0, 3.0, 4.0)


def main() -> None:
    """Print a line for each step and state."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--at", type=int, nargs="+", default=[])
    parser.add_argument("--optimizer", default="Muon")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--steps", type=float, nargs="+", default=STEPS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    states = list(_recorded(options.folder, options.at) if options.folder else _trained(options))
    print(f"{'step':>5}{'at':>6}{'bits':>8}{'worst':>7}{'finer':>6}")
    for step in options.steps:
        for at, bits, worst, refined in measured(states, step):
            print(f"{step:5}{at:6}{bits:8.3f}{worst:7.2f}{refined:6}")


def _recorded(folder: Path, places: Iterable[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    for at in places:
        state = torch.load(folder / f"step_{at:06d}.pt", weights_only=True)
        yield at, {"model": state["model"], "optimizer": state["optimizer"]}


def _trained(options: argparse.Namespace) -> Iterator[tuple[int, dict[str, Any]]]:
    for at, state in Probe(GptTask(sizes=SIZES, batch=BATCH), options.optimizer, options.seed).states():
        yield at, {"model": state["model"], "optimizer": state["optimizer"]}


def measured(
    states: Iterable[tuple[int, dict[str, Any]]], step: float
) -> Iterator[tuple[int, float, float, int]]:
    """Yield place, bits a momentum value, the largest error of a tensor, and how many got a finer step."""
    config = LatticeConfig(step_size=0.25, moments=MomentsConfig(step, 2.0))
    with tempfile.TemporaryDirectory(prefix="mvcs-bits-") as folder, Repository.init(folder) as repo:
        for at, state in states:
            made = repo.commit(state, quantizer=config)
            worst = made.worst_moment.relative if made.worst_moment else 0.0
            refined = int(made.errors.get("tensor limit", {}).get("refined", 0))
            yield at, bits_of(repo.show().tensors), worst, refined


def bits_of(tensors: Iterable[TensorInfo]) -> float:
    """Return stored bits a value of all momentum."""
    found = [one for one in tensors if one.path.rpartition(".")[2] in NAMES]
    return 8 * sum(one.stored_bytes for one in found) / sum(one.raw_bytes // 4 for one in found)


if __name__ == "__main__":
    main()
