"""Out of a commit again: its leaves and blobs, checked against the lengths the tree gives; states rebuilt."""

import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mvcs.checkpoint.state.arrays import rebuild_scalar
from mvcs.checkpoint.state.objects import make_object
from mvcs.errors import CorruptionError
from mvcs.objects import (
    Key,
    NodeTag,
    ObjectId,
    TensorFlag,
    Tree,
    Value,
    as_bytes,
    as_float,
    as_integer,
    as_text,
    blob_reference,
    pairs_of,
    tag_of,
    tensor_reference,
)

Buffer = bytes | bytearray | memoryview
LeafReader = Callable[[int], Any]
BlobReader = Callable[[ObjectId, int], Buffer]

_MEMBERS = (type(None), bool, int, float, complex, str, bytes)
_TORCH_CONSTANTS = (NodeTag.TORCH_DTYPE, NodeTag.TORCH_DEVICE, NodeTag.TORCH_SIZE)


@dataclass(frozen=True)
class ContentReader:
    """Reads the content of one tree.

    Attributes:
        tree: whose leaves and blobs are read.
        leaves: gives the bytes of a leaf by its index.
        blobs: gives the bytes of a blob by id and length.
        pieces: gives the same piece by piece, for what need not fit into memory.
        restored: the commit, in hexadecimal, whose value layer the leaves are of; None for an exact layer.
    """

    tree: Tree
    leaves: Callable[[int], Buffer]
    blobs: BlobReader
    pieces: Callable[[ObjectId, int], Iterator[Buffer]]
    restored: str | None = None

    def restored_from(self, indices: Iterable[int]) -> str | None:
        """Return `restored` if some of these leaves are not what was handed over."""
        leaves = self.tree.leaves
        return self.restored if any(leaves[index].exact is not None for index in indices) else None

    def leaf(self, index: int) -> memoryview:
        """Return the bytes of a leaf.

        Raises:
            CorruptionError: their number is not that of the leaf's shape.
        """
        data = memoryview(self.leaves(index)).cast("B")
        expected = self.tree.leaves[index].raw_bytes
        if data.nbytes != expected:
            raise CorruptionError(f"leaf {index} has {data.nbytes} bytes where {expected} belong")
        return data

    def blob(self, identifier: ObjectId, length: int) -> memoryview:
        """Return the bytes of a blob.

        Raises:
            CorruptionError: their number is not the blob's length.
        """
        data = memoryview(self.blobs(identifier, length)).cast("B")
        if data.nbytes != length:
            raise CorruptionError(f"a blob of {length} bytes has {data.nbytes}")
        return data

    def bytes_of(self, node: Value) -> bytes:
        """Return bytes that stand in a tree themselves or as a blob."""
        reference = blob_reference(node)
        return as_bytes(node, "bytes in a tree") if reference is None else bytes(self.blob(*reference))


def rebuild_state(node: Value, leaf: LeafReader, blob: BlobReader, *, plain: bool = False) -> object:
    """Put a state together again, with the exact types and order it had.

    Args:
        node: a structure, as `Tree.decode` checked it.
        leaf: gives a leaf as a torch tensor, or as a numpy array where no torch is wanted; asked once a leaf.
        blob: gives the content of a blob by id and length.
        plain: give no object of torch's: a size is a tuple, a dtype or a device its name.

    Returns:
        The state. References to one leaf are the same object, or share memory when one is a parameter and the
        other is not. Leaves that were numpy arrays come back as numpy arrays in either case.

    Raises:
        CorruptionError: the structure is malformed.
        UnsupportedFormatError: it holds something this version does not know.
    """
    return _Rebuild(leaf, blob, plain=plain).value(node)


