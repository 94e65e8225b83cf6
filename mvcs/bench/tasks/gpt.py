"""A byte-level GPT of 4.9 million parameters, trained on the standard library's source with AdamW."""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from mvcs.bench.data.text import Corpus, Text, standard_library
from mvcs.bench.runs.learner import Learner
from mvcs.bench.runs.schedules import Cosine, Schedule
from mvcs.bench.runs.tasks import Indices, SampleSizes, digest

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


@dataclass(frozen=True)
class GptTask:
    """Next-byte prediction: bfloat16 autocast on float32 weights, gradients clipped to a norm of 1.

    Attributes:
        sizes: of the model.
        batch: sequences a step.
        valid_batches: batches of validation data.
        corpus: the text.
        sample_sizes: of samples of pieces of the validation text.
        clip: the largest norm of all gradients.
    """

    sizes: Sizes = Sizes()
    batch: int = 12
    valid_batches: int = 6
    corpus: Corpus = field(default_factory=standard_library)
    name: str = "gpt"
    schedule: Schedule = SCHEDULE
    sample_sizes: SampleSizes = SAMPLES
    clip: float = 1.0

    @cached_property
    def data(self) -> str:
        """A digest of the text."""
        return digest(self.corpus.train, self.corpus.valid)

    @property
    def held_out(self) -> int:
        """Pieces of the validation text, one behind the other."""
        return len(self.corpus.valid) // (self.sizes.context + 1)

    def model(self) -> Gpt:
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
        inputs, targets = self._pieces(self.corpus.train, generator)
        with torch.autocast("cpu", torch.bfloat16):
            found: Tensor = model(inputs, targets)
        return found

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Return the loss on fixed pieces of the validation text, in nats a byte, in float32."""
        generator = np.random.default_rng(_VALID_SEED)
        model.eval()
        with torch.no_grad():
            batches = [self._pieces(self.corpus.valid, generator) for _ in range(self.valid_batches)]
            losses = [float(model(inputs, targets)) for inputs, targets in batches]
        model.train()
        return {"val_loss": sum(losses) / len(losses)}

    def sums(self, model: nn.Module, chosen: Indices) -> dict[str, float]:
        """Return the sum of the mean losses of pieces, in nats a byte, in float32."""
        with torch.no_grad():
            mean = float(model(*self._cut(self.corpus.valid, chosen * (self.sizes.context + 1))))
        return {"loss": mean * len(chosen)}

    def _pieces(self, text: Text, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
        last = len(text) - self.sizes.context
        return self._cut(text, generator.integers(0, last, self.batch))

    def _cut(self, text: Text, starts: Indices) -> tuple[Tensor, Tensor]:
        length = self.sizes.context + 1
        pieces = np.stack([text[start : start + length] for start in starts]).astype(np.int64)
        batch = torch.from_numpy(pieces)
        return batch[:, :-1], batch[:, 1:]
