"""A tensor as it was handed over: its type, its shape and the chunks of its bytes."""

from dataclasses import dataclass
from functools import cached_property

from mvcs.objects import cbor
from mvcs.objects.checked_fields import as_list, recording
from mvcs.objects.chunk_grid import chunk_count
from mvcs.objects.dtypes import DType
from mvcs.objects.ids import Kind, ObjectId, as_ids, object_id
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

    @cached_property
    def id(self) -> ObjectId:
        """The id of the tensor: of what it is, wherever it stands."""
        return object_id(Kind.TENSOR, self.encode())

    def encode(self) -> bytes:
        """Return the bytes that the id is of; they are stored nowhere.

        Raises:
            UsageError: they would be refused when they are read.
        """
        return _START + self.head + self.listed

    @property
    def head(self) -> bytes:
        """Its type and shape, encoded.

        Raises:
            UsageError: they would be refused when they are read.
        """
        with recording("this tensor"):
            return head_of(self.dtype, self.shape).content

    @cached_property
    def listed(self) -> bytes:
        """The ids of its chunks, encoded.

        Raises:
            UsageError: they would be refused when they are read.
        """
        with recording("this tensor"):
            chunks = chunk_ids_in(list(self.chunks), head_of(self.dtype, self.shape).chunks)
        return cbor.array_of([*map(cbor.id_item, chunks)])

    def chunk_ids(self) -> tuple[ObjectId, ...]:
        """Return the ids of all chunks it names."""
        return self.chunks

    @classmethod
    def read(cls, dtype: DType, shape: tuple[int, ...], chunks: object) -> "ExactTensor":
        """Read the decoded ids of the chunks of a tensor.

        Raises:
            CorruptionError: they are not those of such a tensor.
        """
        return cls(dtype, shape, chunk_ids_in(chunks, chunk_count(dtype, shape)))


def chunk_ids_in(value: object, count: int) -> tuple[ObjectId, ...]:
    """Read the ids of so many chunks from a decoded tensor.

    Raises:
        CorruptionError: there are others.
    """
    return as_ids(as_list(value, "a list of chunks", count))
