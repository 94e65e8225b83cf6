"""A small GPT that was trained, its weights frozen, and adapters of low rank that are trained beside them."""

import copy
import functools
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from mvcs.bench.data.text import Corpus
from mvcs.bench.tasks.next_byte import Gpt, GptTask, Sizes

SIZES = Sizes(width=48, layers=2, heads=2, context=48)
RANK, SCALE = 8, 2.0
ADAPTED = ("qkv", "proj", "fc1", "fc2")


@functools.cache
def made_up_text() -> Corpus:
    """Return sentences that are the same on every machine: fifty words, some of them far more often."""
    random = np.random.default_rng(0)
    words = ["".join(random.choice(list("abcdefgh"), random.integers(2, 8))) for _ in range(50)]
    shares = 1 / np.arange(1, 51)
    drawn = random.choice(words, 24_000, p=shares / shares.sum())
    text = np.frombuffer(" ".join(drawn).encode(), np.uint8)
    return Corpus(text[:-20_000], text[-20_000:])


class Adapted(nn.Module):
    """A frozen linear layer and what is added to it (Hu et al. 2021)."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(RANK, base.in_features) / base.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(base.out_features, RANK))

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = (x @ self.down.T) @ self.up.T
        return self.base(x) + SCALE * added


@functools.cache
def _trained(steps: int) -> tuple[Gpt, torch.optim.AdamW, int]:
    """Return what many tests begin with: a model that was trained so many steps, and its optimizer."""
    run = Run.__new__(Run)
    run.task = GptTask(sizes=SIZES, batch=8, corpus=made_up_text())
    run.model, run.steps = run.task.model(), 0
    run.restart()
    run.train(steps)
    return run.model, run.optimizer, run.steps


class Run:
    """A run whose state depends on its seed alone."""

    model: Gpt
    steps: int

    def __init__(self, steps: int = 20) -> None:
        torch.manual_seed(0)
        self.task = GptTask(sizes=SIZES, batch=8, corpus=made_up_text())
        self.model, self.optimizer, self.steps = copy.deepcopy(_trained(steps))

    def restart(self) -> None:
        """Begin with a new optimizer of what is trained."""
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, lr=3e-3, betas=(0.9, 0.95))

    def train(self, steps: int) -> None:
        """Train on."""
        for _ in range(steps):
            loss = self.task.loss(self.model, np.random.default_rng((1, self.steps)))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.steps += 1

    def adapt(self) -> None:
        """Freeze all weights, and train adapters of all linear layers of the blocks from here on."""
        self.model.requires_grad_(False)
        for block in self.model.blocks:
            for name in ADAPTED:
                setattr(block, name, Adapted(getattr(block, name)))
        self.restart()

    @property
    def frozen(self) -> set[str]:
        """Names of the matrices that are not trained."""
        named = self.model.named_parameters()
        return {name for name, value in named if not value.requires_grad and value.dim() > 1}

    def state(self) -> dict[str, object]:
        """Return a copy of the state."""
        return {"model": copied(self.model.state_dict()), "optimizer": self.optimizer.state_dict()}

    def evaluate(self, model: nn.Module) -> Iterator[tuple[float, int]]:
        """Yield the summed loss and the number of held-out pieces, batch by batch."""
        for start in range(0, 96, 8):
            yield self.task.sums(model, np.arange(start, start + 8))["loss"], 8


def copied(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return copies of tensors."""
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}
