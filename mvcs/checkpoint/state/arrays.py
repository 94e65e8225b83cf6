"""numpy arrays and scalars as leaves, and back.

Types that numpy lacks (bfloat16, the float8 and float4 kinds, complex32) are handed over as unsigned integers
of the same width, so that their bits can be looked at without torch.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from mvcs.checkpoint.state.captured import CapturedLeaf, Found, Source, refuse
from mvcs.errors import CorruptionError
from mvcs.objects import (
    BY_NUMPY,
    DType,
    NodeTag,
    Path,
    TensorFlag,
    Value,
    as_bytes,
    dtype_named,
    element_count,
    tensor_reference,
)

Array = np.ndarray[Any, Any]

_KINDS = {(np.dtype(name).kind, dtype.itemsize): dtype for name, dtype in BY_NUMPY.items()}
_SCALAR = 3  # parts of the node of a numpy scalar
_REAL = frozenset({"bool", "signed", "unsigned", "float"})
_BFLOAT16 = "bfloat16"


def dtype_of(dtype: np.dtype[Any]) -> DType | None:
    """Return the element type of a numpy dtype of either byte order, None when it has none here."""
    return _KINDS.get((dtype.kind, dtype.itemsize))


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """Return the numpy dtype an element type is handed over as."""
    return np.dtype(dtype.numpy if dtype.numpy is not None else f"<u{dtype.itemsize}")


def numpy_view(dtype: DType, shape: tuple[int, ...], data: bytes | bytearray | memoryview) -> Array:
    """Return little-endian bytes as an array that shares their memory, read-only where that is.

    Raises:
        CorruptionError: the number of bytes is not that of the shape.
    """
    length = memoryview(data).nbytes
    if length != element_count(shape) * dtype.itemsize:
        raise CorruptionError(f"a tensor of shape {list(shape)} does not have {length} bytes")
    if not element_count(shape):
        return np.empty(shape, numpy_dtype(dtype))
    return np.frombuffer(data, numpy_dtype(dtype)).reshape(shape)


@dataclass(frozen=True, eq=False)
class ArraySource(Source):
    """Reads a numpy array; without a copy when it is contiguous and little-endian."""

    array: Array

    def read(self) -> memoryview:
        """Return the array's content, row-major and little-endian."""
        native = self.array.astype(self.array.dtype.newbyteorder("<"), copy=False)
        return np.ascontiguousarray(native).reshape(-1).view(np.uint8).data


def find_array(array: Array, path: Path) -> Found:
    """Describe a numpy array as a leaf; big-endian content is stored little-endian.

    Raises:
        StateError: objects, text, dates and records are not tensors.
    """
    dtype = dtype_of(array.dtype)
    if dtype is None:
        raise refuse(path, f"a numpy array of type '{array.dtype}'")
    memory = array.__array_interface__["data"][0] if array.size else id(array)
    identity = ("numpy", memory, array.shape, array.strides, array.dtype.str)
    return Found(dtype, array.shape, ArraySource(array), TensorFlag.NUMPY, identity)


def scalar_node(scalar: np.generic, path: Path) -> Value:
    """Return the node of a numpy scalar: the element type's name and its little-endian bytes.

    Raises:
        StateError: text, dates and records are not numbers.
    """
    dtype = dtype_of(scalar.dtype)
    if dtype is None:
        raise refuse(path, f"a numpy scalar of type '{scalar.dtype}'")
    raw = np.asarray(scalar).astype(numpy_dtype(dtype)).tobytes()
    return [int(NodeTag.NUMPY_SCALAR), dtype.name, raw]


def rebuild_scalar(name: Value, raw: Value) -> np.generic:
    """Return the numpy scalar of a node.

    Raises:
        CorruptionError: the bytes are not one number of that type.
        UnsupportedFormatError: the type is unknown.
    """
    dtype = dtype_named(name)
    if dtype.numpy is None:
        raise CorruptionError(f"numpy has no scalars of the type '{dtype.name}'")
    data = as_bytes(raw, "a numpy scalar")
    if len(data) != dtype.itemsize:
        raise CorruptionError(f"a numpy scalar of the type '{dtype.name}' has {len(data)} bytes")
    native = np.frombuffer(data, dtype.numpy).astype(np.dtype(dtype.numpy).newbyteorder("="), copy=False)
    scalar: np.generic = native[0]
    return scalar


def number_of(node: Value, leaves: Sequence[CapturedLeaf]) -> float | None:
    """Return a number of Python, numpy or a tensor of one element; None where no float can hold it.

    Args:
        node: of the state.
        leaves: its tensors.
    """
    if isinstance(node, int | float):
        with suppress(OverflowError):
            return float(node)
    reference = tensor_reference(node)
    if reference is not None:
        return number_in(leaves[reference[0]])
    if isinstance(node, list) and len(node) == _SCALAR and node[0] == NodeTag.NUMPY_SCALAR:
        value = rebuild_scalar(*node[1:]).item()
        return float(value) if isinstance(value, int | float) else None
    return None


def number_in(leaf: CapturedLeaf) -> float | None:
    """Return the one element of a real tensor of 16 bits and more, or of integers; None of any other."""
    dtype = leaf.dtype
    if dtype.kind not in _REAL or element_count(leaf.shape) != 1:
        return None
    data = leaf.source.read()
    if dtype.name == _BFLOAT16:  # the upper half of a float32
        return float(np.frombuffer(bytes(2) + bytes(data), "<f4")[0])
    return None if dtype.numpy is None else float(numpy_view(dtype, (), data))
