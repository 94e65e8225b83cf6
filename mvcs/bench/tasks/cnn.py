"""A small ResNet of 1.6 million parameters, trained on Fashion-MNIST with momentum."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from mvcs.bench.data.images import Images, Pixels, fashion_mnist
from mvcs.bench.runs.learner import Learner
from mvcs.bench.runs.schedules import Cosine, Schedule
from mvcs.bench.runs.tasks import Indices, SampleSizes, digest

SCHEDULE = Cosine(peak=0.1, floor=0.001, warm=50)
SAMPLES = SampleSizes(batch=100, search=40, verify=30, report=30, reported=30)

_CLASSES = 10
_VALID_BATCH = 500


class Residual(nn.Module):
    """Two convolutions with BatchNorm, added to what went in."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.c1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.b1 = nn.BatchNorm2d(outputs)
        self.c2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.b2 = nn.BatchNorm2d(outputs)
        self.sc: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.sc = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return the next layer's input."""
        inner = functional.relu(self.b1(self.c1(x)))
        return functional.relu(self.b2(self.c2(inner)) + self.sc(x))


class ResNet(nn.Module):
    """Residual blocks of the given widths and strides behind a strided convolution, then a mean."""

    def __init__(self, blocks: tuple[tuple[int, int], ...]) -> None:
        super().__init__()
        first, last = blocks[0][0], blocks[-1][0]
        self.stem = nn.Conv2d(1, first, 3, 2, 1, bias=False)
        self.bn = nn.BatchNorm2d(first)
        before = [first, *(width for width, _ in blocks)]
        layers = [
            Residual(inputs, width, stride) for inputs, (width, stride) in zip(before, blocks, strict=False)
        ]
        self.body = nn.Sequential(*layers)
        self.fc = nn.Linear(last, _CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [batch, 10] of pictures [batch, 1, height, width]."""
        found: Tensor = self.fc(self.body(functional.relu(self.bn(self.stem(x)))).mean((2, 3)))
        return found


@dataclass(frozen=True)
class CnnTask:
    """Ten classes of clothes: random horizontal flips of whole batches, weight decay on everything.

    Attributes:
        blocks: width and stride of each residual block.
        batch: pictures a step.
        valid: pictures of the test set that are evaluated, the first ones.
        images: the pictures.
        sample_sizes: of samples of test pictures.
    """

    blocks: tuple[tuple[int, int], ...] = (
        (32, 1),
        (32, 1),
        (64, 2),
        (64, 1),
        (128, 2),
        (128, 1),
        (256, 1),
    )
    batch: int = 64
    valid: int = 4000
    images: Images = field(default_factory=fashion_mnist)
    name: str = "cnn"
    schedule: Schedule = SCHEDULE
    sample_sizes: SampleSizes = SAMPLES

    @cached_property
    def data(self) -> str:
        """A digest of pictures and labels."""
        images = self.images
        return digest(images.train, images.train_labels, images.test, images.test_labels)

    @property
    def held_out(self) -> int:
        """Test pictures."""
        return len(self.images.test)

    def model(self) -> ResNet:
        """Return a new model."""
        return ResNet(self.blocks)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return SGD with momentum."""
        return torch.optim.SGD(model.parameters(), lr=self.schedule.peak, momentum=0.9, weight_decay=5e-4)

    def learner(self, model: nn.Module) -> Learner:
        """Return the model with its optimizer."""
        return Learner(model, self.optimizer(model))

    def loss(self, model: nn.Module, generator: np.random.Generator) -> Tensor:
        """Return the loss on random training pictures, flipped or not."""
        chosen = generator.integers(0, len(self.images.train), self.batch)
        pictures = _scaled(self.images.train[chosen])
        if generator.random() < 0.5:
            pictures = pictures.flip(3)
        return functional.cross_entropy(model(pictures), _labels(self.images.train_labels[chosen]))

    def limit(self, model: nn.Module) -> None:
        """Leave the gradients as they are."""

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Return loss and accuracy on the first test pictures."""
        chosen = np.arange(min(self.valid, self.held_out))
        model.eval()
        parts = [
            self.sums(model, chosen[start : start + _VALID_BATCH])
            for start in range(0, len(chosen), _VALID_BATCH)
        ]
        model.train()
        return {f"val_{name}": sum(part[name] for part in parts) / len(chosen) for name in parts[0]}

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
