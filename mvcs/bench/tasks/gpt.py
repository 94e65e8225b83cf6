"""A byte-level GPT of 4.9 million parameters, trained on the standard library's source with AdamW."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from mvcs.bench.runs.learner import Learner
from mvcs.bench.runs.schedules import Constant, Cosine, Schedule
from mvcs.bench.runs.tasks import SampleSizes
from mvcs.bench.tasks.next_byte import TextTask

SCHEDULE = Cosine(peak=1.5e-3, floor=0.03, warm=100)
SAMPLES = SampleSizes(batch=3, search=48, verify=32, report=192, reported=32)

_VALID_SEED = 10_000_000


@dataclass(frozen=True)
class Sizes:
    """How large a GPT is: width of a layer, layers, attention heads, bytes of context."""

    width: int = 256
    layers: int = 6
    heads: int = 4
    context: int = 192


SMALL = Sizes(width=128, layers=4, heads=4, context=128)
"""0.9 million parameters, for runs that are about something else than the model."""
SMALL_SCHEDULE = Constant(peak=1e-3, warm=40)
SMALL_SAMPLES = SampleSizes(batch=4, search=160, verify=32, report=128, reported=32, searched_first=32)


class Block(nn.Module):
    """Causal attention, then a layer on each byte of its own; both behind a LayerNorm and added."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.ln1 = nn.LayerNorm(sizes.width)
        self.qkv = nn.Linear(sizes.width, 3 * sizes.width)
        self.proj = nn.Linear(sizes.width, sizes.width)
        self.ln2 = nn.LayerNorm(sizes.width)
        self.fc1 = nn.Linear(sizes.width, 4 * sizes.width)
        self.fc2 = nn.Linear(4 * sizes.width, sizes.width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the next layer's input, of the same shape [batch, context, width]."""
        batch, length, width = x.shape
        parts = self.qkv(self.ln1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.proj(seen.transpose(1, 2).reshape(batch, length, width))
        added: Tensor = self.fc2(functional.gelu(self.fc1(self.ln2(x))))
        return x + added


class Gpt(nn.Module):
    """Predicts the next byte; the tables of input and output are two tensors."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.tok = nn.Embedding(256, sizes.width)
        self.pos = nn.Embedding(sizes.context, sizes.width)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.lnf = nn.LayerNorm(sizes.width)
        self.head = nn.Linear(sizes.width, 256, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=_spread(name, sizes.layers))
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss in nats a byte; both arguments are int64 [batch, context]."""
        x = self.tok(inputs) + self.pos.weight[: inputs.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.lnf(x))
        return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def _spread(name: str, layers: int) -> float:
    """Return the standard deviation of initial weights; what adds to the residual stream starts smaller."""
    return 0.02 / math.sqrt(2 * layers) if name.endswith(("proj.weight", "fc2.weight")) else 0.02


@dataclass(frozen=True, kw_only=True)
class GptTask(TextTask):
    """Next-byte prediction with bfloat16 autocast on float32 weights.

    Attributes:
        sizes: of the model.
        valid_batches: batches of validation data.
    """

    sizes: Sizes = Sizes()
    valid_batches: int = 6
    batch: int = 12
    name: str = "gpt"
    schedule: Schedule = SCHEDULE
    sample_sizes: SampleSizes = SAMPLES

    @property
    def context(self) -> int:
        """Bytes of a piece."""
        return self.sizes.context

    def model(self) -> nn.Module:
        """Return a new model."""
        return Gpt(self.sizes)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return AdamW, with weight decay on tensors of two and more dimensions only."""
        decayed = [parameter for parameter in model.parameters() if parameter.dim() >= 2]
        others = [parameter for parameter in model.parameters() if parameter.dim() < 2]
        groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=self.schedule.peak, betas=(0.9, 0.95))

    def learner(self, model: nn.Module) -> Learner:
        """Return the model with its optimizer."""
        return Learner(model, self.optimizer(model))

    def loss(self, model: nn.Module, generator: np.random.Generator) -> Tensor:
        """Return the loss on random pieces of the training text."""
        with torch.autocast("cpu", torch.bfloat16):
            return super().loss(model, generator)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Return the loss on fixed pieces of the validation text, in nats a byte, in float32."""
        generator = np.random.default_rng(_VALID_SEED)
        model.eval()
        with torch.no_grad():
            batches = [self.pieces(self.corpus.valid, generator) for _ in range(self.valid_batches)]
            losses = [float(model(inputs, targets)) for inputs, targets in batches]
        model.train()
        return {"val_loss": sum(losses) / len(losses)}
