"""A copy of a state in host memory that no later step of the optimizer can change."""

import copy
from collections import Counter, OrderedDict
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import torch

from mvcs.checkpoint import make_object, object_parts
from mvcs.train.state.host_copies import PLAIN_TYPES, HostMemory

# As deep as a state may be. What lies deeper is handed on as it is, and refused by its path when stored.
MAX_NESTING = 64

# Most of what a state holds beside its tensors, and nothing that could change or hold anything.
_FIXED = frozenset({int, float, bool, str, bytes, complex, type(None)})
_COPIED = (np.ndarray, np.generic, bytearray, set, frozenset, Counter)


class HostBuffers:
    """Host memory for one copy of a state, kept and used again by the next copy.

    The copies of tensors given out by one call of `copy` are overwritten by the next.
    """

    def __init__(self) -> None:
        self._memory = HostMemory()

    @property
    def nbytes(self) -> int:
        """Bytes of host memory held."""
        return self._memory.nbytes

    def copy(self, state: object) -> object:
        """Return `state` with its tensors, arrays and containers copied; tied tensors stay tied.

        The walk goes in the order of the containers, so equal structures use equal buffers. Devices have
        finished when this returns. An object that no commit can hold is handed on for the commit to refuse.
        """
        walk = _Walk(state, self._memory.given)
        with torch.no_grad():
            # Mostly a state is made like the one before it, and the first walk has met what it hoped for.
            while not self._memory.fits(walk.tensors):
                self._memory.make(walk.tensors)
                walk = _Walk(state, self._memory.given)
            self._memory.fill(walk.tensors)
        return walk.copied


class _Walk:
    """One walk through a state.

    Attributes:
        tensors: those met, in order.
        copied: the state with the one of `given` in the place of each; itself where that is None.
    """

    def __init__(self, state: object, given: Sequence[torch.Tensor | None]) -> None:
        self.tensors: list[torch.Tensor] = []
        self._given = iter(given)
        self._others: dict[int, tuple[object, object]] = {}
        self.copied = self._value(state, MAX_NESTING)

    def _value(self, value: object, depth: int) -> object:
        kind = type(value)
        # A nested tensor cannot even be asked for its shape.
        if kind in PLAIN_TYPES and not value.is_nested:  # type: ignore[attr-defined]  # by its kind
            return self._tensor(value)  # type: ignore[arg-type]  # the same
        if kind in _FIXED or depth == 0:
            return value
        if kind in (dict, OrderedDict):
            return self._mapping(value, depth - 1)  # type: ignore[arg-type]  # by its kind
        if kind in (list, tuple):
            items = self._items(value, depth - 1)  # type: ignore[arg-type]  # by its kind
            return items if kind is list else tuple(items)
        if isinstance(value, _COPIED):
            return self._other(value)
        with suppress(ValueError):  # of one that the commit refuses
            parts = object_parts(value)
            return value if parts is None else make_object(*self._items(parts, depth - 1))
        return value

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        self.tensors.append(tensor)
        given = next(self._given, None)
        return tensor if given is None else given

    def _items(self, items: Sequence[object], depth: int) -> list[object]:
        return [item if type(item) in _FIXED else self._value(item, depth) for item in items]

    def _mapping(self, value: dict[object, object], depth: int) -> dict[object, object]:
        copied = type(value)()
        for key, item in value.items():
            copied[key] = item if type(item) in _FIXED else self._value(item, depth)
        if type(value) is OrderedDict:
            # What torch's state_dict carries beside its items.
            for name, attribute in vars(value).items():
                setattr(copied, name, self._value(attribute, depth))
        return copied

    def _other(self, value: object) -> object:
        # One object met twice stays one object; another one may have its id once it is gone.
        if id(value) not in self._others:
            self._others[id(value)] = value, copy.deepcopy(value)
        return self._others[id(value)][1]
