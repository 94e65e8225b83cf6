"""What a tensor is: dtype, shape and the ids of its chunks, exactly or through a code table."""

from collections.abc import Sequence
from dataclasses import dataclass

from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.objects import cbor
from mvcs.objects.dtypes import DType, dtype_named
from mvcs.objects.fields import as_bytes, as_integer, as_list
from mvcs.objects.grid import as_shape, chunk_count, chunk_elements, element_count
from mvcs.objects.ids import Kind, ObjectId, as_id, object_id

TABLE_FORM = 0
RESERVED_FORMS = {
    1: "lattice",
    2: "log2 table",
    3: "table times root",
    4: "derived",
    5: "constant",
    6: "sign",
    7: "absent",
}
CODE_WIDTH = 1
MAX_TABLE = 254


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
        """Return the canonical content."""
        return cbor.dumps([self.dtype.name, list(self.shape), list(self.chunks)])

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
        name, shape, chunks = as_list(cbor.loads(content), "a tensor", 3)
        dtype, sizes = dtype_named(name), as_shape(shape)
        return cls(dtype, sizes, _chunk_ids(chunks, dtype, sizes))


@dataclass(frozen=True)
class QuantizedTensor:
    """A tensor as codes into a table of values in the restored dtype (form 0 of format 1).

    Attributes:
        dtype: the element type the tensor is restored to.
        shape: sizes, row-major.
        width: bytes of a code; always 1, 2 is reserved.
        table: the value of each code, as little-endian bytes of `dtype`; a code equal to the number
            of values marks an exception.
        codes: ids of the chunks of codes, on the grid of `dtype` and `shape`.
        exceptions: for each chunk the id of its exceptions, or None when it has none.
    """

    dtype: DType
    shape: tuple[int, ...]
    width: int
    table: bytes
    codes: tuple[ObjectId, ...]
    exceptions: tuple[ObjectId | None, ...]

    @property
    def levels(self) -> int:
        """Number of values in the table."""
        return len(self.table) // self.dtype.itemsize

    def chunk_elements(self, index: int) -> int:
        """Return the number of elements of chunk `index`."""
        return chunk_length(self.dtype, self.shape, index)

    def encode(self) -> bytes:
        """Return the canonical content."""
        parameters: list[cbor.Value] = [self.width, self.table]
        head: list[cbor.Value] = [TABLE_FORM, self.dtype.name, list(self.shape), parameters]
        return cbor.dumps([*head, list(self.codes), list(self.exceptions)])

    @property
    def id(self) -> ObjectId:
        """The quantized tensor's id."""
        return object_id(Kind.QUANTIZED, self.encode())

    @classmethod
    def decode(cls, content: bytes) -> "QuantizedTensor":
        """Read canonical content.

        Raises:
            CorruptionError: it is not a quantized tensor.
            UnsupportedFormatError: its form or element type is reserved or unknown.
        """
        form, name, shape, parameters, codes, exceptions = as_list(
            cbor.loads(content), "a quantized tensor", 6
        )
        _check_form(form)
        dtype, sizes = dtype_named(name), as_shape(shape)
        width, table = as_list(parameters, "a code table", 2)
        _check_width(as_integer(width, "a code width", 1, 256), dtype)
        values = as_bytes(table, "a code table")
        if len(values) % dtype.itemsize or len(values) // dtype.itemsize > MAX_TABLE:
            raise CorruptionError("a code table has an impossible size")
        marks = as_list(exceptions, "a list of exceptions", chunk_count(dtype, sizes))
        ids = tuple(None if mark is None else as_id(mark) for mark in marks)
        return cls(dtype, sizes, CODE_WIDTH, values, _chunk_ids(codes, dtype, sizes), ids)


def _check_form(form: object) -> None:
    if form != TABLE_FORM or isinstance(form, bool):
        known = RESERVED_FORMS.get(form, str(form)) if isinstance(form, int) else "unknown"
        raise UnsupportedFormatError(
            f"a quantized tensor has the form '{known}', which this version does not read",
            hint="a newer mvcs wrote it; upgrade and try again",
        )


def _check_width(width: int, dtype: DType) -> None:
    if width != CODE_WIDTH or not dtype.quantizable:
        raise UnsupportedFormatError(
            f"this version does not read quantized tensors of '{dtype.name}' with codes of {width} bytes",
            hint="a newer mvcs wrote it; upgrade and try again",
        )


def _chunk_ids(value: object, dtype: DType, shape: tuple[int, ...]) -> tuple[ObjectId, ...]:
    return tuple(as_id(chunk) for chunk in as_list(value, "a list of chunks", chunk_count(dtype, shape)))


def chunk_length(dtype: DType, shape: Sequence[int], index: int) -> int:
    """Return the number of elements of chunk `index` of a tensor."""
    run = chunk_elements(dtype)
    return min(run, element_count(shape) - index * run)
