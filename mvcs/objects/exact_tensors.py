"""A tensor as it was handed over: its type, its shape and the chunks of its bytes."""

from dataclasses import dataclass

from mvcs.objects import cbor
from mvcs.objects.checked_fields import as_list, recording
from mvcs.objects.chunk_grid import as_shape, chunk_count
from mvcs.objects.dtypes import DType, dtype_named
from mvcs.objects.ids import Kind, ObjectId, as_id, object_id


@dataclass(frozen=True)
class ExactTensor:
    """A tensor bit for bit.

    Attributes:
        dtype: its element type.
        shape: sizes, row-major; empty for a 0-d tensor.
        chunks: ids of the chunks of its little-endian bytes on the chunk grid.
    """

    dtype: DType
    shape: tuple[int, ...]
    chunks: tuple[ObjectId, ...]

    def encode(self) -> bytes:
        """Return the canonical content.

        Raises:
            UsageError: it would be refused when it is read.
        """
        value: cbor.Value = [self.dtype.name, list(self.shape), list(self.chunks)]
        with recording("this tensor"):
            self._of(value)
        return cbor.dumps(value)

    @property
    def id(self) -> ObjectId:
        """The tensor's id."""
        return object_id(Kind.TENSOR, self.encode())

    @classmethod
    def decode(cls, content: bytes) -> "ExactTensor":
        """Read canonical content.

        Raises:
            CorruptionError: it is not an exact tensor.
            UnsupportedFormatError: its element type is unknown.
        """
        return cls._of(cbor.loads(content))

    @classmethod
    def _of(cls, value: cbor.Value) -> "ExactTensor":
        name, shape, chunks = as_list(value, "a tensor", 3)
        dtype, sizes = dtype_named(name), as_shape(shape)
        return cls(dtype, sizes, chunk_ids_in(chunks, chunk_count(dtype, sizes)))


def chunk_ids_in(value: object, count: int) -> tuple[ObjectId, ...]:
    """Read the ids of so many chunks from a decoded tensor.

    Raises:
        CorruptionError: there are others.
    """
    return tuple(as_id(chunk) for chunk in as_list(value, "a list of chunks", count))
