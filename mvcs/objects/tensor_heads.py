"""What the bytes of tensors and leaves begin with, checked and encoded once for each type and shape."""

from dataclasses import dataclass
from functools import lru_cache

from mvcs.objects import cbor
from mvcs.objects.chunk_grid import as_shape, chunk_count
from mvcs.objects.dtypes import DType, dtype_named

_REMEMBERED = 1 << 10  # types and shapes; a model has a few dozen


@dataclass(frozen=True)
class TensorHead:
    """A type and a shape as they are recorded.

    Attributes:
        content: the name of the type and the list of sizes, encoded.
        dtype: the type of that name.
        shape: the sizes.
        chunks: how many there are on the grid.
    """

    content: bytes
    dtype: DType
    shape: tuple[int, ...]
    chunks: int


def head_of(dtype: DType, shape: tuple[int, ...]) -> TensorHead:
    """Return the head of tensors of a type and shape.

    Raises:
        CorruptionError: readers would refuse the shape.
        UnsupportedFormatError: or the type.
    """
    # 1, 1.0 and True are equal, and only one of them is a size.
    return _head_of(dtype.name, tuple(shape), tuple(map(type, shape)))


@lru_cache(_REMEMBERED)
def _head_of(name: str, shape: tuple[int, ...], _types: tuple[type, ...]) -> TensorHead:
    dtype, sizes = dtype_named(name), as_shape(list(shape))
    return TensorHead(cbor.dumps(name) + cbor.dumps(sizes), dtype, sizes, chunk_count(dtype, sizes))
