"""The runs by name: how long each is, and how its task is made. Nothing is loaded before it is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mvcs.bench.runs.tasks import Task


@dataclass(frozen=True)
class Recipe:
    """What is usual for a run.

    Attributes:
        steps: optimizer steps.
        every: steps between checkpoints.
        takes_data: whether its data can lie in a folder of the user's.
        goes_on: whether it begins with what a run of gpt ended with.
    """

    steps: int
    every: int
    takes_data: bool = False
    goes_on: bool = False


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "gpt": Recipe(2000, 50),
        "cnn": Recipe(6000, 200, takes_data=True),
        "encoder": Recipe(200, 10, takes_data=True),
        "mixer": Recipe(1200, 50, takes_data=True),
        "gru": Recipe(960, 40),
        "gru-adagrad": Recipe(960, 40),
        "gru-rmsprop": Recipe(960, 40),
        "finetune": Recipe(300, 15, goes_on=True),
        "lora": Recipe(300, 15, goes_on=True),
        "bf16": Recipe(960, 40),
        "bf16-pure": Recipe(960, 40),
        "muon": Recipe(960, 40),
    }
)
"""All runs, in the order in which they are listed."""


def task_of(name: str, data: Path | None = None, base: Path | None = None) -> "Task":
    """Return a task by its name.

    Args:
        name: a key of `RECIPES`.
        data: the folder of its data, for runs that take one; None for where a package puts them.
        base: the folder of the run of gpt that one goes on from; None where its weights are not needed.

    Raises:
        NotFoundError: there are no such data.
        FileFormatError: they are damaged.
    """
    if name in {"cnn", "mixer"}:
        from mvcs.bench.data.images import FOLDER, fashion_mnist
        from mvcs.bench.tasks.clothes import CnnTask, MixerTask

        images = fashion_mnist(data or FOLDER)
        return CnnTask(images=images) if name == "cnn" else MixerTask(images=images)
    if name == "encoder":
        from mvcs.bench.tasks.encoder import EncoderTask, Published

        return EncoderTask(Published(data)) if data else EncoderTask()
    from mvcs.bench.tasks import next_byte

    if RECIPES[name].goes_on:
        return next_byte.FinetuneTask(base=base) if name == "finetune" else next_byte.LoraTask(base=base)
    return next_byte.TEXT_TASKS[name]()
