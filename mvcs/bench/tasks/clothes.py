"""Telling ten classes of clothes apart, on Fashion-MNIST: a ResNet, and an MLP-Mixer with an average."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from mvcs.bench.data.images import Images, Pixels, fashion_mnist
from mvcs.bench.runs.tasks import (
    AveragingLearner,
    Constant,
    Cosine,
    Indices,
    Learner,
    SampleSizes,
    Schedule,
    digest,
    first_metrics,
)

CLASSES = 10

_VALID_BATCH = 500
CNN_SCHEDULE = Cosine(peak=0.1, floor=0.001, warm=50)
CNN_SAMPLES = SampleSizes(batch=100, search=40, verify=30, report=30, reported=30)
MIXER_SCHEDULE = Constant(peak=1e-3, warm=100)
MIXER_SAMPLES = SampleSizes(batch=50, search=100, verify=30, report=60, reported=30, searched_first=20)

_SIDE = 28
_DECAY = 0.999


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
    schedule: Schedule = CNN_SCHEDULE
    sample_sizes: SampleSizes = CNN_SAMPLES

    def model(self) -> ResNet:
        """Return a new model."""
        return ResNet(self.blocks)

    def learner(self, model: nn.Module) -> Learner:
        """Return the model with SGD and momentum."""
        rate = self.schedule.peak
        return Learner(model, torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=5e-4))


@dataclass(frozen=True)
class MixerSizes:
    """How large a mixer is: pixels of a patch's side, numbers a patch, layers, widths of the inner layers."""

    patch: int = 4
    width: int = 128
    layers: int = 4
    between: int = 64
    within: int = 512

    @property
    def patches(self) -> int:
        """Patches of a picture."""
        return (_SIDE // self.patch) ** 2


class Mixing(nn.Module):
    """Two layers between the patches of a channel, then two within each patch, both added to what went in."""

    def __init__(self, sizes: MixerSizes) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(sizes.width), nn.LayerNorm(sizes.width)
        self.between = _two_layers(sizes.patches, sizes.between)
        self.within = _two_layers(sizes.width, sizes.within)

    def forward(self, x: Tensor) -> Tensor:
        """Return the next layer's input, of the same shape [batch, patches, width]."""
        x = x + self.between(self.ln1(x).transpose(1, 2)).transpose(1, 2)
        added: Tensor = self.within(self.ln2(x))
        return x + added


def _two_layers(outer: int, inner: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(outer, inner), nn.GELU(), nn.Linear(inner, outer))


class Mixer(nn.Module):
    """MLP-Mixer (Tolstikhin et al. 2021) on grey pictures of 28 by 28 pixels."""

    def __init__(self, sizes: MixerSizes) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, sizes.width, sizes.patch, sizes.patch)
        self.layers = nn.Sequential(*(Mixing(sizes) for _ in range(sizes.layers)))
        self.norm = nn.LayerNorm(sizes.width)
        self.head = nn.Linear(sizes.width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [batch, 10] of pictures [batch, 1, 28, 28]."""
        found: Tensor = self.head(self.norm(self.layers(self.stem(x).flatten(2).transpose(1, 2))).mean(1))
        return found


@dataclass(frozen=True, kw_only=True)
class MixerTask(ClothesTask):
    """Ten classes of clothes at a constant learning rate; the average of the weights is part of the state.

    Attributes:
        sizes: of the model.
    """

    sizes: MixerSizes = MixerSizes()
    valid: int = 1000
    name: str = "mixer"
    schedule: Schedule = MIXER_SCHEDULE
    sample_sizes: SampleSizes = MIXER_SAMPLES

    def model(self) -> Mixer:
        """Return a new model."""
        return Mixer(self.sizes)

    def learner(self, model: nn.Module) -> Learner:
        """Return the model with AdamW and with the average of its weights."""
        optimizer = torch.optim.AdamW(model.parameters(), lr=self.schedule.peak, weight_decay=0.05)
        return AveragingLearner(model, optimizer, _DECAY)
