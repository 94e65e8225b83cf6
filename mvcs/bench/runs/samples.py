"""Disjoint samples of held-out data: to search with, to verify the search by, and to report on."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from torch import nn

from mvcs.bench.runs.tasks import Indices, Task
from mvcs.errors import UsageError

SEED = 20_000_000
"""Of the order in which held-out examples are dealt to the samples."""


@dataclass(frozen=True)
class Sample:
    """Held-out examples in batches, always the same ones in the same order.

    Attributes:
        task: whose examples.
        chosen: int64 [n], their numbers.
        batch: examples in a batch.
    """

    task: Task = field(repr=False)
    chosen: Indices = field(repr=False)
    batch: int

    def evaluate(self, model: nn.Module) -> Iterator[tuple[float, float]]:
        """Yield the sum of the losses of each batch and how many examples it has; leaves eval mode on."""
        model.eval()
        for part in self._batches():
            yield self.task.sums(model, part)["loss"], float(len(part))

    def metrics(self, model: nn.Module) -> dict[str, float]:
        """Return the means of all metrics over the sample; the model stays in the mode it was in."""
        training = model.training
        model.eval()
        parts = [self.task.sums(model, part) for part in self._batches()]
        model.train(training)
        return {name: sum(part[name] for part in parts) / len(self.chosen) for name in parts[0]}

    def first(self, batches: int) -> "Sample":
        """Return a sample of the first batches alone."""
        return replace(self, chosen=self.chosen[: batches * self.batch])

    def _batches(self) -> Iterator[Indices]:
        for start in range(0, len(self.chosen), self.batch):
            yield self.chosen[start : start + self.batch]


@dataclass(frozen=True)
class Samples:
    """The samples of one task; no example is in two of them.

    Attributes:
        search: what commits are checked with.
        verify: tells whether those checks were right.
        report: results are about this one.
    """

    search: Sample
    verify: Sample
    report: Sample


def samples_of(task: Task) -> Samples:
    """Deal the task's held-out examples, in a seeded random order, to the samples.

    Raises:
        UsageError: there are too few.
    """
    sizes = task.sample_sizes
    ends = np.cumsum([sizes.batch * count for count in (sizes.search, sizes.verify, sizes.report)])
    if ends[-1] > task.held_out:
        raise UsageError(
            f"{task.name} has {task.held_out} held-out examples and the samples need {ends[-1]}",
            hint="give more data to evaluate on",
        )
    order = np.random.default_rng(SEED).permutation(task.held_out).astype(np.int64)
    parts = np.split(order, ends)[:3]
    return Samples(*(Sample(task, part, sizes.batch) for part in parts))


def everything(task: Task) -> Sample:
    """Return all held-out examples in their own order."""
    return Sample(task, np.arange(task.held_out, dtype=np.int64), task.sample_sizes.batch)


def first_metrics(task: Task, count: int, batch: int, model: nn.Module) -> dict[str, float]:
    """Return the means of all metrics over the first held-out examples, their names behind "val_"."""
    chosen = np.arange(min(count, task.held_out), dtype=np.int64)
    found = Sample(task, chosen, batch).metrics(model)
    return {f"val_{name}": mean for name, mean in found.items()}
