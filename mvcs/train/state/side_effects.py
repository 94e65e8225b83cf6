"""What an evaluation changes of a run beside its model: found, told once, and undone."""

import copy
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.optim.lr_scheduler import LRScheduler

from mvcs.train.state.host_copies import bits_of
from mvcs.train.state.optimizers import part_of

_logger = logging.getLogger("mvcs.train")

_GLOBALS: Final[Mapping[str, tuple[Any, Any]]] = {
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "torch's default device": (torch.get_default_device, torch.set_default_device),
    "torch's number of threads": (torch.get_num_threads, torch.set_num_threads),
    "torch's deterministic algorithms": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
    "torch's float32 matmul precision": (
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
}


class SideEffects:
    """Undoes what evaluations do to optimizers, schedulers, scalers, generators, and torch's global settings.

    Small states are compared around each evaluation. Tensors of optimizers, and of modules beside the model,
    are compared with the snapshot of a commit, whenever `put_back` is called.

    Args:
        parts: gives those of the run but its model, by their places in its state.
    """

    def __init__(self, parts: Callable[[], Mapping[str, object]]) -> None:
        self._parts = parts
        self._told: set[str] = set()

    @property
    def found(self) -> bool:
        """Whether there were any."""
        return bool(self._told)

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Put small states back when the block, an evaluation, has ended."""
        settings = {name: get() for name, (get, _) in _GLOBALS.items()}
        parts = self._parts()
        before = {name: copy.deepcopy(_small(part)) for name, part in parts.items()}
        try:
            yield
        finally:
            for name, (get, put) in _GLOBALS.items():
                if get() != settings[name]:
                    put(settings[name])
                    self._tell(name)
            for name, part in parts.items():
                if not is_same_state(_small(part), before[name]):
                    _put_small(part, before[name])
                    self._tell(name)

    def put_back(self, state: Mapping[str, Any]) -> None:
        """Put back tensors that are others than in a snapshot of the run's state."""
        for name, part in self._parts().items():
            saved = part_of(state, name)
            if saved is None or not isinstance(part, torch.optim.Optimizer | nn.Module):
                continue
            if not is_same_state(part.state_dict(), saved, assigns=True):
                if not is_same_state(part.state_dict(), saved):  # it has other tensors now, or more
                    part.load_state_dict(copy.deepcopy(saved))
                self._tell(name)

    def _tell(self, name: str) -> None:
        if name not in self._told:
            self._told.add(name)
            _logger.warning(
                "evaluate changed %s, and so training: that is undone after each evaluation", name
            )


def _small(part: object) -> Any:  # noqa: ANN401 - as parts have them
    if isinstance(part, torch.Generator):
        return part.get_state()
    if isinstance(part, torch.optim.Optimizer):
        groups = part.param_groups
        return [{key: value for key, value in group.items() if key != "params"} for group in groups]
    return part.state_dict() if isinstance(part, LRScheduler | GradScaler) else None


def _put_small(part: object, saved: Any) -> None:  # noqa: ANN401 - as `_small` gave it
    if isinstance(part, torch.Generator):
        part.set_state(saved)
    elif isinstance(part, torch.optim.Optimizer):
        del part.param_groups[len(saved) :]
        for group, settings in zip(part.param_groups, saved, strict=False):
            params = group["params"]
            group.clear()
            group.update(params=params, **settings)
    elif isinstance(part, LRScheduler | GradScaler):
        part.load_state_dict(saved)


def is_same_state(one: object, other: object, *, assigns: bool = False, unknown: bool = True) -> bool:
    """Tell whether two states are alike to the last bit.

    Args:
        one: a live state.
        other: a copy of it.
        assigns: write the other's values into the tensors of the live one that are of the same kind.
        unknown: what to say of kinds that nobody can compare.
    """
    if isinstance(one, torch.Tensor):
        if not isinstance(other, torch.Tensor) or (one.dtype, one.shape) != (other.dtype, other.shape):
            return False
        if one.layout is not torch.strided:
            return unknown
        is_same = torch.equal(bits_of(one).cpu(), bits_of(other).cpu())
        if assigns and not is_same:
            with torch.no_grad():
                one.copy_(other)
        return is_same
    if isinstance(one, Mapping):
        if not isinstance(other, Mapping) or one.keys() != other.keys():
            return False
        pairs = [(value, other[key]) for key, value in one.items()]
    elif isinstance(one, list | tuple):
        if not isinstance(other, list | tuple) or len(one) != len(other):
            return False
        pairs = [*zip(one, other, strict=True)]
    elif isinstance(one, int | float | str | bytes | None):
        return one == other or one != one  # noqa: PLR0124 - NaN
    else:
        return unknown
    # All are compared: each may have to be written.
    return min([is_same_state(*pair, assigns=assigns, unknown=unknown) for pair in pairs], default=True)
