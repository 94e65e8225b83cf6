"""Predicting the next byte of a text: a GPT in several ways, and a recurrent model."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from mvcs.bench.data.text import Corpus, Text, documentation, standard_library
from mvcs.bench.runs.run_maker import load_checkpoint
from mvcs.bench.runs.tasks import (
    Constant,
    Cosine,
    Indices,
    Learner,
    MasterLearner,
    SampleSizes,
    Schedule,
    Task,
    digest,
    first_metrics,
)
from mvcs.errors import ConflictError, FileFormatError, NotFoundError, UsageError

GPT_SCHEDULE = Cosine(peak=1.5e-3, floor=0.03, warm=100)
GPT_SAMPLES = SampleSizes(batch=3, search=48, verify=32, report=192, reported=32)

_VALID_SEED = 10_000_000
FINETUNE_SCHEDULE = Constant(peak=1.5e-4, warm=15)
FINETUNE_SAMPLES = SampleSizes(batch=2, search=60, verify=24, report=60, reported=30, searched_first=20)
LORA_SCHEDULE = Constant(peak=1e-3, warm=15)
SGD = partial(torch.optim.SGD, momentum=0.9)
SGD_SCHEDULE = Constant(peak=0.5, warm=40)
ADAGRAD_SCHEDULE = Constant(peak=0.02, warm=40)
RMSPROP_SCHEDULE = Constant(peak=1e-3, warm=40)
GRU_SAMPLES = SampleSizes(batch=8, search=96, verify=24, report=64, reported=32, searched_first=16)

_FIRST_BATCH = 32


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
    schedule: Schedule = GPT_SCHEDULE
    sample_sizes: SampleSizes = GPT_SAMPLES

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


@dataclass(frozen=True, kw_only=True)
class FinetuneTask(GptTask):
    """Next-byte prediction on Python's documentation, from what a run of `gpt` ended with.

    Attributes:
        base: the folder of that run; None for a model whose weights are loaded later.
    """

    base: Path | None = None
    batch: int = 6
    corpus: Corpus = field(default_factory=documentation)
    name: str = "finetune"
    schedule: Schedule = FINETUNE_SCHEDULE
    sample_sizes: SampleSizes = FINETUNE_SAMPLES

    @cached_property
    def data(self) -> str:
        """A digest of the text and of the weights that the run begins with."""
        begun = [] if self.base is None else self._weights.values()
        return digest(self.corpus.train, self.corpus.valid, *(one.numpy().view(np.uint8) for one in begun))

    def model(self) -> nn.Module:
        """Return the model as the other run ended.

        Raises:
            NotFoundError: there is no such run.
            ConflictError: it has not ended.
            FileFormatError: it learned another model.
        """
        model = Gpt(self.sizes)
        if self.base is not None:
            try:
                model.load_state_dict(self._weights)
            except RuntimeError as error:
                raise FileFormatError(
                    f"the run in '{self.base}' is not one of gpt: {error}",
                    hint="name the folder of a run that 'mvcs bench make gpt' made",
                ) from error
        return model

    @cached_property
    def _weights(self) -> dict[str, Tensor]:
        return {} if self.base is None else last_weights(self.base)


def last_weights(folder: Path) -> dict[str, Tensor]:
    """Return the model's state dict in the last checkpoint of a run.

    Raises:
        NotFoundError: there is no checkpoint.
        ConflictError: the run has not ended.
        FileFormatError: the file is no checkpoint of a run.
    """
    found = sorted(folder.glob("step_*.pt"))
    if not found:
        raise NotFoundError(
            f"there is no checkpoint of a run in '{folder}'",
            hint="train one with 'mvcs bench make gpt', and name its folder",
        )
    state = load_checkpoint(found[-1])
    try:
        step, steps, weights = state["step"], state["plan"]["steps"], state["model"]
    except (KeyError, TypeError) as error:
        raise FileFormatError(f"'{found[-1]}' is not a checkpoint of 'mvcs bench make'") from error
    if step < steps:
        raise ConflictError(
            f"the run in '{folder}' stands at step {step} of {steps}",
            hint="let 'mvcs bench make' end it first",
        )
    return dict(weights)


class Adapted(nn.Module):
    """A frozen linear layer, and a product of two thin matrices that is added (LoRA, Hu et al. 2021).

    The second one begins at zero, so at first nothing is added.
    """

    def __init__(self, base: nn.Linear, rank: int, scale: float) -> None:
        super().__init__()
        self.base_layer = base
        self.lora_A = nn.Linear(base.in_features, rank, bias=False)
        self.lora_B = nn.Linear(rank, base.out_features, bias=False)
        self.scale = scale
        nn.init.kaiming_uniform_(self.lora_A.weight, a=math.sqrt(5))
        nn.init.zeros_(self.lora_B.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the layer and the adapter make of x."""
        found: Tensor = self.base_layer(x) + self.scale * self.lora_B(self.lora_A(x))
        return found


