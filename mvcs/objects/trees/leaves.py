"""What a tree names: leaves, each with its value and what was handed over, and files."""

from dataclasses import dataclass
from enum import StrEnum

from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.objects import cbor
from mvcs.objects.checked_fields import as_list, as_text
from mvcs.objects.chunk_grid import as_shape, element_count
from mvcs.objects.dtypes import DType, dtype_named
from mvcs.objects.ids import ObjectId, as_id
from mvcs.objects.tensor_heads import head_of
from mvcs.objects.trees.paths import safe_path
from mvcs.objects.trees.structure import blob_reference
from mvcs.objects.trees.structure_check import check

_START = cbor.dumps([0, 0, 0, 0])[:1]  # an array of four


@dataclass(frozen=True)
class Leaf:
    """One tensor of a state.

    Attributes:
        dtype: element type of the restored tensor.
        shape: its sizes.
        value: id of the tensor the commit restores.
        exact: id of the tensor as it was handed over, when `value` is a quantized tensor; None when
            `value` already is that exact tensor.
    """

    dtype: DType
    shape: tuple[int, ...]
    value: ObjectId
    exact: ObjectId | None = None

    @property
    def exact_id(self) -> ObjectId:
        """Id of the tensor as it was handed over, in either case."""
        return self.value if self.exact is None else self.exact

    @property
    def raw_bytes(self) -> int:
        """Bytes of the tensor in memory."""
        return element_count(self.shape) * self.dtype.itemsize


class FileFormat(StrEnum):
    """How a file of a commit is written again."""

    SAFETENSORS = "safetensors"
    TORCH = "torch"
    NPZ = "npz"
    OPAQUE = "opaque"


@dataclass(frozen=True)
class FileEntry:
    """One file of a commit.

    Attributes:
        path: relative to the folder above `.mvcs`, with forward slashes.
        format: how it is written again.
        node: its content: a structure of tensors, or a blob reference when the format is opaque.
        header: for safetensors, the file's own header (bytes or a blob reference); None otherwise.
    """

    path: str
    format: FileFormat
    node: cbor.Value
    header: cbor.Value = None


def as_leaf(value: cbor.Value) -> Leaf:
    """Read a leaf from a decoded tree.

    Raises:
        CorruptionError: it is none.
    """
    name, shape, identifier, exact = as_list(value, "a leaf", 4)
    return Leaf(
        dtype_named(name), as_shape(shape), as_id(identifier), None if exact is None else as_id(exact)
    )


def leaf_item(leaf: Leaf) -> bytes:
    """Return the item of a tree that `as_leaf` reads.

    Raises:
        CorruptionError: it would be refused.
    """
    head, exact = head_of(leaf.dtype, leaf.shape), leaf.exact
    ids = cbor.id_item(as_id(leaf.value)) + cbor.id_item(None if exact is None else as_id(exact))
    return _START + head.content + ids


def as_file(value: cbor.Value) -> FileEntry:
    """Read a file from a decoded tree.

    Raises:
        CorruptionError: it is none.
    """
    path, name, node, header = as_list(value, "a file entry", 4)
    check(node)
    if isinstance(header, list):
        check(header)
    if header is not None and not isinstance(header, bytes) and blob_reference(header) is None:
        raise CorruptionError("a file's header is neither bytes nor a blob")
    try:
        file_format = FileFormat(as_text(name, "a file's format"))
    except ValueError:
        raise UnsupportedFormatError(f"a file of the unknown format {name!r}") from None
    if file_format is FileFormat.OPAQUE and blob_reference(node) is None:
        raise CorruptionError("an opaque file is not a blob")
    return FileEntry(safe_path(as_text(path, "a file's path")), file_format, node, header)
