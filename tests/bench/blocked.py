"""How long a training thread stands still for a commit, against one plain copy of the same state.

    python -m tests.bench.blocked [--state large] [--megabytes 200] [--commits 10]
    python -m tests.bench.blocked --state cnn
    python -m tests.bench.blocked --state small [--layers 150]

`large` has a few large tensors, `cnn` is the model and optimizer of that training run of `mvcs bench`, and
`small` has many small tensors: weights and biases of so many layers of 64, and AdamW's moments and counters.

Training steps go on in between, as they empty the processor's caches: a step and a commit, a step and a copy
by hand, a step and a call of `state_dict`, in turn. The copy is of the state that the hook itself captures,
tensor by tensor, into memory that is already there. Seconds are the processor's, of the training thread.
"""

import argparse
import os
import pathlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from mvcs import Repository
from mvcs.bench.codecs.clock import Pairs, seconds
from mvcs.bench.tasks.clothes import CnnTask, ResNet
from mvcs.train import Checkpointer
from tests.bench import results

ALLOCATE = 2  # commits that allocate or have no parent
BLOCKED = "blocked by a commit"
Stateful = torch.nn.Module | torch.optim.Optimizer


@dataclass(frozen=True)
class Run:
    """A model, its optimizer, and the shape of a batch."""

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    batch: tuple[int, ...]

    def step(self) -> None:
        """Make one optimizer step on random data."""
        self.optimizer.zero_grad()
        self.model(torch.randn(self.batch)).square().mean().backward()
        self.optimizer.step()


def large(megabytes: int) -> Run:
    """Return a model of wide layers whose weights and two moments take about so many megabytes."""
    return _linear(1024, max(1, megabytes * 1_000_000 // (3 * 4 * 1024 * 1024)))


def small(layers: int) -> Run:
    """Return a model of so many narrow layers."""
    return _linear(64, layers)


def _linear(width: int, layers: int) -> Run:
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(layers)])
    return Run(model, torch.optim.AdamW(model.parameters(), lr=1e-3), (4, width))


def cnn() -> Run:
    """Return the ResNet that `mvcs bench` trains, and its SGD with momentum."""
    model = ResNet(CnnTask.blocks)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=5e-4)
    return Run(model, optimizer, (8, 1, 28, 28))


def tensors(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return every tensor of the state."""
    values = (value for state in optimizer.state.values() for value in state.values())
    moments = [value for value in values if torch.is_tensor(value)]
    return [*model.state_dict().values(), *moments]


def copy(sources: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]) -> None:
    """Copy every tensor into memory that is already there."""
    for source, target in zip(sources, targets, strict=True):
        target.copy_(source)


def rounds(run: Run, targets: Sequence[torch.Tensor], commits: int) -> Iterator[dict[str, float]]:
    """Yield seconds of a commit through the hook, and of a copy and of `state_dict` between commits."""
    with tempfile.TemporaryDirectory(prefix="mvcs-bench-") as folder:
        repository = Repository.init(pathlib.Path(folder))
        with Checkpointer(repository, run.model, run.optimizer, extra={"round": 0}, bins=16) as checkpointer:
            for number in range(commits + ALLOCATE):
                run.step()
                blocked = seconds(partial(checkpointer.save, number), time.thread_time)
                checkpointer.flush()
                run.step()
                copied = seconds(partial(copy, tensors(run.model, run.optimizer), targets), time.thread_time)
                run.step()
                states = run.model.state_dict, run.optimizer.state_dict
                stated = seconds(lambda: [state() for state in states], time.thread_time)  # noqa: B023 - at once
                if number >= ALLOCATE:
                    rows = {BLOCKED: blocked, "the same, without state_dict()": blocked - stated}
                    yield {"copy": copied, "state_dict() alone": stated} | rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--state", choices=("large", "cnn", "small"), default="large")
    parser.add_argument("--megabytes", type=int, default=200, help="of large")
    parser.add_argument("--layers", type=int, default=150, help="of small")
    parser.add_argument("--commits", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    results.add_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    made = {"large": lambda: large(options.megabytes), "cnn": cnn, "small": lambda: small(options.layers)}
    run = made[options.state]()
    run.step()
    targets = [torch.empty_like(tensor) for tensor in tensors(run.model, run.optimizer)]
    size, load = sum(tensor.nbytes for tensor in targets) / 1e6, results.load()
    print(f"load {load:.1f}, {os.cpu_count()} cores; medians of {options.commits} commits, quartiles")
    print(f"{options.state}: {size:.1f} MB in {len(targets)} tensors")
    found = list(rounds(run, targets, options.commits))
    names = [name for name in found[0] if name != "copy"]
    pairs = {name: Pairs.of([(one[name], one["copy"]) for one in found]) for name in names}
    rows = [results.row(name, each, "one copy") for name, each in pairs.items()]
    about = {"load": load, "state": options.state, "megabytes": size, "tensors": len(targets)}
    results.write(options.json, about | {"commits": options.commits, "rows": rows})


if __name__ == "__main__":
    main()
