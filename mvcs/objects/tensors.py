"""What a tensor is: dtype, shape and ids of chunks, exactly or as codes and a rule for them; and a blob."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.objects import cbor
from mvcs.objects.checked_fields import as_bytes, as_integer, as_list, recording
from mvcs.objects.chunk_grid import (
    BLOB_CHUNK_BYTES,
    DType,
    as_shape,
    chunk_count,
    chunk_elements,
    dtype_named,
    element_count,
)
from mvcs.objects.forms import FORMS, RESERVED_FORMS, Derived, Form, LogLattice, Refer, Resolve, RootLattice
from mvcs.objects.ids import HALF_BYTES, Kind, ObjectId, as_id, as_ids, object_id

_START = cbor.dumps([0, 0, 0])[:1]  # an array of three
TABLE_FORM = 0
CODE_WIDTH = 1
MAX_TABLE = 254
MAX_BARE = 1 << 36
_REMEMBERED = 1 << 10  # types and shapes; a model has a few dozen


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


@dataclass(frozen=True)
class QuantizedTensor:
    """A tensor as codes, and the form and parameters by which they become values.

    Attributes:
        dtype: the element type the tensor is restored to.
        shape: sizes, row-major.
        width: bytes of a code: 1 with a table, 0 in a form without codes, else 2.
        parameters: of a table (form 0) the value of each code, as little-endian bytes of `dtype`; a code
            equal to the number of values marks an exception. Of another form its class.
        codes: ids of the chunks of codes, on the grid of `dtype` and `shape`; none in a form without codes,
            and in a log lattice of which all codes are 0.
        exceptions: for each chunk of codes the id of its exceptions, or None when it has none.
        digests: for each chunk of the grid the digest of its restored bytes, one behind the other; empty in
            forms of which all values are one.
    """

    dtype: DType
    shape: tuple[int, ...]
    width: int
    parameters: bytes | Form
    codes: tuple[ObjectId, ...] = ()
    exceptions: tuple[ObjectId | None, ...] = ()
    digests: bytes = b""

    @property
    def table(self) -> bytes:
        """The table of form 0.

        Raises:
            UnsupportedFormatError: the tensor has another form.
        """
        if not isinstance(self.parameters, bytes):
            raise UnsupportedFormatError(f"a quantized tensor of form {self.parameters.number} has no table")
        return self.parameters

    @property
    def levels(self) -> int:
        """Number of values in the table."""
        return len(self.table) // self.dtype.itemsize

    @property
    def chunk_count(self) -> int:
        """Number of chunks of the tensor's grid, with codes or without."""
        return chunk_count(self.dtype, self.shape)

    def chunk_elements(self, index: int) -> int:
        """Return the number of elements of chunk `index`."""
        return chunk_length(self.dtype, self.shape, index)

    def digest(self, index: int) -> bytes | None:
        """Return the digest of the restored bytes of chunk `index`; None in a form that has none."""
        return self.digests[index * HALF_BYTES : (index + 1) * HALF_BYTES] or None

    def chunk_ids(self) -> list[ObjectId]:
        """Return the ids of all chunks it names: codes, exceptions, and offsets of rows and columns."""
        offsets = (
            [self.parameters.rows, self.parameters.cols] if isinstance(self.parameters, LogLattice) else []
        )
        return [found for found in (*self.codes, *self.exceptions, *offsets) if found is not None]

    @property
    def source(self) -> "QuantizedTensor | None":
        """The quantized tensor whose values it needs."""
        form = self.parameters
        if isinstance(form, RootLattice):
            return form.root
        return form.source if isinstance(form, Derived) else None

    @cached_property
    def id(self) -> ObjectId:
        """The id of the tensor: of what it is, wherever it stands."""
        return object_id(Kind.QUANTIZED, self.encode())

    def encode(self) -> bytes:
        """Return the bytes that the id is of; they are stored nowhere.

        Raises:
            UsageError: they would be refused when they are read.
        """
        return cbor.dumps(self.items(lambda tensor: tensor.id))

    def items(self, refer: Refer) -> list[cbor.Value]:
        """Return the seven items that say what it is, from its element type to its codes.

        Args:
            refer: gives what stands for another tensor.

        Raises:
            UsageError: they would be refused when they are read.
        """
        _ = self._is_fit
        return self._items(refer)

    @cached_property
    def _is_fit(self) -> bool:
        """Whether readers take it, which is looked at once; else an error tells why not."""
        with recording("this quantized tensor"):
            _read(self._items(_itself), _given)
        return True

    def _items(self, refer: Refer) -> list[cbor.Value]:
        rest = [list(self.exceptions), self.digests, list(self.codes)]
        return [
            self.dtype.name,
            list(self.shape),
            (TABLE_FORM if isinstance(self.parameters, bytes) else self.parameters.number),
            self._fields(refer),
            *rest,
        ]

    def _fields(self, refer: Refer) -> list[cbor.Value]:
        if isinstance(self.parameters, bytes):
            return [self.width, self.parameters]
        return self.parameters.fields(refer)

    @classmethod
    def read(cls, items: object, resolve: Resolve) -> "QuantizedTensor":
        """Read the items of a tensor.

        Args:
            items: as `items` gives them.
            resolve: gives the tensor that something stands for.

        Raises:
            CorruptionError: they describe no tensor.
            UnsupportedFormatError: its form or element type is reserved or unknown.
        """
        found = cls(*_read(items, resolve))
        vars(found)["_is_fit"] = True
        return found