class _Rebuild:
    def __init__(self, leaf: LeafReader, blob: BlobReader, *, plain: bool) -> None:
        self._leaf = leaf
        self._blob = blob
        self._no_torch = plain
        self._leaves: dict[int, Any] = {}
        self._tensors: dict[tuple[int, TensorFlag], Any] = {}

    def value(self, node: Value) -> Any:  # noqa: ANN401 - a state is anything
        if not isinstance(node, list):
            return node
        reference = tensor_reference(node)
        if reference is not None:
            return self._tensor(*reference)
        tag, rest = tag_of(node)
        if tag in (NodeTag.BLOB_BYTES, NodeTag.BLOB_TEXT):
            return self._content(tag, node)
        if tag in _TORCH_CONSTANTS and self._no_torch:
            return _plain_constant(tag, rest)
        if tag in _TORCH_CONSTANTS:
            from mvcs.checkpoint.state import torch_values

            return torch_values.rebuild_constant(tag, rest)
        return self._container(tag, rest)

    def _container(self, tag: NodeTag, rest: list[Value]) -> Any:  # noqa: ANN401
        if tag is NodeTag.LIST:
            return [self.value(item) for item in rest]
        if tag is NodeTag.TUPLE:
            return tuple(self.value(item) for item in rest)
        if tag is NodeTag.OBJECT:
            return make_object(*map(self.value, rest))
        if tag in (NodeTag.SET, NodeTag.FROZENSET):
            return self._set(tag, rest)
        if tag in (NodeTag.DICT, NodeTag.COUNTER, NodeTag.ORDERED_DICT):
            return self._mapping(tag, rest)
        return self._plain(tag, rest)

    def _plain(self, tag: NodeTag, rest: list[Value]) -> Any:  # noqa: ANN401
        if tag is NodeTag.BYTEARRAY and len(rest) == 1:
            return bytearray(as_bytes(self.value(rest[0]), "a bytearray"))
        if tag is NodeTag.COMPLEX and len(rest) == 2:
            return complex(as_float(rest[0], "a complex number"), as_float(rest[1], "a complex number"))
        if tag is NodeTag.NUMPY_SCALAR and len(rest) == 2:
            return rebuild_scalar(*rest)
        raise CorruptionError(f"a structure's object of kind {int(tag)} has {len(rest)} parts")

    def _set(self, tag: NodeTag, rest: list[Value]) -> Any:  # noqa: ANN401
        members = [self.value(item) for item in rest]
        if not all(type(member) in _MEMBERS for member in members):
            raise CorruptionError("a set holds something other than primitives")
        return set(members) if tag is NodeTag.SET else frozenset(members)

    def _mapping(self, tag: NodeTag, rest: list[Value]) -> Any:  # noqa: ANN401
        if len(rest) != (2 if tag is NodeTag.ORDERED_DICT else 1):
            raise CorruptionError(f"a mapping has {len(rest)} parts")
        kinds: dict[NodeTag, Callable[[], dict[Key, Any]]] = {
            NodeTag.DICT: dict,
            NodeTag.COUNTER: Counter,
            NodeTag.ORDERED_DICT: OrderedDict,
        }
        mapping = kinds[tag]()
        for key, item in pairs_of(rest[0]):
            mapping[key] = self.value(item)
        if tag is NodeTag.ORDERED_DICT and rest[1] is not None:
            vars(mapping)["_metadata"] = self.value(rest[1])
        return mapping

    def _content(self, tag: NodeTag, node: Value) -> bytes | str:
        reference = blob_reference(node)
        if reference is None:
            raise CorruptionError("a blob reference is malformed")
        content = bytes(self._blob(*reference))
        if len(content) != reference[1]:
            raise CorruptionError(f"a blob of {reference[1]} bytes has {len(content)}")
        if tag is NodeTag.BLOB_BYTES:
            return content
        try:
            return content.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise CorruptionError("a blob of text is not UTF-8") from error

    def _tensor(self, index: int, flags: TensorFlag) -> Any:  # noqa: ANN401
        if (index, flags) not in self._tensors:
            if index not in self._leaves:
                self._leaves[index] = self._leaf(index)
            self._tensors[index, flags] = _handed_back(self._leaves[index], flags)
        return self._tensors[index, flags]


def _plain_constant(tag: NodeTag, rest: list[Value]) -> tuple[int, ...] | str:
    """Return a size as a tuple, and a dtype or a device by its name."""
    if tag is NodeTag.TORCH_SIZE:
        return tuple(as_integer(size, "a size") for size in rest)
    return as_text(rest[0] if len(rest) == 1 else None, "a torch constant")


def _handed_back(tensor: Any, flags: TensorFlag) -> Any:  # noqa: ANN401 - torch's or numpy's
    # No leaf can be a torch tensor in a process that has not imported torch.
    if "torch" not in sys.modules:
        return tensor
    from mvcs.checkpoint.state import torch_values

    return torch_values.handed_back(tensor, flags)
