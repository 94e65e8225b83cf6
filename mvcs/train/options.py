"""The options of a `Checkpointer` that adapters pass on."""

from collections.abc import Mapping, Sequence
from typing import Literal

from mvcs.train.checkpointer import Message, OnCommit
from mvcs.train.choice.search import BoundingOptions
from mvcs.train.saving.cadence import Clock


class CheckpointerOptions(BoundingOptions, total=False):
    """See `mvcs.train.Checkpointer`."""

    extra: Mapping[str, object] | None
    every: int | None
    seconds: float | None
    overhead: float | None
    weights_every: int | None
    branch: str | None
    queue: int
    on_full: Literal["wait", "skip"]
    message: Message | None
    on_commit: OnCommit | Sequence[OnCommit]
    rng: bool
    final: bool
    clock: Clock
