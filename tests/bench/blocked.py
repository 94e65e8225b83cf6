"""How long a training thread stands still for a commit, against one plain copy of the same state.

    python -m tests.bench.blocked [--state large] [--megabytes 200] [--commits 10]
    python -m tests.bench.blocked --state cnn
    python -m tests.bench.blocked --state small [--layers 150]

`large` has a few large tensors, `cnn` is the model and optimizer of that training run of `mvcs bench`, and
`small` has many small tensors: weights and biases of so many layers of 64, and AdamW's moments and counters.

Training steps go on in between, as they empty the processor's caches: a step and a commit, a step and a copy
by hand, a step and a call of `state_dict`, in turn. The copy is of the state that the hook itself captures,
tensor by tensor, into memory that is already there.
"""

import argparse
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from mvcs import Repository
from mvcs.bench.tasks.clothes import CnnTask, ResNet
from mvcs.train import Checkpointer
from tests.bench import results

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


def copy_seconds(sources: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]) -> float:
    """Return the seconds of copying every tensor into memory that is already there."""
    start = time.perf_counter()
    for source, target in zip(sources, targets, strict=True):
        target.copy_(source)
    return time.perf_counter() - start


def seconds(called: Callable[[], object]) -> float:
    """Return the seconds of one call, what it returns being let go of included."""
    start = time.perf_counter()
    called()
    return time.perf_counter() - start


@dataclass(frozen=True)
class Round:
    """One commit and what it is set against, in ms."""

    copied: float
    stated: float
    blocked: float
    queue_wait: float
    encode: float
    write: float


def rounds(run: Run, targets: Sequence[torch.Tensor], commits: int) -> list[Round]:
    """Commit through the hook, and copy by hand and call `state_dict` between commits."""
    found = []
    with tempfile.TemporaryDirectory(prefix="mvcs-bench-") as folder:
        repository = Repository.init(pathlib.Path(folder))
        with Checkpointer(repository, run.model, run.optimizer, extra={"round": 0}, bins=16) as checkpointer:
            # The first two allocate and have no parent.
            for number in range(commits + 2):
                run.step()
                checkpointer.save(number)
                checkpointer.flush()
                run.step()
                copied = copy_seconds(tensors(run.model, run.optimizer), targets)
                run.step()
                stated = seconds(lambda: (run.model.state_dict(), run.optimizer.state_dict()))
                timing = checkpointer.timings[-1]
                times = (timing.blocked_ms, timing.queue_wait_ms, timing.encode_ms, timing.write_ms)
                found.append(Round(1000 * copied, 1000 * stated, *times))
    return found[2:]


TITLES = {
    "copied": "one copy of the state",
    "stated": "state_dict() alone",
    "blocked": "blocked by a commit",
    "queue_wait": "queue wait",
    "encode": "encode",
    "write": "write",
}


def figures(found: Sequence[Round]) -> dict[str, dict[str, float]]:
    """Return medians and the smallest of every time, in ms."""
    times = {name: [getattr(one, name) for one in found] for name in TITLES}
    return {
        "median_ms": {name: statistics.median(taken) for name, taken in times.items()},
        "least_ms": {name: min(taken) for name, taken in times.items()},
    }


def told(found: dict[str, dict[str, float]]) -> list[str]:
    """Return medians and the smallest, line by line."""
    median, least = found["median_ms"], found["least_ms"]
    lines = [f"{title:24}{median[name]:8.2f} {least[name]:8.2f} ms" for name, title in TITLES.items()]
    ratios = [each["blocked"] / each["copied"] for each in (median, least)]
    titles = f"{'':24}{'median':>8} {'least':>8} ms"
    return [titles, *lines, f"blocked / one copy      {ratios[0]:8.2f} {ratios[1]:8.2f}"]


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
    found = figures(rounds(run, targets, options.commits))
    size, load = sum(tensor.nbytes for tensor in targets) / 1e6, results.load()
    print(f"load {load:.1f}, {os.cpu_count()} cores, {options.commits} commits")
    print(f"{options.state}: {size:.1f} MB in {len(targets)} tensors")
    print("\n".join(told(found)))
    about = {"load": load, "state": options.state, "megabytes": size, "tensors": len(targets)}
    results.write(options.json, about | {"commits": options.commits} | found)


if __name__ == "__main__":
    main()
