"""What a training run learns: a model and what learns it, its rate and data by step, held-out samples."""

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from mvcs.errors import UsageError
from mvcs.train import Stateful

Indices = NDArray[np.int64]
SEED = 20_000_000
"""Of the order in which held-out examples are dealt to the samples."""


class Schedule(Protocol):
    """A learning rate for each step."""

    @property
    def peak(self) -> float:
        """The learning rate after the warm-up."""
        ...

    def rate(self, step: int, steps: int, /) -> float:
        """Return the learning rate of one step of `steps`."""
        ...


@dataclass(frozen=True)
class Cosine:
    """A linear warm-up, then half a cosine.

    Attributes:
        peak: the learning rate after the warm-up.
        floor: the share of the peak at the last step.
        warm: steps of the warm-up.
    """

    peak: float
    floor: float
    warm: int

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of one step of `steps`."""
        if step < self.warm:
            return self.peak * (step + 1) / self.warm
        done = (step - self.warm) / max(steps - self.warm, 1)
        return self.peak * (self.floor + (1 - self.floor) * (1 + math.cos(math.pi * done)) / 2)


@dataclass(frozen=True)
class Constant:
    """A linear warm-up, then always the same.

    Attributes:
        peak: the learning rate after the warm-up.
        warm: steps of the warm-up.
    """

    peak: float
    warm: int

    def rate(self, step: int, _steps: int) -> float:
        """Return the learning rate of one step, however many there are."""
        return self.peak * min((step + 1) / max(self.warm, 1), 1.0)


class Learner:
    """A model and its optimizer.

    Attributes:
        model: computes in training.
        optimizer: the first one, or the only one.
        extra: what else belongs to the state, by the name that it is saved under.
    """

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, extra: Mapping[str, Stateful] | None = None
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.extra = dict(extra or {})

    def set_rate(self, rate: float) -> None:
        """Give all optimizers a learning rate."""
        for optimizer in self._optimizers():
            for group in optimizer.param_groups:
                group["lr"] = rate

    def update(self) -> None:
        """Make a step by the gradients that stand in the model."""
        for optimizer in self._optimizers():
            optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of everything; its tensors are the live ones."""
        extra = {name: part.state_dict() for name, part in self.extra.items()}
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), **extra}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load what `state_dict` returned; further entries are passed over.

        Raises:
            KeyError: a part is missing.
            RuntimeError: the model is another one.
            ValueError: the optimizer is.
        """
        missing = {"model", "optimizer", *self.extra} - state.keys()
        if missing:
            raise KeyError(*sorted(missing))
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        for name, part in self.extra.items():
            part.load_state_dict(state[name])

    def _optimizers(self) -> Iterator[torch.optim.Optimizer]:
        yield self.optimizer
        for part in self.extra.values():
            if isinstance(part, torch.optim.Optimizer):
                yield part


class AveragingLearner(Learner):
    """Keeps an exponential moving average of the weights beside them, as "ema"."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, decay: float) -> None:
        self._average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))  # type: ignore[no-untyped-call] # torch gives it no types
        super().__init__(model, optimizer, {"ema": self._average})

    def update(self) -> None:
        """Make a step, and let the average follow."""
        super().update()
        self._average.update_parameters(self.model)


class MasterLearner(Learner):
    """Learns float32 masters, saved as "masters", of a model whose weights are narrower.

    The optimizer has to have been made of the masters.
    """

    def __init__(self, model: nn.Module, masters: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._masters = masters
        super().__init__(model, optimizer, {"masters": masters})

    def update(self) -> None:
        """Widen the gradients, make a step with the masters, and round them into the model."""
        pairs = list(zip(self.model.parameters(), self._masters.parameters(), strict=True))
        for weight, master in pairs:
            master.grad = None if weight.grad is None else weight.grad.to(master.dtype)
        super().update()
        with torch.no_grad():
            for weight, master in pairs:
                weight.copy_(master)


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
