"""The parameters and buffers of a model in training, read and written where they lie."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final

import torch
from torch import nn

from mvcs.errors import UsageError
from mvcs.train.state.host_copies import INTEGERS, copied_as, is_plain

Weights = Mapping[str, torch.Tensor]

_TURNS: Final = 37.0  # of a cosine, over values: what is alike before is not behind it


def live_tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the parameters and buffers by name, tied ones under each name, as views that no graph sees."""
    named = chain(model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False))
    return {name: tensor.data for name, tensor in named if is_plain(tensor)}


def write(live: Weights, weights: Weights) -> None:
    """Write `weights` into the tensors of the same names, bit for bit.

    Raises:
        UsageError: a name, shape or dtype is not that of a live tensor, or elements that share memory there
            have several values.
    """
    for name, value in weights.items():
        target = live.get(name)
        if target is None:
            raise UsageError(f"the model has no ordinary parameter or buffer '{name}'")
        if value.shape != target.shape or value.dtype != target.dtype:
            raise UsageError(
                f"'{name}' is {_described(target)} in the model and {_described(value)} in what is evaluated"
            )
        if not assign(target, value):
            raise UsageError(
                f"elements of '{name}' share memory in the model and differ in what is evaluated",
                hint="register it as a tensor of its own: tensor.contiguous()",
            )


def _described(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def assign(target: torch.Tensor, value: torch.Tensor) -> bool:
    """Write the bits of `value` where `target` lies, and tell whether it holds them all then.

    Of elements that share memory, as those of an expanded tensor do, one is written.
    """
    with torch.inference_mode(mode=target.is_inference()), torch.no_grad():
        into, source = copied_as(target), copied_as(value.detach())
        once = into
        for dimension, (size, stride) in enumerate(zip(into.shape, into.stride(), strict=True)):
            if size > 1 and stride == 0:
                once, source = once.narrow(dimension, 0, 1), source.narrow(dimension, 0, 1)
        once.copy_(source)
        return once is into or bool(torch.equal(_bits(target), _bits(value).to(target.device)))


def has_bits(target: torch.Tensor, value: torch.Tensor) -> bool:
    """Tell whether both lie in host memory and are the same to the last bit."""
    in_memory = target.device.type == value.device.type == "cpu"
    return in_memory and bool(torch.equal(_bits(target), _bits(value)))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    plain = copied_as(tensor.detach())
    return plain.view(INTEGERS[plain.element_size()])


@dataclass(frozen=True)
class OtherWeights(Mapping[str, torch.Tensor]):
    """Weights of about the magnitudes of others, which have nothing else in common with them.

    Elements that are the same stay so, as those that share memory have to.

    Attributes:
        weights: the others.
        size: times their magnitudes.
    """

    weights: Weights
    size: float = 1.0

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.weights)

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self.weights)

    def __getitem__(self, name: str) -> torch.Tensor:
        """Return a tensor of the same shape and dtype; whole numbers are the same."""
        value = self.weights[name]
        if not value.is_floating_point():
            return value
        wide = value.detach().double()
        scale = math.sqrt(float(wide.square().mean())) if wide.numel() else 1.0
        scale = scale if 0 < scale < math.inf else 1.0
        return (self.size * scale * torch.cos(_TURNS / scale * wide + 1)).to(value.dtype)
