"""Element types by name, and the chunk grid: where a tensor or blob is cut, by dtype and shape alone.

The names of types are content (they stand in tensor objects), so a name is never changed or reused.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mvcs.errors import CorruptionError, UnsupportedFormatError

CHUNK_ELEMENTS = 1 << 22
WIDE_CHUNK_ELEMENTS = 1 << 21
BLOB_CHUNK_BYTES = 1 << 24
MAX_DIMENSIONS = 64
MAX_ELEMENTS = 1 << 56


@dataclass(frozen=True)
class DType:
    """One element type.

    Attributes:
        name: the name in tensor objects, PyTorch's own.
        itemsize: bytes of an element, little-endian.
        kind: "float", "complex", "signed", "unsigned" or "bool".
        numpy: the numpy dtype string of the same layout, or None where numpy has none.
    """

    name: str
    itemsize: int
    kind: str
    numpy: str | None

    @property
    def quantizable(self) -> bool:
        """Whether a quantizer takes it: real floating point of 16 bits and more."""
        return self.kind == "float" and self.itemsize >= 2


_TABLE = (
    DType("bool", 1, "bool", "?"),
    DType("uint8", 1, "unsigned", "u1"),
    DType("uint16", 2, "unsigned", "<u2"),
    DType("uint32", 4, "unsigned", "<u4"),
    DType("uint64", 8, "unsigned", "<u8"),
    DType("int8", 1, "signed", "i1"),
    DType("int16", 2, "signed", "<i2"),
    DType("int32", 4, "signed", "<i4"),
    DType("int64", 8, "signed", "<i8"),
    DType("float16", 2, "float", "<f2"),
    DType("bfloat16", 2, "float", None),
    DType("float32", 4, "float", "<f4"),
    DType("float64", 8, "float", "<f8"),
    DType("float8_e4m3fn", 1, "float", None),
    DType("float8_e4m3fnuz", 1, "float", None),
    DType("float8_e5m2", 1, "float", None),
    DType("float8_e5m2fnuz", 1, "float", None),
    DType("float8_e8m0fnu", 1, "float", None),
    DType("float4_e2m1fn_x2", 1, "float", None),
    DType("complex32", 4, "complex", None),
    DType("complex64", 8, "complex", "<c8"),
    DType("complex128", 16, "complex", "<c16"),
)

DTYPES = {dtype.name: dtype for dtype in _TABLE}
BY_NUMPY = {dtype.numpy: dtype for dtype in _TABLE if dtype.numpy is not None}


def dtype_named(name: object) -> DType:
    """Look an element type up by the name found in an object.

    Raises:
        UnsupportedFormatError: this version does not know it.
    """
    found = DTYPES.get(name) if isinstance(name, str) else None
    if found is None:
        raise UnsupportedFormatError(
            f"unknown element type {name!r}", hint="a newer mvcs may have written it; upgrade and try again"
        )
    return found


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
