"""A copy of a state in host memory that no later step can change: allocated once, filled again."""

import copy
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import compress
from operator import attrgetter, eq
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import mvcs_native
from mvcs.checkpoint import make_object, object_parts

# What a tensor is in Python where its elements may lie in memory of its own.
PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)

# As which bits are copied and compared.
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
# Real numbers with copy kernels of their own. The others are copied as integers: some have no kernel, and
# complex ones may be views that negate.
_COPIED_AS_THEY_ARE = {
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
}
# Everything that decides how a tensor is copied and what is given out for it, but for which ones are tied.
_reading = attrgetter("__class__", "layout", "dtype", "shape", "device", "requires_grad")
# As deep as a state may be. What lies deeper is handed on as it is, and refused by its path when stored.
MAX_NESTING = 64

# Most of what a state holds beside its tensors, and nothing that could change or hold anything.
_FIXED = frozenset({int, float, bool, str, bytes, complex, type(None)})
_COPIED = (np.ndarray, np.generic, bytearray, set, frozenset, Counter)


@dataclass(frozen=True)
class _Host:
    """Host memory for one tensor.

    Attributes:
        tensor: what the copy gives out.
        target: the same memory, as it is copied into.
        memory: its bytes.
    """

    tensor: torch.Tensor
    target: torch.Tensor
    memory: NDArray[np.uint8]

    @classmethod
    def like(cls, tensor: torch.Tensor) -> "_Host":
        """Allocate for `tensor`; pinned when it lies on a CUDA device."""
        pinned = tensor.device.type == "cuda"
        memory = torch.empty(tensor.nbytes, dtype=torch.uint8, pin_memory=pinned)
        host = memory.view(tensor.dtype).reshape(tensor.shape)
        return cls(host, copied_as(host), memory.numpy())

    def fits(self, tensor: torch.Tensor) -> bool:
        return self.tensor.dtype == tensor.dtype and self.tensor.shape == tensor.shape

    def given(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return what stands for `tensor` in a copy."""
        if type(tensor) is torch.nn.Parameter:
            return torch.nn.Parameter(self.tensor, requires_grad=tensor.requires_grad)
        return self.tensor.detach().requires_grad_() if tensor.requires_grad else self.tensor


@dataclass(frozen=True)
class _Plan:
    """How tensors are copied, and what they have to be like. "Live" are those of them that are plain.

    Attributes:
        readings: of each tensor.
        plain: whether each tensor is.
        ties: index of the live tensor that another is tied to, by its own.
        given: what stands for each tensor in a copy; None for one that is not plain.
        direct: whether each live tensor is one whose bytes are copied as they lie, all of them in one call.
        gather: does that.
        singly: index of every other live tensor that is not tied to one before it, and where it is copied to.
        devices: CUDA devices that tensors are on.
    """

    readings: Sequence[object] = ()
    plain: Sequence[bool] = ()
    ties: Mapping[int, int] = field(default_factory=dict)
    given: Sequence[torch.Tensor | None] = ()
    direct: Sequence[bool] = ()
    gather: mvcs_native.Gather = field(default_factory=lambda: mvcs_native.Gather([]))
    singly: Sequence[tuple[int, torch.Tensor]] = ()
    devices: frozenset[torch.device] = frozenset()

    def copy(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Copy `tensors`, if they are like those that this was made for, and the same ones are tied."""
        # One after the other: thousands of tuples at once would call for the garbage collector.
        alike = len(tensors) == len(self.readings) and all(map(eq, map(_reading, tensors), self.readings))
        if not alike:
            return False
        live = list(compress(tensors, self.plain))
        direct = list(compress(live, self.direct))
        as_bytes = all(map(torch.Tensor.is_contiguous, direct)) and not any(map(torch.Tensor.is_neg, direct))
        addresses = list(map(torch.Tensor.data_ptr, live)) if as_bytes else []
        if not as_bytes or _ties(live, addresses) != self.ties:
            return False
        for device in self.devices:
            # On whichever stream the optimizer stepped: a copy waits for the current one alone.
            torch.cuda.synchronize(device)
        for place, target in self.singly:
            # Before it is copied: torch would negate the copy here, while it still arrives from a device.
            source = copied_as(live[place].resolve_neg())
            # Pinned memory alone may be copied to while we go on, and only CUDA devices are waited for.
            target.copy_(source, non_blocking=live[place].device in self.devices)
        self.gather.fill(list(compress(addresses, self.direct)), torch.get_num_threads())
        for device in self.devices:
            torch.cuda.current_stream(device).synchronize()
        return True


class HostMemory:
    """Host memory for a list of tensors."""

    def __init__(self) -> None:
        self._hosts: list[_Host] = []
        self._plan = _Plan()

    @property
    def nbytes(self) -> int:
        """Bytes of host memory held."""
        return sum(host.tensor.nbytes for host in self._hosts)

    @property
    def row_by_row(self) -> bool:
        """Whether it was made for tensors on the CPU alone, all of which lie row by row."""
        return bool(self._plan.direct) and not self._plan.singly

    @property
    def given(self) -> Sequence[torch.Tensor | None]:
        """What stands for each tensor in a copy; None for one that is not plain."""
        return self._plan.given

    def make(self, tensors: Sequence[torch.Tensor]) -> None:
        """Make `tensors` fit. What is held is used as far as they are alike, from the first one on."""
        self._plan = _Plan()
        plain = [is_plain(tensor) for tensor in tensors]
        live = list(compress(tensors, plain))
        ties = _ties(live, list(map(torch.Tensor.data_ptr, live)))
        own = [place for place in range(len(live)) if place not in ties]
        self._allocate([live[place] for place in own])
        hosts = dict(zip(own, self._hosts, strict=True))
        given = (hosts[ties.get(place, place)].given(tensor) for place, tensor in enumerate(live))
        direct = [place in hosts and _is_direct(tensor) for place, tensor in enumerate(live)]
        self._plan = _Plan(
            readings=list(map(_reading, tensors)),
            plain=plain,
            ties=ties,
            given=[next(given) if is_one else None for is_one in plain],
            direct=direct,
            gather=mvcs_native.Gather([host.memory for place, host in hosts.items() if direct[place]]),
            singly=[(place, host.target) for place, host in hosts.items() if not direct[place]],
            devices=frozenset(tensor.device for tensor in live if tensor.device.type == "cuda"),
        )

    def fill(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Copy `tensors`; devices have finished when this returns.

        Nothing is copied, and False returned, where they are not like those that the memory was made for, or
        where others are tied.
        """
        return self._plan.copy(tensors)

    def _allocate(self, tensors: Sequence[torch.Tensor]) -> None:
        pairs = enumerate(zip(self._hosts, tensors, strict=False))
        alike = next((index for index, (host, tensor) in pairs if not host.fits(tensor)), len(tensors))
        # What does not fit is given back before more is taken.
        del self._hosts[alike:]
        self._hosts.extend(_Host.like(tensor) for tensor in tensors[len(self._hosts) :])


def _is_direct(tensor: torch.Tensor) -> bool:
    real = tensor.device.type == "cpu" and tensor.dtype in _COPIED_AS_THEY_ARE
    return real and tensor.is_contiguous() and not tensor.is_neg()


def is_plain(tensor: torch.Tensor) -> bool:
    """Tell whether `tensor` is an ordinary one, whose elements lie in memory of its own."""
    strange = tensor.is_nested or tensor.is_meta or tensor.is_quantized
    return type(tensor) in PLAIN_TYPES and tensor.layout is torch.strided and not strange


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor, row by row, where it is."""
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    # A single element may have any stride, and only one of 1 is viewed as bytes.
    return flat.as_strided(flat.shape, (1,)).view(torch.uint8)


def copied_as(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view of `tensor` that is copied without a bit changing."""
    if tensor.dtype in _COPIED_AS_THEY_ARE:
        return tensor
    resolved = tensor.resolve_conj().resolve_neg()
    if resolved.element_size() == 16:
        return torch.view_as_real(resolved).view(torch.int64)
    return resolved.view(INTEGERS[resolved.element_size()])


def _ties(tensors: Sequence[torch.Tensor], places: Sequence[int]) -> dict[int, int]:
    """Return the index of the first tensor tied to each one that is not the first, by their addresses."""
    if len(set(places)) == len(places):
        return {}
    times = Counter(places)
    first: dict[object, int] = {}
    shared = (index for index, place in enumerate(places) if times[place] > 1)
    firsts = ((index, first.setdefault(_identity(tensors[index]), index)) for index in shared)
    return {index: found for index, found in firsts if index != found}


def _identity(tensor: torch.Tensor) -> object:
    # Tensors without elements have no memory to share, so only the object itself tells them apart.
    memory = tensor.data_ptr() if tensor.numel() else id(tensor)
    reading = (tensor.dtype, tensor.is_conj(), tensor.is_neg())
    return (tensor.device, memory, tensor.shape, tensor.stride(), reading)


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

    @property
    def row_by_row(self) -> bool:
        """Whether the plain tensors of the last copy were on the CPU and lay row by row."""
        return self._memory.row_by_row

    def copy(self, state: object) -> object:
        """Return `state` with its tensors, arrays and containers copied; tied tensors stay tied.

        The walk goes in the order of the containers, so equal structures use equal buffers. Devices have
        finished when this returns. An object that no commit can hold is handed on for the commit to refuse.
        """
        walk = _Walk(state, self._memory.given)
        with torch.no_grad():
            # Mostly a state is made like the one before it, and the first walk has met what it hoped for.
            while not self._memory.fill(walk.tensors):
                self._memory.make(walk.tensors)
                walk = _Walk(state, self._memory.given)
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
        (self.copied,) = self._items([state], MAX_NESTING)

    def _items(self, items: Sequence[object], depth: int) -> list[object]:
        copied = list(items)
        self._replace(enumerate(items), copied, depth)
        return copied

    def _replace(self, items: Iterable[tuple[Any, Any]], copied: Any, depth: int) -> None:  # noqa: ANN401 - by place
        """Put copies of items into the copied container that holds them. No call for each: there are many."""
        for place, item in items:
            kind = type(item)
            # A nested tensor cannot even be asked for its shape.
            if kind in PLAIN_TYPES and not item.is_nested:
                self.tensors.append(item)
                given = next(self._given, None)
                if given is not None:
                    copied[place] = given
            elif kind not in _FIXED and depth:
                copied[place] = self._held(item, kind, depth - 1)

    def _held(self, value: Any, kind: type, depth: int) -> object:  # noqa: ANN401 - of that kind
        if kind in (dict, OrderedDict):
            copied = value.copy()
            self._replace(value.items(), copied, depth)
            if kind is OrderedDict:
                # What torch's state_dict carries beside its items.
                vars(copied).update(vars(value))
                self._replace(vars(value).items(), vars(copied), depth)
            return copied
        if kind in (list, tuple):
            return kind(self._items(value, depth))
        if isinstance(value, _COPIED):
            return self._other(value)
        with suppress(ValueError):  # of one that the commit refuses
            parts = object_parts(value)
            return value if parts is None else make_object(*self._items(parts, depth))
        return value

    def _other(self, value: object) -> object:
        # One object met twice stays one object; another one may have its id once it is gone.
        if id(value) not in self._others:
            self._others[id(value)] = value, copy.deepcopy(value)
        return self._others[id(value)][1]