@dataclass(frozen=True, kw_only=True)
class LoraTask(FinetuneTask):
    """The same prose, learned by adapters of all matrices of attention and of the layers behind it.

    Attributes:
        rank: of the adapters.
        scale: what they give is multiplied by.
    """

    rank: int = 8
    scale: float = 2.0
    name: str = "lora"
    schedule: Schedule = LORA_SCHEDULE

    def model(self) -> nn.Module:
        """Return the base, frozen, with adapters that do nothing yet."""
        model = super().model().requires_grad_(requires_grad=False)
        for block in model.get_submodule("blocks").children():
            for name, layer in list(block.named_children()):
                if isinstance(layer, nn.Linear):
                    setattr(block, name, Adapted(layer, self.rank, self.scale))
        return model

    def learner(self, model: nn.Module) -> Learner:
        """Return the model with AdamW on the adapters alone."""
        learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
        return Learner(model, torch.optim.AdamW(learned, lr=self.schedule.peak, weight_decay=0.0))


@dataclass(frozen=True, kw_only=True)
class PureBf16Task(GptTask):
    """Weights, gradients and moments are bfloat16 and rounded to the nearest: small updates are lost."""

    sizes: Sizes = SMALL
    name: str = "bf16-pure"
    schedule: Schedule = SMALL_SCHEDULE
    sample_sizes: SampleSizes = SMALL_SAMPLES

    def model(self) -> nn.Module:
        """Return a new model of bfloat16 weights."""
        return Gpt(self.sizes).bfloat16()


@dataclass(frozen=True, kw_only=True)
class Bf16Task(PureBf16Task):
    """The model computes with bfloat16 weights; the optimizer moves float32 masters, which are rounded."""

    name: str = "bf16"

    def learner(self, model: nn.Module) -> Learner:
        """Return the model with masters, and the optimizer of these."""
        masters = deepcopy(model).float()
        return MasterLearner(model, masters, self.optimizer(masters))


@dataclass(frozen=True, kw_only=True)
class MuonTask(GptTask):
    """Next-byte prediction; updates of matrices are orthogonal (Muon, Jordan 2024)."""

    sizes: Sizes = SMALL
    name: str = "muon"
    schedule: Schedule = SMALL_SCHEDULE
    sample_sizes: SampleSizes = SMALL_SAMPLES

    def learner(self, model: nn.Module) -> Learner:
        """Return the model with Muon, and with AdamW as "adamw".

        Raises:
            UsageError: this torch has no Muon.
        """
        if not hasattr(torch.optim, "Muon"):
            raise UsageError(f"torch {torch.__version__} has no Muon", hint="install torch 2.9 or later")
        hidden = [one for name, one in model.named_parameters() if _is_hidden(name, one)]
        others = [one for name, one in model.named_parameters() if not _is_hidden(name, one)]
        rate = self.schedule.peak
        # Scaled like this, updates of both are of one size, and one rate suits both.
        muon = torch.optim.Muon(hidden, lr=rate, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
        adamw = torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.95), weight_decay=0.0)
        return Learner(model, muon, {"adamw": adamw})


def _is_hidden(name: str, parameter: nn.Parameter) -> bool:
    return name.startswith("blocks.") and parameter.dim() == 2


@dataclass(frozen=True)
class GruSizes:
    """How large the model is: numbers a byte, width of the recurrent layer, bytes of context."""

    embedded: int = 128
    width: int = 512
    context: int = 96


class Gru(nn.Module):
    """Predicts the next byte from a state that each byte changes (Cho et al. 2014)."""

    def __init__(self, sizes: GruSizes) -> None:
        super().__init__()
        self.tok = nn.Embedding(256, sizes.embedded)
        self.gru = nn.GRU(sizes.embedded, sizes.width, batch_first=True)
        self.head = nn.Linear(sizes.width, 256)

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss in nats a byte; both arguments are int64 [batch, context]."""
        logits = self.head(self.gru(self.tok(inputs))[0])
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


@dataclass(frozen=True, kw_only=True)
class GruTask(TextTask):
    """Every piece of text begins with an empty state; SGD with momentum learns the model, or another.

    Attributes:
        sizes: of the model.
        valid: pieces of the validation text that are evaluated, the first ones.
        optimizer: makes what learns, of parameters and a rate.
    """

    sizes: GruSizes = GruSizes()
    optimizer: Callable[..., torch.optim.Optimizer] = SGD
    valid: int = 128
    batch: int = 16
    name: str = "gru"
    schedule: Schedule = SGD_SCHEDULE
    sample_sizes: SampleSizes = GRU_SAMPLES

    @property
    def context(self) -> int:
        """Bytes of a piece."""
        return self.sizes.context

    def model(self) -> Gru:
        """Return a new model."""
        return Gru(self.sizes)

    def learner(self, model: nn.Module) -> Learner:
        """Return the model with its optimizer."""
        return Learner(model, self.optimizer(model.parameters(), lr=self.schedule.peak))

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Return the loss on the first pieces of the validation text, in nats a byte."""
        return first_metrics(self, self.valid, _FIRST_BATCH, model)


TEXT_TASKS: dict[str, Callable[..., Task]] = {
    "gpt": GptTask,
    "bf16": Bf16Task,
    "bf16-pure": PureBf16Task,
    "muon": MuonTask,
    "gru": GruTask,
    "gru-adagrad": partial(
        GruTask, name="gru-adagrad", schedule=ADAGRAD_SCHEDULE, optimizer=torch.optim.Adagrad
    ),
    "gru-rmsprop": partial(
        GruTask, name="gru-rmsprop", schedule=RMSPROP_SCHEDULE, optimizer=torch.optim.RMSprop
    ),
}
"""What learns text from the start, by name."""
