"""Gradients that are being accumulated: they are part of a state between a backward pass and its step."""

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch

SAMPLED = 16

Gradients = list[torch.Tensor | None]


class Accumulation:
    """Knows whether an optimizer has yet to use the gradients that are there.

    Gradients often stay where they are after a step, to be zeroed before the next one. So their presence says
    nothing: what counts is whether they changed since the step. That is asked of a few parameters, so that
    watching costs microseconds a step.

    Attributes:
        has_stepped: a step was seen since the beginning, or since gradients were loaded.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        """Listen to its steps until `close`."""
        self._optimizer = optimizer
        self.has_stepped = False
        self._sample: list[torch.Tensor] = []
        self._used: list[tuple[weakref.ref[torch.Tensor], int] | None] = []
        self._handle = optimizer.register_step_post_hook(self._after_step)

    def close(self) -> None:
        """Listen no longer."""
        self._handle.remove()

    def gradients(self) -> Gradients | None:
        """Return the gradient of every parameter, live; None when no step has yet to use them."""
        parameters = _parameters(self._optimizer)
        candidates = list(zip(self._sample, self._used, strict=True)) if self.has_stepped else None
        if candidates is None:
            candidates = [(parameter, None) for parameter in parameters]
        if any(_is_new(parameter.grad, used) for parameter, used in candidates):
            return [parameter.grad for parameter in parameters]
        return None

    def load(self, saved: Sequence[torch.Tensor | None] | None) -> None:
        """Put gradients that `gradients` returned back; None leaves no parameter one."""
        parameters = _parameters(self._optimizer)
        for parameter, gradient in zip(parameters, saved or [None] * len(parameters), strict=True):
            parameter.grad = None if gradient is None else gradient.to(parameter.device, copy=True)
        self.has_stepped = False

    def _after_step(self, optimizer: torch.optim.Optimizer, _args: object, _options: object) -> None:
        if not self._sample or any(parameter.grad is None for parameter in self._sample):
            found = [parameter for parameter in _parameters(optimizer) if parameter.grad is not None]
            self._sample = found[:: -(-len(found) // SAMPLED) or 1]
        self._used = [_reading(parameter.grad) for parameter in self._sample]
        self.has_stepped = True


class Accumulations:
    """What is being accumulated for all optimizers of a run, by the name of the part."""

    def __init__(self, parts: Mapping[str, object]) -> None:
        """Listen to those parts that are optimizers of torch."""
        self._watched = {
            name: Accumulation(part)
            for name, part in parts.items()
            if isinstance(part, torch.optim.Optimizer)
        }

    def close(self) -> None:
        """Listen no longer."""
        for watched in self._watched.values():
            watched.close()

    @property
    def seen(self) -> frozenset[str]:
        """The parts that a step was seen of: of others nothing tells whether their gradients were used."""
        return frozenset(name for name, watched in self._watched.items() if watched.has_stepped)

    def gather(self) -> dict[str, Gradients]:
        """Return the gradients of those optimizers that have yet to use them."""
        found = {name: watched.gradients() for name, watched in self._watched.items()}
        return {name: gradients for name, gradients in found.items() if gradients is not None}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Put back what `gather` returned; all others get none."""
        for name, watched in self._watched.items():
            watched.load(saved.get(name))


class UnusedGradients:
    """Tells once of each optimizer that gradients of it which no step has used are committed."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def notes(self, saved: Mapping[str, Gradients]) -> tuple[str, ...]:
        """Return what there is to tell of what `Accumulations.gather` returned, or a copy of it."""
        new = {name: gradients for name, gradients in saved.items() if name not in self._told}
        self._told |= new.keys()
        return tuple(_note(name, gradients) for name, gradients in new.items())


def _note(name: str, gradients: Gradients) -> str:
    nbytes = sum(gradient.nbytes for gradient in gradients if gradient is not None)
    return (
        f"{nbytes:,} bytes of it are gradients that no step of {name} has used, kept exactly in each such "
        "commit: where they are left over, call zero_grad() of that optimizer before after_step; in a loop "
        "that accumulates gradients they belong to the state"
    )


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _reading(gradient: torch.Tensor | None) -> tuple[weakref.ref[torch.Tensor], int] | None:
    return None if gradient is None else (weakref.ref(gradient), gradient._version)  # noqa: SLF001 - torch's


def _is_new(gradient: torch.Tensor | None, used: tuple[weakref.ref[torch.Tensor], int] | None) -> bool:
    """Tell whether a gradient is another one than a step has used, and not just zeroed."""
    if gradient is None:
        return False
    same = used is not None and used[0]() is gradient and used[1] == gradient._version  # noqa: SLF001 - as above
    return not same and bool(gradient.count_nonzero())
