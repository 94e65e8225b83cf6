"""Predicting the next byte of a text."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from mvcs.bench.data.text import Corpus, Text, standard_library
from mvcs.bench.runs.learner import Learner
from mvcs.bench.runs.schedules import Schedule
from mvcs.bench.runs.tasks import Indices, SampleSizes, digest


@dataclass(frozen=True, kw_only=True)
class TextTask(ABC):
    """Random pieces of a text; held-out examples are pieces of other text, one behind the other.

    Attributes:
        name: of the task.
        schedule: of the learning rate.
        sample_sizes: of samples of pieces of the validation text.
        batch: pieces a step.
        corpus: the text.
        clip: the largest norm of all gradients.
    """

    name: str
    schedule: Schedule
    sample_sizes: SampleSizes
    batch: int
    corpus: Corpus = field(default_factory=standard_library)
    clip: float = 1.0

    @property
    @abstractmethod
    def context(self) -> int:
        """Bytes of a piece."""

    @cached_property
    def data(self) -> str:
        """A digest of the text."""
        return digest(self.corpus.train, self.corpus.valid)

    @property
    def held_out(self) -> int:
        """Pieces of the validation text, one behind the other."""
        return len(self.corpus.valid) // (self.context + 1)

    @abstractmethod
    def model(self) -> nn.Module:
        """Return a new model, which gives the mean loss of inputs and targets."""

    @abstractmethod
    def learner(self, model: nn.Module) -> Learner:
        """Return the model with what learns it."""

    def loss(self, model: nn.Module, generator: np.random.Generator) -> Tensor:
        """Return the loss on random pieces of the training text."""
        found: Tensor = model(*self.pieces(self.corpus.train, generator))
        return found

    def sums(self, model: nn.Module, chosen: Indices) -> dict[str, float]:
        """Return the sum of the mean losses of pieces, in nats a byte, in float32."""
        with torch.no_grad():
            mean = float(model(*self._cut(self.corpus.valid, chosen * (self.context + 1))))
        return {"loss": mean * len(chosen)}

    def pieces(self, text: Text, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Return random pieces as int64 inputs and targets [batch, context]."""
        last = len(text) - self.context
        return self._cut(text, generator.integers(0, last, self.batch))

    def _cut(self, text: Text, starts: Indices) -> tuple[Tensor, Tensor]:
        length = self.context + 1
        pieces = np.stack([text[start : start + length] for start in starts]).astype(np.int64)
        batch = torch.from_numpy(pieces)
        return batch[:, :-1], batch[:, 1:]
