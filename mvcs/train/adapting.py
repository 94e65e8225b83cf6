"""What the adapters for training frameworks share."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch


class Handed:
    """A part of a run that a framework hands over and takes back by functions."""

    def __init__(self, give: Callable[[], dict[str, Any]], take: Callable[[dict[str, Any]], object]) -> None:
        """Ask `give` for the state, and hand a restored one to `take`."""
        self._give = give
        self._take = take

    def state_dict(self) -> dict[str, Any]:
        """Return what the framework gives."""
        return self._give()

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:
        """Let the framework take a state."""
        self._take(state_dict)


def numbers(metrics: Mapping[str, object]) -> dict[str, float]:
    """Return those metrics that are single numbers."""
    found = {}
    for name, value in metrics.items():
        single = value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value
        if isinstance(single, int | float) and not isinstance(single, bool) and not math.isnan(single):
            found[str(name)] = float(single)
    return found
