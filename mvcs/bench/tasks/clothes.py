"""Telling ten classes of clothes apart, on Fashion-MNIST."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from mvcs.bench.data.images import Images, Pixels, fashion_mnist
from mvcs.bench.runs.learner import Learner
from mvcs.bench.runs.samples import first_metrics
from mvcs.bench.runs.schedules import Schedule
from mvcs.bench.runs.tasks import Indices, SampleSizes, digest

CLASSES = 10

_VALID_BATCH = 500


@dataclass(frozen=True, kw_only=True)
class ClothesTask(ABC):
    """Random pictures, whole batches of them flipped or not.

    Attributes:
        batch: pictures a step.
        valid: pictures of the test set that are evaluated, the first ones.
        clip: gradients are left as they are.
        images: the pictures.
        name: of the task.
        schedule: of the learning rate.
        sample_sizes: of samples of test pictures.
    """

    name: str
    schedule: Schedule
    sample_sizes: SampleSizes
    batch: int = 64
    valid: int = 4000
    clip: None = None
    images: Images = field(default_factory=fashion_mnist)

    @cached_property
    def data(self) -> str:
        """A digest of pictures and labels."""
        images = self.images
        return digest(images.train, images.train_labels, images.test, images.test_labels)

    @property
    def held_out(self) -> int:
        """Test pictures."""
        return len(self.images.test)

    @abstractmethod
    def model(self) -> nn.Module:
        """Return a new model of pictures."""

    @abstractmethod
    def learner(self, model: nn.Module) -> Learner:
        """Return the model with what learns it."""

    def loss(self, model: nn.Module, generator: np.random.Generator) -> Tensor:
        """Return the loss on random training pictures, flipped or not."""
        chosen = generator.integers(0, len(self.images.train), self.batch)
        pictures = _scaled(self.images.train[chosen])
        if generator.random() < 0.5:
            pictures = pictures.flip(3)
        return functional.cross_entropy(model(pictures), _labels(self.images.train_labels[chosen]))

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Return loss and accuracy on the first test pictures."""
        return first_metrics(self, self.valid, _VALID_BATCH, model)

    def sums(self, model: nn.Module, chosen: Indices) -> dict[str, float]:
        """Return the sum of the losses of test pictures, and how many are told right."""
        wanted = _labels(self.images.test_labels[chosen])
        with torch.no_grad():
            logits = model(_scaled(self.images.test[chosen]))
            loss = float(functional.cross_entropy(logits, wanted, reduction="sum"))
        return {"loss": loss, "accuracy": float((logits.argmax(1) == wanted).sum())}


def _scaled(pictures: Pixels) -> Tensor:
    """Return pictures as float32 [n, 1, height, width] from -1 to 1."""
    return torch.from_numpy(pictures.astype(np.float32)[:, None] / 255 * 2 - 1)


def _labels(labels: Pixels) -> Tensor:
    return torch.from_numpy(labels.astype(np.int64))
