"""A recurrent model of 1.2 million parameters that predicts the standard library's source, byte by byte."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from mvcs.bench.runs.learner import Learner
from mvcs.bench.runs.samples import first_metrics
from mvcs.bench.runs.schedules import Constant, Schedule
from mvcs.bench.runs.tasks import SampleSizes
from mvcs.bench.tasks.next_byte import TextTask

SGD_SCHEDULE = Constant(peak=0.5, warm=40)
ADAGRAD_SCHEDULE = Constant(peak=0.02, warm=40)
RMSPROP_SCHEDULE = Constant(peak=1e-3, warm=40)
SAMPLES = SampleSizes(batch=8, search=96, verify=24, report=64, reported=32, searched_first=16)

_VALID_BATCH = 32


@dataclass(frozen=True)
class GruSizes:
    """How large the model is: numbers a byte, width of the recurrent layer, bytes of context."""

    embedded: int = 128
    width: int = 512
    context: int = 96


class Gru(nn.Module):
    """Predicts the next byte from a state that each byte changes (Cho et al. 2014)."""

    def __init__(self, sizes: GruSizes) -> None:
        super().__init__()
        self.tok = nn.Embedding(256, sizes.embedded)
        self.gru = nn.GRU(sizes.embedded, sizes.width, batch_first=True)
        self.head = nn.Linear(sizes.width, 256)

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss in nats a byte; both arguments are int64 [batch, context]."""
        logits = self.head(self.gru(self.tok(inputs))[0])
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


@dataclass(frozen=True, kw_only=True)
class GruTask(TextTask):
    """Every piece of text begins with an empty state; SGD with momentum learns the model.

    Attributes:
        sizes: of the model.
        valid: pieces of the validation text that are evaluated, the first ones.
    """

    sizes: GruSizes = GruSizes()
    valid: int = 128
    batch: int = 16
    name: str = "gru"
    schedule: Schedule = SGD_SCHEDULE
    sample_sizes: SampleSizes = SAMPLES

    @property
    def context(self) -> int:
        """Bytes of a piece."""
        return self.sizes.context

    def model(self) -> Gru:
        """Return a new model."""
        return Gru(self.sizes)

    def learner(self, model: nn.Module) -> Learner:
        """Return the model with SGD and momentum."""
        return Learner(model, torch.optim.SGD(model.parameters(), lr=self.schedule.peak, momentum=0.9))

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Return the loss on the first pieces of the validation text, in nats a byte."""
        return first_metrics(self, self.valid, _VALID_BATCH, model)


@dataclass(frozen=True, kw_only=True)
class AdagradTask(GruTask):
    """The same with Adagrad."""

    name: str = "gru-adagrad"
    schedule: Schedule = ADAGRAD_SCHEDULE

    def learner(self, model: nn.Module) -> Learner:
        """Return the model with Adagrad."""
        return Learner(model, torch.optim.Adagrad(model.parameters(), lr=self.schedule.peak))


@dataclass(frozen=True, kw_only=True)
class RmspropTask(GruTask):
    """The same with RMSprop."""

    name: str = "gru-rmsprop"
    schedule: Schedule = RMSPROP_SCHEDULE

    def learner(self, model: nn.Module) -> Learner:
        """Return the model with RMSprop."""
        return Learner(model, torch.optim.RMSprop(model.parameters(), lr=self.schedule.peak))


GRU_TASKS = {"gru": GruTask, "gru-adagrad": AdagradTask, "gru-rmsprop": RmspropTask}
