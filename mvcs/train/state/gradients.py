"""Gradients that are being accumulated: they are part of a state between a backward pass and its step."""

import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import torch

from mvcs.errors import UsageError
from mvcs.train.state.optimizers import innermost

Saved = torch.Tensor | dict[str, Any] | None
"""A gradient that is kept: a tensor, or of a sparse one `{"indices", "values", "shape"}`; None for none."""
Gradients = list[Saved]

_gradient, _version = attrgetter("grad"), attrgetter("_version")


class Accumulation:
    """Knows whether an optimizer has yet to use the gradients that are there.

    Gradients often stay where they are after a step, to be zeroed before the next one. So their presence says
    nothing: what counts is whether they changed since the step. Each is known by itself and by how often it
    was written, which takes a fifth of a microsecond for each at a step. Whether others are more than zeros
    is looked at when a state is gathered.

    Attributes:
        has_stepped: a step was seen since the beginning, or since gradients were loaded.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        """Listen to its steps until `close`."""
        self._optimizer = optimizer
        self.has_stepped = False
        self._used: list[weakref.ref[torch.Tensor]] = []
        self._versions: list[int] = []
        self._handle = optimizer.register_step_post_hook(self._after_step)

    def close(self) -> None:
        """Listen no longer."""
        self._handle.remove()

    @property
    def has_state(self) -> bool:
        """Whether the optimizer has a state, as one that has stepped mostly does."""
        return bool(self._optimizer.state)

    def gradients(self) -> Gradients | None:
        """Return the gradient of every parameter, live; None when no step has yet to use them."""
        gradients = list(map(_gradient, _parameters(self._optimizer)))
        if all(map(_is_zero, self._unused(gradients))):
            return None
        return [_packed(gradient) for gradient in gradients]

    def check(self, saved: Sequence[Saved] | None) -> None:
        """Find out whether gradients are those of the parameters.

        Raises:
            ValueError: they are not; the message says what is wrong.
        """
        parameters = _parameters(self._optimizer)
        if saved is None:
            return
        if len(saved) != len(parameters):
            raise ValueError(f"there are {len(saved)} there and {len(parameters)} parameters here")
        for place, (parameter, gradient) in enumerate(zip(parameters, saved, strict=True)):
            _check(place, parameter, gradient)

    def load(self, saved: Sequence[Saved] | None) -> None:
        """Put gradients that `gradients` returned back; None leaves no parameter one."""
        parameters = _parameters(self._optimizer)
        for parameter, gradient in zip(parameters, saved or [None] * len(parameters), strict=True):
            parameter.grad = _unpacked(gradient, parameter.device)
        self.has_stepped = False
        self._used, self._versions = [], []

    def _unused(self, gradients: Sequence[torch.Tensor | None]) -> Iterator[torch.Tensor]:
        """Yield the gradients that are other ones than the last step has used, or were written since."""
        pairs = zip((known() for known in self._used), self._versions, strict=True)
        used = {id(gradient): version for gradient, version in pairs if gradient is not None}
        for gradient in gradients:
            if gradient is not None and used.get(id(gradient)) != gradient._version:  # noqa: SLF001 - torch's
                yield gradient

    def _after_step(self, optimizer: torch.optim.Optimizer, _args: object, _options: object) -> None:
        found = [gradient for gradient in map(_gradient, _parameters(optimizer)) if gradient is not None]
        self._used, self._versions = list(map(weakref.ref, found)), list(map(_version, found))
        self.has_stepped = True


class Accumulations:
    """What is being accumulated for all optimizers of a run, by the name of the part."""

    def __init__(self, parts: Mapping[str, object]) -> None:
        """Listen to those parts that are optimizers of torch."""
        self._watched = {
            name: Accumulation(inner)
            for name, part in parts.items()
            if isinstance(part, torch.optim.Optimizer) and (inner := innermost(part)) is not None
        }

    def close(self) -> None:
        """Listen no longer."""
        for watched in self._watched.values():
            watched.close()

    @property
    def seen(self) -> frozenset[str]:
        """The parts that a step was seen of: of others nothing tells whether their gradients were used."""
        return frozenset(name for name, watched in self._watched.items() if watched.has_stepped)

    @property
    def idle(self) -> list[str]:
        """The parts that no step was seen of, and which have no state."""
        return [name for name, one in self._watched.items() if not one.has_stepped and not one.has_state]

    def gather(self) -> dict[str, Gradients]:
        """Return the gradients of those optimizers that have yet to use them."""
        found = {name: watched.gradients() for name, watched in self._watched.items()}
        return {name: gradients for name, gradients in found.items() if gradients is not None}

    def check(self, saved: Mapping[str, Any], source: str) -> None:
        """Find out whether gradients are those of the parameters that are here.

        Raises:
            UsageError: they are not.
        """
        for name, watched in self._watched.items():
            try:
                watched.check(saved.get(name))
            except (AttributeError, TypeError, ValueError) as error:
                raise UsageError(
                    f"{source} does not fit the gradients of the {name}: {error}",
                    hint=f"nothing is loaded; make the {name} as that run did",
                ) from error

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
    count = sum(map(_nbytes, gradients))
    return (
        f"{count:,} bytes of it are gradients that no step of {name} has used, kept exactly in each such "
        "commit: where they are left over, call zero_grad() of that optimizer before after_step; in a loop "
        "that accumulates gradients they belong to the state"
    )


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _check(place: int, parameter: torch.Tensor, saved: Saved) -> None:
    try:
        gradient = _unpacked(saved, torch.device("cpu"))
    except (AttributeError, KeyError, TypeError, RuntimeError, ValueError) as error:
        raise ValueError(f"that of parameter {place} is none: {error}") from error
    if gradient is None or torch.nn.parameter.is_lazy(parameter):
        return
    if (gradient.shape, gradient.dtype) != (parameter.shape, parameter.dtype):
        there, here = (f"{tuple(one.shape)} of {one.dtype}" for one in (gradient, parameter))
        raise ValueError(f"that of parameter {place} is {there} there, and the parameter {here} here")


def _packed(gradient: torch.Tensor | None) -> Saved:
    """Return a gradient in parts that a commit can hold; they are the live ones.

    A sparse one is not made dense, which may take all memory there is, and its optimizer would refuse that.
    """
    if gradient is None or gradient.layout is not torch.sparse_coo:
        return gradient
    # The private names give these without adding values of one place up first.
    indices, values = gradient._indices(), gradient._values()  # noqa: SLF001 - torch's
    return {"indices": indices, "values": values, "shape": list(gradient.shape)}


def _unpacked(saved: Saved, device: torch.device) -> torch.Tensor | None:
    """Return a copy of what `_packed` returned as a gradient on a device.

    Raises:
        KeyError, TypeError, RuntimeError, ValueError: it is none.
    """
    if not isinstance(saved, Mapping):
        return None if saved is None else saved.to(device, copy=True)
    indices, values = (saved[name].to(device, copy=True) for name in ("indices", "values"))
    with warnings.catch_warnings():
        # Of checks that are not asked for elsewhere: torch 2.11 says so even where they are.
        warnings.filterwarnings("ignore", "Sparse invariant checks are implicitly disabled")
        return torch.sparse_coo_tensor(indices, values, size=tuple(saved["shape"]), check_invariants=True)


def _is_zero(gradient: torch.Tensor) -> bool:
    """Tell whether a gradient is known to be zeros; it is looked through."""
    if gradient.layout is torch.sparse_coo:
        gradient = gradient._values()  # noqa: SLF001 - as above
    return gradient.layout is torch.strided and not gradient.count_nonzero()


def _nbytes(saved: Saved) -> int:
    """Return how many bytes a commit holds of a gradient."""
    if isinstance(saved, Mapping):
        return int(saved["indices"].nbytes + saved["values"].nbytes)
    return 0 if saved is None else saved.nbytes
