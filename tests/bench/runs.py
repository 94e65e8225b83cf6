"""Training runs small enough for a test: a GPT on a made-up text, a ResNet on made-up pictures."""

import gzip
import threading
from pathlib import Path

import numpy as np

from mvcs.bench.runs.cnn import CnnTask
from mvcs.bench.runs.gpt import GptTask, Sizes
from mvcs.bench.runs.images import fashion_mnist
from mvcs.bench.runs.tasks import SampleSizes
from mvcs.bench.runs.text import standard_library
from mvcs.progress import Silent

SAMPLES = SampleSizes(batch=1, search=3, verify=3, report=4, reported=2)


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
    folder.mkdir(parents=True, exist_ok=True)
    for module in (gzip, threading):
        source = Path(module.__file__)
        (folder / source.name).write_bytes(source.read_bytes())
    sizes = Sizes(width=32, layers=2, heads=2, context=24)
    return GptTask(sizes, 2, 1, standard_library(folder), sample_sizes=SAMPLES)


def tiny_cnn(folder: Path) -> CnnTask:
    """Return a task on random pictures in IDX files in `folder`, one of them compressed."""
    write_pictures(folder)
    return CnnTask(((8, 1), (16, 2)), 4, 10, fashion_mnist(folder), sample_sizes=SAMPLES)


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
