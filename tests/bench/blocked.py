"""How long a training thread stands still for a commit, against one plain copy of the same state.

    python tests/bench/blocked.py [--megabytes 200] [--commits 10]

Both are measured in one run, in turn, on the state that the hook itself captures.
"""

import argparse
import os
import pathlib
import statistics
import tempfile
import time

import torch

from mvcs import Repository
from mvcs.train import Checkpointer


def build(megabytes: int) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """Return a model whose weights and two moments take about so many megabytes, after one step."""
    width = 1024
    layers = max(1, megabytes * 1_000_000 // (3 * 4 * width * width))
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(layers)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step(model, optimizer)
    return model, optimizer


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Make one optimizer step on random data."""
    optimizer.zero_grad()
    model(torch.randn(4, 1024)).square().mean().backward()
    optimizer.step()


def tensors(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return every tensor of the state."""
    values = (value for state in optimizer.state.values() for value in state.values())
    moments = [value for value in values if torch.is_tensor(value)]
    return [*(parameter.detach() for parameter in model.parameters()), *moments]


def copy_seconds(sources: list[torch.Tensor], targets: list[torch.Tensor]) -> float:
    """Return the seconds of copying every tensor into memory that is already there."""
    start = time.perf_counter()
    for source, target in zip(sources, targets, strict=True):
        target.copy_(source)
    return time.perf_counter() - start


def main() -> None:
    """Commit through the hook, copying the state by hand between commits, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--commits", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model, optimizer = build(options.megabytes)
    targets = [torch.empty_like(tensor) for tensor in tensors(model, optimizer)]
    size = sum(tensor.nbytes for tensor in targets)
    copies = []
    with tempfile.TemporaryDirectory(prefix="mvcs-bench-") as folder:
        repository = Repository.init(pathlib.Path(folder))
        with Checkpointer(repository, model, optimizer, every=1, bins=16) as checkpointer:
            for number in range(options.commits + 1):
                step(model, optimizer)
                checkpointer.after_step(number)
                checkpointer.flush()
                copies.append(copy_seconds(tensors(model, optimizer), targets))
            timings = list(checkpointer.timings)
    blocked = statistics.median(timing.blocked_ms for timing in timings[1:])
    copied = 1000 * statistics.median(copies[1:])
    load = f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores"
    print(f"{load}, state {size / 1e6:.0f} MB, {options.commits} commits")
    print(f"one copy of the state {copied:8.1f} ms")
    print(f"blocked by a commit   {blocked:8.1f} ms  {blocked / copied:.2f} x one copy")
    for name in ("queue_wait_ms", "encode_ms", "write_ms"):
        print(f"{name:21} {statistics.median(getattr(timing, name) for timing in timings[1:]):8.1f} ms")


if __name__ == "__main__":
    main()
