"""What committing through the hook costs a training run: processor's time on all threads, and standing still.

    python -m tests.bench.overhead DIR --task gpt [--pairs 8] [--steps 8] [--step-size 0.5] [--moments light]

The same steps are trained twice from each of some recorded checkpoints, without and with a commit of that
checkpoint, in turn; loading is not timed. What a commit costs is the difference in the processor's seconds
of the whole process, and on top of it the seconds that training stood still. That is set against training
for as long as the recording's cadence, and for 3 minutes. Searching for steps is not part of it: `mvcs bench
bounded` tells what that takes.
"""

import argparse
import os
import pathlib
import statistics
import tempfile
import time
from dataclasses import dataclass
from functools import partial

import torch

from mvcs import Repository
from mvcs.bench.codecs.clock import seconds
from mvcs.bench.runs.checkpoint_files import Checkpoint, checkpoints
from mvcs.bench.runs.run_maker import load_recorded, one_thread, train_step
from mvcs.bench.runs.tasks import Task
from mvcs.bench.tasks.catalog import RECIPES
from mvcs.train import Checkpointer
from tests.bench import results
from tests.bench.blocked import copy, tensors
from tests.bench.restores import given_task

CADENCE = 180.0
"""Seconds of training from commit to commit."""


@dataclass(frozen=True)
class Pair:
    """The same steps without and with a commit, in seconds.

    Attributes:
        plain: of the processor, training alone.
        committing: the same with a commit.
        blocked: of the clock, training standing still.
        copied: of the clock, one plain copy of the state.
        codec: of the processor beside the training, as the hook measures it.
    """

    plain: float
    committing: float
    blocked: float
    copied: float
    codec: float

    @property
    def extra(self) -> float:
        """Seconds of the processor that the commit took."""
        return self.committing - self.plain


class Overhead:
    """Trains from recorded checkpoints, with and without a commit."""

    def __init__(self, task: Task, source: list[Checkpoint], steps: int) -> None:
        self.task, self.last, self.steps = task, source[-1].step, steps
        self.learner = task.learner(task.model())
        self.model, self.optimizer = self.learner.model, self.learner.optimizer

    def pair(self, checkpoint: Checkpoint, checkpointer: Checkpointer) -> Pair:
        """Train the same steps twice from one checkpoint."""
        plain = self.train(checkpoint, None)
        committing = self.train(checkpoint, checkpointer)
        own = tensors(self.model, self.optimizer)
        targets = [torch.empty_like(tensor) for tensor in own]
        copies = [seconds(partial(copy, own, targets), time.perf_counter) for _ in range(5)]
        timings = checkpointer.timings[-1]
        blocked = timings.blocked_ms + timings.queue_wait_ms
        return Pair(plain, committing, blocked / 1e3, statistics.median(copies), timings.processor_ms / 1e3)

    def train(self, checkpoint: Checkpoint, checkpointer: Checkpointer | None) -> float:
        """Return the processor's seconds of the steps, and of a commit before them."""
        load_recorded(checkpoint.path, self.learner)
        began = time.process_time()
        if checkpointer is not None:
            checkpointer.save(checkpoint.step)
        for step in range(checkpoint.step, checkpoint.step + self.steps):
            train_step(self.task, self.learner, step, self.last, 0)
        if checkpointer is not None:
            checkpointer.flush()
            if checkpointer.failures:
                raise SystemExit(str(checkpointer.failures[-1]))
        return time.process_time() - began


def measured(task: Task, source: list[Checkpoint], given: argparse.Namespace) -> list[Pair]:
    """Return one pair for each checkpoint used; the first commit, which has no parent, is left out."""
    overhead = Overhead(task, source, given.steps)
    middle = (len(source) - given.pairs - 1) // 2
    options = {"step_size": given.step_size, "moments": given.moments}
    with tempfile.TemporaryDirectory(prefix="mvcs-bench-") as folder:
        repository = Repository.init(pathlib.Path(folder))
        with Checkpointer(
            repository, overhead.model, overhead.optimizer, extra={"data": "drawn from the step"}, **options
        ) as checkpointer:
            chosen = source[middle : middle + given.pairs + 1]
            return [overhead.pair(checkpoint, checkpointer) for checkpoint in chosen][1:]


def figures(pairs: list[Pair], steps: int, every: int) -> dict[str, float]:
    """Return seconds of a step and of a commit, and the shares of training that a commit takes."""
    step = statistics.median(pair.plain for pair in pairs) / steps
    extra = [pair.extra for pair in pairs]
    blocked = statistics.median(pair.blocked for pair in pairs)
    cost = statistics.fmean(extra) + blocked
    return {
        "commits": len(extra),
        "step_s": step,
        "extra_s": statistics.fmean(extra),
        "extra_error_s": statistics.stdev(extra) / len(extra) ** 0.5,
        "beside_s": statistics.median(pair.codec for pair in pairs),
        "blocked_s": blocked,
        "blocked_copies": blocked / statistics.median(pair.copied for pair in pairs),
        "every": every,
        "share": cost / (every * step),
        "share_of_cadence": cost / CADENCE,
    }


def told(found: dict[str, float]) -> list[str]:
    """Return what was found, line by line."""
    mean, error, count = found["extra_s"], found["extra_error_s"], found["commits"]
    copies = found["blocked_copies"]
    shares = f"{found['share']:.3%}; every {CADENCE:.0f} s: {found['share_of_cadence']:.3%}"
    return [
        f"a step of training    {found['step_s']:8.3f} s of the processor",
        f"a commit              {mean:8.3f} s ± {error:.3f}, mean of {count} differences",
        f"  beside the training {found['beside_s']:8.3f} s, as the hook measures it, median",
        f"  training blocked    {found['blocked_s']:8.4f} s, {copies:.2f} x one copy of the state",
        f"every {found['every']} steps: {shares}",
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--task", choices=tuple(RECIPES), required=True)
    parser.add_argument("--pairs", type=int, default=8, help="checkpoints in the middle of the run")
    parser.add_argument("--steps", type=int, default=8, help="trained from each of them")
    parser.add_argument("--step-size", type=float, default=0.5)
    parser.add_argument("--moments", default="light")
    parser.add_argument("--train-text", type=pathlib.Path, help="for gpt: what the recorded run learned from")
    parser.add_argument("--text", type=pathlib.Path, help="for gpt: what it has not seen")
    results.add_option(parser)
    given = parser.parse_args()
    source = checkpoints(given.source)
    with one_thread(0):
        pairs = measured(given_task(given.task, given.train_text, given.text), source, given)
    found, load = figures(pairs, given.steps, source[1].step - source[0].step), results.load()
    print(f"load {load:.1f}, {os.cpu_count()} cores, {given.source.name}")
    print("\n".join(told(found)))
    megabytes = source[-1].path.stat().st_size / 1e6
    results.write(given.json, {"load": load, "task": given.task, "megabytes": megabytes} | found)


if __name__ == "__main__":
    main()
