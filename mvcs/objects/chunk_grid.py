"""The chunk grid: where a tensor or blob is cut, as a function of its dtype and shape alone."""

import math
from collections.abc import Iterator, Sequence

from mvcs.errors import CorruptionError
from mvcs.objects.dtypes import DType

CHUNK_ELEMENTS = 1 << 22
WIDE_CHUNK_ELEMENTS = 1 << 21
BLOB_CHUNK_BYTES = 1 << 24
MAX_DIMENSIONS = 64
MAX_ELEMENTS = 1 << 56


def chunk_elements(dtype: DType) -> int:
    """Return how many elements a full chunk holds: 2^22, or 2^21 for 16-byte types."""
    return WIDE_CHUNK_ELEMENTS if dtype.itemsize == 16 else CHUNK_ELEMENTS


def cut(dtype: DType, data: memoryview) -> Iterator[memoryview]:
    """Yield the bytes of a whole tensor chunk by chunk, without copying them."""
    run = chunk_elements(dtype) * dtype.itemsize
    return (data[start : start + run] for start in range(0, len(data), run))


def element_count(shape: Sequence[int]) -> int:
    """Return the number of elements of a tensor of this shape; 1 for a 0-d tensor."""
    return math.prod(shape)


def blob_chunk_lengths(length: int) -> list[int]:
    """Return the bytes of each chunk of a blob of `length` bytes."""
    return [min(BLOB_CHUNK_BYTES, length - start) for start in range(0, length, BLOB_CHUNK_BYTES)]


def as_shape(value: object) -> tuple[int, ...]:
    """Check a decoded shape.

    Raises:
        CorruptionError: not a list of at most 64 sizes with a product below 2^56.
    """
    if not isinstance(value, list) or len(value) > MAX_DIMENSIONS:
        raise CorruptionError("a tensor's shape is not a short list of sizes")
    for size in value:
        if type(size) is not int or not 0 <= size < MAX_ELEMENTS:
            raise CorruptionError("a tensor's shape holds something that is not a size")
    if element_count(value) >= MAX_ELEMENTS:
        raise CorruptionError("a tensor's shape has too many elements")
    return tuple(value)


def chunk_count(dtype: DType, shape: Sequence[int]) -> int:
    """Return the number of chunks without listing them, so that a hostile shape costs nothing."""
    return -(-element_count(shape) // chunk_elements(dtype))
