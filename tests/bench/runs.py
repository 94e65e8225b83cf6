"""Training runs small enough for a test: a GPT on a made-up text, a ResNet on made-up pictures."""

import gzip
import json
import shutil
import string
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from safetensors.torch import save_file

from mvcs.bench.data.images import fashion_mnist
from mvcs.bench.data.text import docstrings, standard_library
from mvcs.bench.runs.run_maker import make_run
from mvcs.bench.runs.tasks import SampleSizes, Task
from mvcs.bench.tasks.clothes import CnnTask, MixerSizes, MixerTask
from mvcs.bench.tasks.encoder import BertSizes, Encoder, EncoderTask, Published
from mvcs.bench.tasks.next_byte import (
    TEXT_TASKS,
    Bf16Task,
    FinetuneTask,
    GptTask,
    GruSizes,
    GruTask,
    LoraTask,
    MuonTask,
    PureBf16Task,
    Sizes,
)
from mvcs.checkpoint.files import capture_files
from mvcs.progress import SILENT, Silent

SAMPLES = SampleSizes(batch=1, search=3, verify=3, report=4, reported=2)
IN_TWOS = replace(SAMPLES, batch=2)
"""For losses that set the examples of a batch against each other."""


class Stop(Exception):  # noqa: N818 - it is no error, it stands for a power cut
    """Ends a run in the middle."""


class StopAfter(Silent):
    """Progress that ends a run after some steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def advance(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            raise Stop


def tiny_gpt(folder: Path) -> GptTask:
    """Return a task on two source files in `folder`."""
    tiny_modules(folder, gzip, threading)
    sizes = Sizes(width=32, layers=2, heads=2, context=24)
    corpus = standard_library(folder)
    return GptTask(sizes=sizes, batch=2, valid_batches=1, corpus=corpus, sample_sizes=SAMPLES)


def tiny_mixer(folder: Path) -> MixerTask:
    """Return a task on random pictures in IDX files in `folder`."""
    write_pictures(folder)
    sizes = MixerSizes(patch=14, width=8, layers=2, between=4, within=16)
    return MixerTask(sizes=sizes, batch=4, valid=10, images=fashion_mnist(folder), sample_sizes=SAMPLES)


def tiny_gru(folder: Path, name: str = "gru") -> GruTask:
    """Return a task on two source files in `folder`."""
    corpus = standard_library(tiny_modules(folder, gzip, threading))
    sizes = GruSizes(embedded=8, width=16, context=24)
    return TEXT_TASKS[name](sizes=sizes, batch=2, valid=4, corpus=corpus, sample_sizes=SAMPLES)


def tiny_modules(folder: Path, *modules: ModuleType) -> Path:
    """Copy modules of the standard library to `folder`, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for module in modules:
        source = Path(module.__file__)
        (folder / source.name).write_bytes(source.read_bytes())
    return folder


def tiny_cnn(folder: Path) -> CnnTask:
    """Return a task on random pictures in IDX files in `folder`, one of them compressed."""
    write_pictures(folder)
    return CnnTask(
        blocks=((8, 1), (16, 2)), batch=4, valid=10, images=fashion_mnist(folder), sample_sizes=SAMPLES
    )


def tiny_encoder(folder: Path) -> EncoderTask:
    """Return a task on two modules in `folder` and random weights beside them."""
    modules = tiny_modules(folder / "modules", shutil, tempfile, threading)
    write_encoder(folder / "encoder")
    return EncoderTask(Published(folder / "encoder"), docstrings(modules), 4, valid=10, sample_sizes=IN_TWOS)


def write_encoder(folder: Path) -> None:
    """Write a small encoder with random weights, and a vocabulary of letters and a few words."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = string.ascii_lowercase + string.digits + string.punctuation
    words = ["return", "the", "file", "##s", "a", "lock", "read"]
    pieces = list(
        dict.fromkeys(
            ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words, *letters, *(f"##{one}" for one in letters)]
        )
    )
    (folder / "vocab.txt").write_text("\n".join(pieces))
    sizes = BertSizes(len(pieces), 16, 2, 2, 32, 40)
    (folder / "config.json").write_text(json.dumps(asdict(sizes) | {"hidden_act": "gelu"}))
    torch.manual_seed(0)
    save_file(Encoder(sizes).state_dict(), folder / "model.safetensors")


def write_pictures(folder: Path) -> None:
    """Write Fashion-MNIST's four files with random content."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    for name, count in (("train", 40), ("t10k", 10)):
        pictures = generator.integers(0, 256, (count, 28, 28), np.uint8)
        labels = generator.integers(0, 10, count, np.uint8)
        (folder / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(pictures)))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(idx(labels))


def idx(array: np.ndarray) -> bytes:
    """Return bytes as an IDX file has them."""
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def tiny_variant(kind: type[GptTask], folder: Path) -> GptTask:
    """Return a task of another kind, like the tiny GPT."""
    tiny = tiny_gpt(folder)
    return kind(sizes=tiny.sizes, batch=2, valid_batches=1, corpus=tiny.corpus, sample_sizes=SAMPLES)


def tiny_continued(kind: type[FinetuneTask], folder: Path) -> FinetuneTask:
    """Return a task that begins with a run of the tiny GPT, which is trained in `folder`."""
    tiny = tiny_gpt(folder)
    make_run(tiny, folder / "base", steps=2, every=1, seed=1, progress=SILENT)
    return replace(tiny_variant(kind, folder), base=folder / "base")


TASKS: dict[str, Callable[[Path], Task]] = {
    "gpt": tiny_gpt,
    "cnn": tiny_cnn,
    "encoder": tiny_encoder,
    "mixer": tiny_mixer,
    "gru": tiny_gru,
    "gru-adagrad": lambda folder: tiny_gru(folder, "gru-adagrad"),
    "gru-rmsprop": lambda folder: tiny_gru(folder, "gru-rmsprop"),
    "finetune": partial(tiny_continued, FinetuneTask),
    "lora": partial(tiny_continued, LoraTask),
    "bf16": partial(tiny_variant, Bf16Task),
    "bf16-pure": partial(tiny_variant, PureBf16Task),
    "muon": partial(tiny_variant, MuonTask),
}
"""A small form of every run, by its name; what it learns from is written into a folder."""


def contents(folder: Path) -> dict[str, object]:
    """Structure and bytes of every tensor, not the layout: torch.save writes equal states in several ways."""
    found = {}
    for path in sorted(folder.iterdir()):
        captured = capture_files([path], folder)
        nodes = [(entry.path, entry.format, entry.node) for entry in captured.files]
        found[path.name] = nodes, [bytes(leaf.source.read()) for leaf in captured.leaves]
    return found
