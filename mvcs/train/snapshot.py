"""A copy of a state in host memory that no later step of the optimizer can change."""

import copy
from collections import Counter, OrderedDict
from dataclasses import dataclass

import numpy as np
import torch

# As deep as a state may be. What lies deeper is handed on as it is, and refused by its path when stored.
MAX_NESTING = 64

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
# Real numbers with copy kernels of their own. The others are copied as integers: some have no kernel, and
# complex ones may be views that negate.
_COPIED_AS_THEY_ARE = {
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
}
_COPIED = (np.ndarray, np.generic, bytearray, set, frozenset, Counter)


@dataclass(frozen=True)
class _Host:
    """Host memory for one tensor.

    Attributes:
        tensor: what the copy gives out.
        target: the same memory, as it is copied into.
    """

    tensor: torch.Tensor
    target: torch.Tensor

    @classmethod
    def like(cls, tensor: torch.Tensor) -> "_Host":
        """Allocate for `tensor`; pinned when it lies on a CUDA device."""
        pinned = tensor.device.type == "cuda"
        memory = torch.empty(tensor.nbytes, dtype=torch.uint8, pin_memory=pinned)
        host = memory.view(tensor.dtype).reshape(tensor.shape)
        return cls(host, copied_as(host))


class HostBuffers:
    """Host memory for one copy of a state, kept and used again by the next copy.

    The copies of tensors given out by one call of `copy` are overwritten by the next.
    """

    def __init__(self) -> None:
        self._buffers: list[_Host] = []

    @property
    def nbytes(self) -> int:
        """Bytes of host memory held."""
        return sum(buffer.tensor.nbytes for buffer in self._buffers)

    def copy(self, state: object) -> object:
        """Return `state` with its tensors, arrays and containers copied; tied tensors stay tied.

        The walk goes in the order of the containers, so equal structures use equal buffers. Devices have
        finished when this returns. An object that no commit can hold is handed on for the commit to refuse.
        """
        walk = _Copy(self._buffers)
        with torch.no_grad():
            copied = walk.value(state, MAX_NESTING)
        del self._buffers[walk.used :]
        for device in walk.devices:
            torch.cuda.current_stream(device).synchronize()
        return copied


class _Copy:
    """One walk through a state."""

    def __init__(self, buffers: list[_Host]) -> None:
        self.used = 0
        self.devices: set[torch.device] = set()
        self._buffers = buffers
        self._tensors: dict[object, torch.Tensor] = {}
        self._others: dict[int, object] = {}

    def value(self, value: object, depth: int) -> object:
        kind = type(value)
        if isinstance(value, torch.Tensor):
            return self._tensor(value) if is_plain(value) else value
        if depth == 0:
            return value
        if kind in (list, tuple):
            items = [self.value(item, depth - 1) for item in value]  # type: ignore[attr-defined]  # by its kind
            return items if kind is list else tuple(items)
        if kind in (dict, OrderedDict):
            return self._mapping(value, depth)  # type: ignore[arg-type]  # by its kind
        return self._other(value) if isinstance(value, _COPIED) else value

    def _mapping(self, value: dict[object, object], depth: int) -> dict[object, object]:
        copied = type(value)()
        copied.update((key, self.value(item, depth - 1)) for key, item in value.items())
        # What torch's state_dict carries beside its items.
        for name, attribute in getattr(value, "__dict__", {}).items():
            setattr(copied, name, self.value(attribute, depth - 1))
        return copied

    def _other(self, value: object) -> object:
        # One object met twice stays one object.
        if id(value) not in self._others:
            self._others[id(value)] = copy.deepcopy(value)
        return self._others[id(value)]

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        identity = _identity(tensor)
        host = self._tensors.get(identity)
        if host is None:
            host = self._tensors[identity] = self._copied(tensor)
        if type(tensor) is torch.nn.Parameter:
            return torch.nn.Parameter(host, requires_grad=tensor.requires_grad)
        return host.detach().requires_grad_() if tensor.requires_grad else host

    def _copied(self, tensor: torch.Tensor) -> torch.Tensor:
        index, self.used = self.used, self.used + 1
        if index < len(self._buffers) and not _fits(self._buffers[index].tensor, tensor):
            # From here on the structure is another one: give the old memory back before taking new.
            del self._buffers[index:]
        if index == len(self._buffers):
            self._buffers.append(_Host.like(tensor))
        host = self._buffers[index]
        on_device = tensor.device.type == "cuda"
        host.target.copy_(copied_as(tensor), non_blocking=on_device)
        if on_device:
            self.devices.add(tensor.device)
        return host.tensor


def _fits(host: torch.Tensor, tensor: torch.Tensor) -> bool:
    return host.dtype == tensor.dtype and host.shape == tensor.shape


def is_plain(tensor: torch.Tensor) -> bool:
    """Tell whether `tensor` is an ordinary one, whose elements lie in memory of its own."""
    strange = tensor.is_nested or tensor.is_meta or tensor.is_quantized
    plain_type = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    return plain_type and tensor.layout is torch.strided and not strange


def _identity(tensor: torch.Tensor) -> object:
    # Tensors without elements have no memory to share, so only the object itself tells them apart.
    memory = tensor.data_ptr() if tensor.numel() else id(tensor)
    reading = (tensor.dtype, tensor.is_conj(), tensor.is_neg())
    return (tensor.device, memory, tensor.shape, tensor.stride(), reading)


def copied_as(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view of `tensor` that is copied without a bit changing."""
    if tensor.dtype in _COPIED_AS_THEY_ARE:
        return tensor
    resolved = tensor.resolve_conj().resolve_neg()
    if resolved.element_size() == 16:
        return torch.view_as_real(resolved).view(torch.int64)
    return resolved.view(_INTEGERS[resolved.element_size()])
