"""A byte-level GPT of 0.8 million parameters, and text to train it on. Nothing here knows of mvcs."""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

CONTEXT, WIDTH, HEADS, LAYERS, DROPOUT = 128, 128, 4, 4, 0.1
BATCH = 8


class Block(nn.Module):
    """Attention over the bytes before, then a layer on each byte of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(WIDTH)
        self.attention = nn.Linear(WIDTH, 3 * WIDTH)
        self.mixed = nn.Linear(WIDTH, WIDTH)
        self.before_wide = nn.LayerNorm(WIDTH)
        self.wide = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        """Return the next layer's input, of the same shape [batch, context, WIDTH]."""
        batch, length, _ = x.shape
        parts = self.attention(self.before_attention(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.dropout(self.mixed(seen.transpose(1, 2).reshape(batch, length, WIDTH)))
        added: Tensor = self.dropout(self.wide(self.before_wide(x)))
        return x + added


class GPT(nn.Module):
    """Predicts the next byte; the input and output tables are one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = nn.Embedding(256, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.last = nn.LayerNorm(WIDTH)
        self.next = nn.Linear(WIDTH, 256, bias=False)
        for weight in (self.bytes.weight, self.positions.weight):
            nn.init.normal_(weight, std=0.02)
        self.next.weight = self.bytes.weight

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss in nats a byte; both arguments are int64 [batch, context]."""
        x = self.bytes(inputs) + self.positions(torch.arange(inputs.shape[1]))
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.next(self.last(x)).flatten(0, 1), targets.flatten())


class Batches:
    """Random pieces of a text; its state is the position in the data."""

    def __init__(self, path: Path, seed: int = 0) -> None:
        self.text = torch.from_numpy(np.fromfile(path, dtype=np.uint8))
        self.generator = torch.Generator().manual_seed(seed)
        self.seen = 0

    def next(self) -> tuple[Tensor, Tensor]:
        """Return inputs and targets, each int64 [BATCH, CONTEXT]."""
        starts = torch.randint(len(self.text) - CONTEXT, (BATCH,), generator=self.generator)
        pieces = torch.stack([self.text[start : start + CONTEXT + 1] for start in starts]).long()
        self.seen += BATCH
        return pieces[:, :-1], pieces[:, 1:]

    def state_dict(self) -> dict[str, Any]:
        """Return where in the data we are."""
        return {"generator": self.generator.get_state(), "seen": self.seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.generator.set_state(state["generator"])
        self.seen = state["seen"]


def rate(step: int, warm: int = 100) -> float:
    """Return the share of the learning rate at `step`: a warm-up, then one over the square root."""
    return min((step + 1) / warm, math.sqrt(warm / (step + 1)))


def losses(model: GPT, path: Path, batches: int = 24) -> Iterator[tuple[float, int]]:
    """Yield sum and count of the loss in nats a byte for each batch: the same pieces of a text each time."""
    pieces, count = Batches(path, seed=1), BATCH * CONTEXT
    model.eval()
    with torch.no_grad():
        for _ in range(batches):
            yield model(*pieces.next()).item() * count, count
    model.train()


def mean(pairs: Iterable[tuple[float, int]]) -> float:
    """Return the mean that sums and counts make."""
    sums, counts = zip(*pairs, strict=True)
    return float(sum(sums) / sum(counts))
