"""What tells that an evaluation trains: steps of an optimizer, and parameters that are others than before."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from mvcs.errors import EvaluationError

TRAINS: Final = "evaluate trains the model"
EVALUATE_ONLY: Final = "let evaluate compute the metric alone; its changes were undone"


@contextmanager
def without_steps(parameters: Iterable[nn.Parameter]) -> Iterator[list[object]]:
    """Refuse steps of optimizers that hold one of `parameters`, and collect who tried."""
    own = {id(parameter) for parameter in parameters}
    stepped: list[object] = []

    def refuse(optimizer: torch.optim.Optimizer, *_: object) -> None:
        if any(id(parameter) in own for group in optimizer.param_groups for parameter in group["params"]):
            stepped.append(optimizer)
            raise EvaluationError(TRAINS, hint=EVALUATE_ONLY)

    handle = register_optimizer_step_pre_hook(refuse)
    try:
        yield stepped
    finally:
        handle.remove()


def fingerprint(tensors: Iterable[torch.Tensor]) -> list[int]:
    """Return a sum of the bits of each tensor, none of them empty, added up where it lies.

    That takes half the time of a copy.
    """
    sums = [_sum(tensor) for tensor in tensors]
    return [int(found) for found in sums]


def _sum(tensor: torch.Tensor) -> torch.Tensor:
    raw = tensor.contiguous().view(-1).view(torch.uint8)
    whole = raw.numel() // 8 * 8
    words = raw[:whole]
    if words.storage_offset() % 8:
        words = words.clone()
    return words.view(torch.int64).sum() + raw[whole:].sum(dtype=torch.int64)
