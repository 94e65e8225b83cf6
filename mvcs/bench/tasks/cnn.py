"""A small ResNet of 1.6 million parameters, trained on Fashion-MNIST with momentum."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from mvcs.bench.runs.learner import Learner
from mvcs.bench.runs.schedules import Cosine, Schedule
from mvcs.bench.runs.tasks import SampleSizes
from mvcs.bench.tasks.clothes import CLASSES, ClothesTask

SCHEDULE = Cosine(peak=0.1, floor=0.001, warm=50)
SAMPLES = SampleSizes(batch=100, search=40, verify=30, report=30, reported=30)


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
        self.fc = nn.Linear(last, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [batch, 10] of pictures [batch, 1, height, width]."""
        found: Tensor = self.fc(self.body(functional.relu(self.bn(self.stem(x)))).mean((2, 3)))
        return found


@dataclass(frozen=True, kw_only=True)
class CnnTask(ClothesTask):
    """A learning rate of half a cosine, and weight decay on everything.

    Attributes:
        blocks: width and stride of each residual block.
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
    name: str = "cnn"
    schedule: Schedule = SCHEDULE
    sample_sizes: SampleSizes = SAMPLES

    def model(self) -> ResNet:
        """Return a new model."""
        return ResNet(self.blocks)

    def learner(self, model: nn.Module) -> Learner:
        """Return the model with SGD and momentum."""
        rate = self.schedule.peak
        return Learner(model, torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=5e-4))
