"""What has a state that can be saved and loaded."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from torch import nn


@runtime_checkable
class Stateful(Protocol):
    """What torch's modules, optimizers, schedulers, scalers and stateful loaders have in common."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state; its tensors may be the live ones."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any], /) -> object:
        """Take over a state."""
        ...


@runtime_checkable
class ModelProvider(Protocol):
    """A model that a framework keeps: its module is there once training has begun."""

    def module(self) -> nn.Module:
        """Return the module whose state this is."""
        ...


@runtime_checkable
class PartHolder(Protocol):
    """A part that a framework keeps: what is in it is there once training has begun."""

    def parts_inside(self) -> Mapping[str, object]:
        """Return what is in it, by its place in the part's state; "" is all of it."""
        ...
