"""What the adapters for training frameworks share."""

import math
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import torch
from torch import nn

from mvcs.errors import UsageError
from mvcs.train.options import CheckpointerOptions


class Handed:
    """A part of a run that a framework hands over and takes back by functions."""

    def __init__(
        self,
        give: Callable[[], dict[str, Any]],
        take: Callable[[dict[str, Any]], object],
        inside: Callable[[], Mapping[str, object]] = dict,
    ) -> None:
        """Ask `give` for the state, hand a restored one to `take`, and ask `inside` for what is in it."""
        self._give = give
        self._take = take
        self._inside = inside

    def state_dict(self) -> dict[str, Any]:
        """Return what the framework gives."""
        return self._give()

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:
        """Let the framework take a state."""
        self._take(state_dict)

    def parts_inside(self) -> Mapping[str, object]:
        """Return optimizers and schedules of the framework, by their places in the state."""
        return self._inside()


class HandedModel(Handed):
    """The model of a run, which a framework keeps."""

    def __init__(
        self,
        give: Callable[[], dict[str, Any]],
        take: Callable[[dict[str, Any]], object],
        module: Callable[[], nn.Module],
    ) -> None:
        """Ask `module` for what evaluations get, once training has begun."""
        super().__init__(give, take, lambda: {"": module()})
        self._module = module

    def module(self) -> nn.Module:
        """Return the module whose state `give` gives."""
        return self._module()


def with_part(options: CheckpointerOptions, name: str, part: Handed) -> CheckpointerOptions:
    """Return options with a framework's own part before the further ones."""
    return {**options, "extra": {name: part, **(options.get("extra") or {})}}


def check_kind(loaded: Mapping[str, object], names: AbstractSet[str], framework: str) -> None:
    """Refuse what was loaded from a commit of another kind of loop.

    Args:
        loaded: parts that the commit had, by the framework's names.
        names: parts that are always there in a commit of the framework's adapter.
        framework: what to call it.

    Raises:
        UsageError: one of them is missing.
    """
    if not names <= loaded.keys():
        raise UsageError(
            f"the newest commit is not of a run of {framework}",
            hint="resume on a branch whose commits come from this callback, or begin a new one with branch=",
        )


def numbers(metrics: Mapping[str, object]) -> dict[str, float]:
    """Return those metrics that are single numbers."""
    found = {}
    for name, value in metrics.items():
        single = value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value
        if isinstance(single, int | float) and not isinstance(single, bool) and not math.isnan(single):
            found[str(name)] = float(single)
    return found
