"""An MLP-Mixer of 0.6 million parameters, trained on Fashion-MNIST with AdamW; its weights are averaged."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mvcs.bench.runs.learner import AveragingLearner, Learner
from mvcs.bench.runs.schedules import Constant, Schedule
from mvcs.bench.runs.tasks import SampleSizes
from mvcs.bench.tasks.clothes import CLASSES, ClothesTask

SCHEDULE = Constant(peak=1e-3, warm=100)
SAMPLES = SampleSizes(batch=50, search=100, verify=30, report=60, reported=30, searched_first=20)

_SIDE = 28
_DECAY = 0.999


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
    schedule: Schedule = SCHEDULE
    sample_sizes: SampleSizes = SAMPLES

    def model(self) -> Mixer:
        """Return a new model."""
        return Mixer(self.sizes)

    def learner(self, model: nn.Module) -> Learner:
        """Return the model with AdamW and with the average of its weights."""
        optimizer = torch.optim.AdamW(model.parameters(), lr=self.schedule.peak, weight_decay=0.05)
        return AveragingLearner(model, optimizer, _DECAY)
