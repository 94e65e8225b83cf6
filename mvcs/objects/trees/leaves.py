"""What a tree names: leaves, each with its value and what was handed over, and files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from mvcs.errors import CorruptionError, UnsupportedFormatError, UsageError
from mvcs.objects import cbor
from mvcs.objects.checked_fields import as_integer, as_list, as_text
from mvcs.objects.chunk_grid import DType, as_shape, dtype_named, element_count
from mvcs.objects.ids import ObjectId
from mvcs.objects.tensors import ExactTensor, QuantizedTensor
from mvcs.objects.trees.paths import safe_path
from mvcs.objects.trees.structure import blob_reference

MAX_LEAVES = 1 << 20
MADE_FROM = 2
"""A copy may be derived from a first moment, which is scaled by a second one; that is made from nothing."""
_EXACT, _QUANTIZED = 3, 8  # items of a leaf
_EXACT_START, _QUANTIZED_START = (cbor.dumps([0] * count)[:1] for count in (_EXACT, _QUANTIZED))


@dataclass(frozen=True)
class Leaf:
    """One tensor of a state.

    Attributes:
        tensor: what the commit restores.
        original: the tensor as it was handed over, when `tensor` is quantized; None when `tensor` already is
            that exact tensor.
    """

    tensor: ExactTensor | QuantizedTensor
    original: ExactTensor | None = None

    @property
    def dtype(self) -> DType:
        """Element type of the restored tensor."""
        return self.tensor.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return self.tensor.shape

    @property
    def value(self) -> ObjectId:
        """Id of the tensor the commit restores."""
        return self.tensor.id

    @property
    def exact(self) -> ObjectId | None:
        """Id of the tensor as it was handed over, when another one is restored; None when it is."""
        return None if self.original is None else self.original.id

    def value_chunks(self) -> Iterator[ObjectId]:
        """Yield the chunks that its value is made of, and those of tensors that it is made from."""
        tensor: ExactTensor | QuantizedTensor | None = self.tensor
        while tensor is not None:
            yield from tensor.chunk_ids()
            tensor = tensor.source if isinstance(tensor, QuantizedTensor) else None

    @property
    def handed_over(self) -> ExactTensor:
        """The tensor as it was handed over, in either case."""
        found = self.original or self.tensor
        if isinstance(found, QuantizedTensor):
            raise TypeError("a quantized leaf has to have an original")
        return found

    @property
    def exact_id(self) -> ObjectId:
        """Id of the tensor as it was handed over, in either case."""
        return self.handed_over.id

    @property
    def raw_bytes(self) -> int:
        """Bytes of the tensor in memory."""
        return element_count(self.shape) * self.dtype.itemsize


class FileFormat(StrEnum):
    """How a file of a commit is written again."""

    SAFETENSORS = "safetensors"
    TORCH = "torch"
    NPZ = "npz"
    BINARY = "binary"
    """Tensors by name, and in the header a layout of all other bytes: what no format above can hold."""
    OPAQUE = "opaque"


@dataclass(frozen=True)
class FileEntry:
    """One file of a commit.

    Attributes:
        path: relative to the folder above `.mvcs`, with forward slashes.
        format: how it is written again.
        node: its content: a structure with tensors, or a blob reference when the format is opaque.
        header: for safetensors, the file's own header (bytes or a blob reference). For torch, npz and binary
            files its layout, likewise; None for an opaque file, and where an earlier version wrote none.
    """

    path: str
    format: FileFormat
    node: cbor.Value
    header: cbor.Value = None


class LeafReader:
    """Reads the leaves of a decoded tree, each when it is first asked for: one may be made from another."""

    def __init__(self, values: list[cbor.Value]) -> None:
        """Read `values`, of which none was looked at."""
        self._values = values
        self._found: dict[int, Leaf] = {}
        self._below = 0

    def leaves(self) -> tuple[Leaf, ...]:
        """Return all of them.

        Raises:
            CorruptionError: there are too many, one is none, or is made from too many others in a row, as in
                a circle.
            UnsupportedFormatError: it has something that this version does not know.
        """
        _check_count(self._values)
        return tuple([self._leaf(index) for index in range(len(self._values))])

    def _leaf(self, index: int) -> Leaf:
        if index not in self._found:
            self._found[index] = self._read(as_list(self._values[index], "a leaf"))
        return self._found[index]

    def _read(self, items: list[cbor.Value]) -> Leaf:
        if len(items) == _EXACT:
            name, shape, chunks = items
            return Leaf(ExactTensor.read(dtype_named(name), as_shape(shape), chunks))
        *described, chunks = as_list(items, "a leaf", _QUANTIZED)
        tensor = QuantizedTensor.read(described, self._resolved)
        return Leaf(tensor, ExactTensor.read(tensor.dtype, tensor.shape, chunks))

    def _resolved(self, value: cbor.Value) -> QuantizedTensor:
        """Return the tensor that another one is made from: that of a leaf, or one that no leaf has."""
        if self._below == MADE_FROM:
            raise CorruptionError(f"a tensor is made from more than {MADE_FROM} others in a row")
        self._below += 1
        try:
            return self._source(value)
        finally:
            self._below -= 1

    def _source(self, value: cbor.Value) -> QuantizedTensor:
        if isinstance(value, list):
            return QuantizedTensor.read(value, self._resolved)
        tensor = self._leaf(as_integer(value, "the number of a leaf", 0, len(self._values))).tensor
        if not isinstance(tensor, QuantizedTensor):
            raise CorruptionError("a quantized tensor is made from an exact one")
        return tensor


class LeafWriter:
    """Gives the items of a tree that `LeafReader` reads."""

    def __init__(self, leaves: Sequence[Leaf]) -> None:
        """Write `leaves`."""
        self._leaves = leaves

    def items(self) -> list[bytes]:
        """Return an item for each leaf.

        Raises:
            CorruptionError: there are too many.
            UsageError: one would be refused.
        """
        _check_count(self._leaves)
        return [self._item(leaf) for leaf in self._leaves]

    def _item(self, leaf: Leaf) -> bytes:
        tensor, original = leaf.tensor, leaf.handed_over
        if isinstance(tensor, ExactTensor):
            return _EXACT_START + tensor.head + tensor.listed
        if (original.dtype, original.shape) != (tensor.dtype, tensor.shape):
            raise UsageError("a leaf cannot be recorded that was handed over with another type or shape")
        described = cbor.dumps(tensor.items(self._reference))
        return _QUANTIZED_START + described[len(_QUANTIZED_START) :] + original.listed

    def _reference(self, tensor: QuantizedTensor) -> cbor.Value:
        number = self._numbers.get(tensor)
        return tensor.items(self._reference) if number is None else number

    @cached_property
    def _numbers(self) -> dict[ExactTensor | QuantizedTensor, int]:
        """The first leaf of each tensor."""
        return {leaf.tensor: number for number, leaf in reversed([*enumerate(self._leaves)])}


def _check_count(leaves: Sequence[object]) -> None:
    if len(leaves) > MAX_LEAVES:
        raise CorruptionError(f"a tree has {len(leaves)} leaves, more than {MAX_LEAVES}")


def as_file(value: cbor.Value) -> FileEntry:
    """Read a file from a decoded tree; what its structures hold is not looked at.

    Raises:
        CorruptionError: it is none.
    """
    path, name, node, header = as_list(value, "a file entry", 4)
    if header is not None and not isinstance(header, bytes) and blob_reference(header) is None:
        raise CorruptionError("a file's header is neither bytes nor a blob")
    try:
        file_format = FileFormat(as_text(name, "a file's format"))
    except ValueError:
        raise UnsupportedFormatError(f"a file of the unknown format {name!r}") from None
    if file_format is FileFormat.OPAQUE and blob_reference(node) is None:
        raise CorruptionError("an opaque file is not a blob")
    if file_format is FileFormat.BINARY and header is None:
        raise CorruptionError("a binary file has no layout")
    return FileEntry(safe_path(as_text(path, "a file's path")), file_format, node, header)
