"""A tensor as it was handed over: its type, its shape and the chunks of its bytes."""

from dataclasses import dataclass
from functools import cached_property

from mvcs.objects import cbor
from mvcs.objects.checked_fields import as_list, recording
from mvcs.objects.chunk_grid import as_shape, chunk_count
from mvcs.objects.dtypes import DType, dtype_named
from mvcs.objects.ids import Kind, ObjectId, as_id, object_id
from mvcs.objects.tensor_heads import head_of

_START = cbor.dumps([0, 0, 0])[:1]  # an array of three


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
        return self._content

    @cached_property
    def _content(self) -> bytes:
        with recording("this tensor"):
            head = head_of(self.dtype, self.shape)
            chunks = chunk_ids_in(list(self.chunks), head.chunks)
        return _START + head.content + cbor.array_of([*map(cbor.id_item, chunks)])

    @cached_property
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
    return tuple([as_id(chunk) for chunk in as_list(value, "a list of chunks", count)])
