"""What a training run learns: a model and what learns it, its data by step, and how it is evaluated."""

import hashlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from mvcs.bench.runs.learner import Learner
from mvcs.bench.runs.schedules import Schedule

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class SampleSizes:
    """How much held-out data is evaluated.

    Attributes:
        batch: examples in a batch.
        search: batches that commits are checked with.
        verify: batches that tell whether the checks were right.
        report: batches that results are reported on.
        reported: how many of those for each commit, the first ones.
        searched_first: batches of `search` that the first commit takes, later ones as many as their noise
            asks for; None where all commits take all.
    """

    batch: int
    search: int
    verify: int
    report: int
    reported: int
    searched_first: int | None = None


class Task(Protocol):
    """Everything about a run but its length. The same step has the same data every time."""

    @property
    def name(self) -> str:
        """What the task is called, such as "gpt"."""
        ...

    @property
    def data(self) -> str:
        """A digest of the training data, so that a run is never continued on other data."""
        ...

    @property
    def schedule(self) -> Schedule:
        """How the learning rate moves."""
        ...

    @property
    def clip(self) -> float | None:
        """The largest norm of all gradients together; None where they are left as they are."""
        ...

    @property
    def held_out(self) -> int:
        """How many examples there are that training does not see; they do not overlap."""
        ...

    @property
    def sample_sizes(self) -> SampleSizes:
        """How many of those are evaluated."""
        ...

    def model(self) -> nn.Module:
        """Return a new model, initialised from torch's generator."""
        ...

    def learner(self, model: nn.Module) -> Learner:
        """Return the model with a new optimizer, and whatever else the run's state has."""
        ...

    def loss(self, model: nn.Module, generator: np.random.Generator) -> Tensor:
        """Return the loss on the batch that `generator` draws."""
        ...

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Return metrics on the same validation data each time; the model stays in training mode."""
        ...

    def sums(self, model: nn.Module, chosen: Indices) -> dict[str, float]:
        """Return sums of metrics, "loss" among them, over held-out examples; the model is in eval mode."""
        ...


def digest(*arrays: NDArray[np.uint8]) -> str:
    """Return a digest of data, as hexadecimal digits."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()
