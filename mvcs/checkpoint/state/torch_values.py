"""torch tensors, parameters and constants as leaves and nodes, and back; torch is imported here alone."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from mvcs.checkpoint.state.captured import Found, Source, refuse
from mvcs.errors import CorruptionError
from mvcs.objects import DTYPES, DType, NodeTag, Path, TensorFlag, Value, as_integer, as_text, element_count

_OF_NUMPY = frozenset({torch.float16, torch.float32, torch.float64})  # whose views take it less time
_DTYPES = {getattr(torch, name): dtype for name, dtype in DTYPES.items() if hasattr(torch, name)}
_NO_FLAGS = TensorFlag(0)
_PLAIN = (
    "wrap what has it in a class that makes plain tensors of it in state_dict, and it of them when loading"
)
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, eq=False)
class TensorSource(Source):
    """Reads a torch tensor; without a copy when it is contiguous, resolved and in host memory."""

    tensor: torch.Tensor

    def read(self) -> memoryview:
        """Return the tensor's content, row-major and little-endian."""
        if self._where_it_lies is not None:
            return self._where_it_lies
        return _flat_bytes(self.tensor.detach().resolve_conj().resolve_neg().cpu())

    @cached_property
    def _where_it_lies(self) -> memoryview | None:
        """The memory of the tensor itself; None where it lies otherwise than it is stored.

        It is read several times a commit: of small tensors each look takes longer than what is read.
        """
        tensor = self.tensor
        turned = tensor.is_conj() or tensor.is_neg()
        dense = tensor.is_cpu and tensor.is_contiguous() and not turned
        return _flat_bytes(tensor.detach()) if dense else None


def wait_for_devices(sources: Iterable[Source]) -> None:
    """Wait for what CUDA devices compute: leaves are read on other threads, with streams of their own."""
    tensors = (source.tensor for source in sources if isinstance(source, TensorSource))
    for device in {tensor.device for tensor in tensors if tensor.device.type == "cuda"}:
        torch.cuda.synchronize(device)


def _flat_bytes(plain: torch.Tensor) -> memoryview:
    bits = plain if plain.dtype in _OF_NUMPY else _as_bits(plain)
    return np.ascontiguousarray(bits.numpy()).reshape(-1).view(np.uint8).data


def _as_bits(tensor: torch.Tensor) -> torch.Tensor:
    # Some types have no copy kernel, and integers cannot lose a NaN's payload.
    if tensor.element_size() == 16:
        return torch.view_as_real(tensor).view(torch.int64)
    return tensor.view(_BITS[tensor.element_size()])


def find_tensor(value: object, path: Path) -> Found | None:
    """Describe a tensor or parameter as a leaf; None when `value` is neither.

    Raises:
        StateError: a tensor without plain values (sparse, quantized, nested, meta), or of a subclass.
    """
    if not isinstance(value, torch.Tensor):
        return None
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        raise refuse(path, f"a tensor of the subclass '{type(value).__name__}'", _PLAIN)
    dtype, flags = _stored_dtype(value, path), _NO_FLAGS
    if value.requires_grad:
        flags |= TensorFlag.REQUIRES_GRAD
    if type(value) is torch.nn.Parameter:
        flags |= TensorFlag.PARAMETER
    return Found(dtype, tuple(value.shape), TensorSource(value), flags, _identity(value))


def _stored_dtype(tensor: torch.Tensor, path: Path) -> DType:
    dtype, strided = _DTYPES.get(tensor.dtype), tensor.layout is torch.strided
    if dtype and strided and not (tensor.is_nested or tensor.is_meta or tensor.is_quantized):
        return dtype
    kinds = {"nested": tensor.is_nested, "meta": tensor.is_meta, "quantized": tensor.is_quantized}
    strange = [name for name, applies in kinds.items() if applies]
    if not strange and not strided:
        strange = [str(tensor.layout).removeprefix("torch.")]
    raise refuse(path, f"a {strange[0]} tensor" if strange else f"a tensor of type '{tensor.dtype}'")


def _identity(tensor: torch.Tensor) -> object:
    # Tensors without elements have no memory to share, so only the object itself tells them apart.
    memory = tensor.data_ptr() if tensor.numel() else id(tensor)
    reading = (tensor.dtype, tensor.is_conj(), tensor.is_neg())
    return ("torch", tensor.device, memory, tensor.shape, tensor.stride(), reading)