def _itself(tensor: QuantizedTensor) -> Any:  # noqa: ANN401 - it is read again and never encoded
    return tensor


def _given(value: object) -> QuantizedTensor:
    if not isinstance(value, QuantizedTensor):
        raise CorruptionError("a quantized tensor is made from something that is none")
    return value


_Read = tuple[
    DType,
    tuple[int, ...],
    int,
    bytes | Form,
    tuple[ObjectId, ...],
    tuple[ObjectId | None, ...],
    bytes,
]


def _read(items: object, resolve: Resolve) -> _Read:
    """Return the attributes of a tensor."""
    name, shape, form, fields, exceptions, digests, codes = as_list(items, "a quantized tensor", 7)
    _check_form(form)
    dtype, sizes = dtype_named(name), as_shape(shape)
    _check_type(dtype)
    kind = FORMS.get(form) if isinstance(form, int) else None
    parameters = _table(fields, dtype) if kind is None else kind.read(fields, dtype, sizes, resolve)
    width = CODE_WIDTH if isinstance(parameters, bytes) else parameters.width
    chunks = chunk_count(dtype, sizes)
    count = _code_chunks(parameters, chunks, sizes, codes)
    marks = as_list(exceptions, "a list of exceptions", count)
    ids = tuple([None if mark is None else as_id(mark) for mark in marks])
    checked = _digests(parameters, chunks, digests)
    return dtype, sizes, width, parameters, chunk_ids_in(codes, count), ids, checked


def _check_form(form: object) -> None:
    if isinstance(form, bool) or not isinstance(form, int) or (form != TABLE_FORM and form not in FORMS):
        known = RESERVED_FORMS.get(form, str(form)) if isinstance(form, int) else "unknown"
        raise UnsupportedFormatError(
            f"a quantized tensor has the form '{known}', which this version does not read",
            hint="a newer mvcs wrote it; upgrade and try again",
        )


def _check_type(dtype: DType, width: int | None = None) -> None:
    if width not in {None, CODE_WIDTH} or not dtype.quantizable:
        codes = "" if width is None else f" with codes of {width} bytes"
        raise UnsupportedFormatError(
            f"this version does not read quantized tensors of '{dtype.name}'{codes}",
            hint="a newer mvcs wrote it; upgrade and try again",
        )


def _table(fields: object, dtype: DType) -> bytes:
    width, table = as_list(fields, "a code table", 2)
    _check_type(dtype, as_integer(width, "a code width", 1, 256))
    values = as_bytes(table, "a code table")
    if len(values) % dtype.itemsize or len(values) // dtype.itemsize > MAX_TABLE:
        raise CorruptionError("a code table has an impossible size")
    return values


def _code_chunks(parameters: bytes | Form, chunks: int, shape: Sequence[int], codes: object) -> int:
    """Return how many chunks of codes a tensor of so many chunks has to have."""
    bare = not isinstance(parameters, bytes) and parameters.width == 0
    # Offsets of rows and columns can say everything.
    alone = isinstance(parameters, LogLattice) and parameters.rows is not None and parameters.cols is not None
    if not bare and not (alone and codes == []):
        return chunks
    # The others are as large as their lists of chunks at least.
    if element_count(shape) > MAX_BARE:
        raise CorruptionError(f"a quantized tensor of {element_count(shape)} elements has no codes")
    return 0


def is_computed(parameters: bytes | Form) -> bool:
    """Tell whether values differ from each other, so that a tensor of these parameters has digests."""
    return isinstance(parameters, bytes) or parameters.is_computed


def _digests(parameters: bytes | Form, chunks: int, value: object) -> bytes:
    found = as_bytes(value, "the digests of a quantized tensor")
    if len(found) != (chunks if is_computed(parameters) else 0) * HALF_BYTES:
        raise CorruptionError("a quantized tensor has not one digest for each chunk of its values")
    return found


def chunk_length(dtype: DType, shape: Sequence[int], index: int) -> int:
    """Return the number of elements of chunk `index` of a tensor."""
    run = chunk_elements(dtype)
    return min(run, element_count(shape) - index * run)


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


@dataclass(frozen=True)
class Blob:
    """Opaque bytes.

    Attributes:
        length: number of bytes.
        chunks: ids of the chunks, runs of 2^24 bytes.
    """

    length: int
    chunks: tuple[ObjectId, ...]

    def encode(self) -> bytes:
        """Return the canonical content.

        Raises:
            UsageError: the chunks are not those of the length.
        """
        content = cbor.dumps([self.length, list(self.chunks)])
        with recording("this blob"):
            Blob.decode(content)
        return content

    @property
    def id(self) -> ObjectId:
        """The blob's id."""
        return object_id(Kind.BLOB, self.encode())

    @classmethod
    def decode(cls, content: bytes | memoryview) -> "Blob":
        """Read canonical content.

        Raises:
            CorruptionError: it is not a blob.
        """
        length, chunks = as_list(cbor.loads(content), "a blob", 2)
        size = as_integer(length, "a blob's length")
        ids = as_list(chunks, "a blob's chunks", -(-size // BLOB_CHUNK_BYTES))
        return cls(size, tuple(as_id(chunk) for chunk in ids))