def constant_node(value: object, path: Path) -> Value:
    """Return the node of a torch dtype, device or size; None when `value` is none of them.

    Raises:
        StateError: a size is negative.
    """
    if type(value) is torch.dtype:
        return [int(NodeTag.TORCH_DTYPE), str(value).removeprefix("torch.")]
    if type(value) is torch.device:
        return [int(NodeTag.TORCH_DEVICE), str(value)]
    if type(value) is torch.Size:
        if min(value, default=0) < 0:
            raise refuse(path, f"a torch.Size of {min(value)}")
        return [int(NodeTag.TORCH_SIZE), *map(int, value)]
    return None


def rebuild_constant(tag: NodeTag, rest: list[Value]) -> object:
    """Return the torch dtype, device or size of a node.

    Raises:
        CorruptionError: torch has no such constant.
    """
    if tag is NodeTag.TORCH_SIZE:
        return torch.Size([as_integer(size, "a size") for size in rest])
    name = as_text(rest[0] if len(rest) == 1 else None, "a torch constant")
    if tag is NodeTag.TORCH_DTYPE:
        return _dtype_constant(name)
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise CorruptionError(f"torch knows no device '{name}'") from error


def _dtype_constant(name: str) -> torch.dtype:
    found = vars(torch).get(name)
    if not isinstance(found, torch.dtype):
        raise CorruptionError(f"torch knows no type '{name}'")
    return found


def torch_tensor(
    dtype: DType,
    shape: tuple[int, ...],
    data: bytes | bytearray | memoryview,
    flags: TensorFlag = TensorFlag(0),  # noqa: B008 - an enum member, immutable
) -> torch.Tensor:
    """Return little-endian bytes as a tensor in host memory, with writable memory of its own.

    Args:
        dtype: element type.
        shape: sizes.
        data: exactly the tensor's bytes, row-major.
        flags: whether it is a parameter and requires a gradient.

    Raises:
        CorruptionError: the number of bytes is not that of the shape, or the flags do not fit the type.
    """
    view = memoryview(data).cast("B")
    if view.nbytes != element_count(shape) * dtype.itemsize:
        raise CorruptionError(f"a tensor of shape {list(shape)} does not have {view.nbytes} bytes")

    tensor, memory = tensor_to_fill(dtype, shape)
    memory[:] = view
    return with_flags(tensor, flags)


def tensor_to_fill(dtype: DType, shape: tuple[int, ...]) -> tuple[torch.Tensor, memoryview]:
    """Return a tensor in host memory of its own, and that memory: its little-endian bytes, row-major."""
    kind = _dtype_constant(dtype.name)
    if kind in _OF_NUMPY and element_count(shape):
        tensor = torch.empty(shape, dtype=kind)
        return tensor, tensor.numpy().data.cast("B")
    raw = torch.empty(element_count(shape) * dtype.itemsize, dtype=torch.uint8)
    return raw.view(kind).reshape(shape), raw.numpy().data


def with_flags(tensor: torch.Tensor, flags: TensorFlag) -> torch.Tensor:
    """Return `tensor` as the flags want it: itself when it already is, else one that shares its memory.

    Raises:
        CorruptionError: a gradient is asked for a type that has none.
    """
    gradient = TensorFlag.REQUIRES_GRAD in flags
    wanted = torch.nn.Parameter if TensorFlag.PARAMETER in flags else torch.Tensor
    if type(tensor) is wanted and tensor.requires_grad == gradient:
        return tensor
    try:
        if wanted is torch.nn.Parameter:
            return torch.nn.Parameter(tensor.detach(), requires_grad=gradient)
        return tensor.detach().requires_grad_(gradient)
    except RuntimeError as error:
        raise CorruptionError(f"a tensor of type '{tensor.dtype}' cannot require a gradient") from error


def handed_back(value: object, flags: TensorFlag) -> object:
    """Return a leaf the way a reference wants it, sharing its memory; numpy arrays stay what they are.

    Raises:
        CorruptionError: the flags do not fit the tensor's type.
    """
    if not isinstance(value, torch.Tensor):
        return value
    if TensorFlag.NUMPY not in flags:
        return with_flags(value, flags)
    try:
        return value.detach().numpy()
    except TypeError as error:
        raise CorruptionError(f"numpy has no arrays of the type '{value.dtype}'") from error
