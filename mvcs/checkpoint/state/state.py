"""A nested Python state, taken apart into a structure with leaves and blobs, and put together again."""

import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

import numpy as np

from mvcs.checkpoint.state.arrays import find_array, rebuild_scalar, scalar_node
from mvcs.checkpoint.state.captured import Captured, Collector, refuse
from mvcs.checkpoint.state.objects import make_object, object_parts
from mvcs.errors import CorruptionError
from mvcs.objects import (
    MAX_INTEGER_BYTES,
    MAX_KEY_BITS,
    Key,
    NodeTag,
    ObjectId,
    Path,
    TensorFlag,
    Tree,
    Value,
    as_bytes,
    as_float,
    as_integer,
    as_text,
    blob_reference,
    cbor,
    pairs_of,
    tag_of,
    tensor_reference,
)

# A mapping is three nested arrays, so 64 of them and a tree around them stay below the encoding's 256.
MAX_NESTING = 64

_SEQUENCES: dict[type, NodeTag] = {list: NodeTag.LIST, tuple: NodeTag.TUPLE}
_SETS: dict[type, NodeTag] = {set: NodeTag.SET, frozenset: NodeTag.FROZENSET}
_MAPPINGS: dict[type, NodeTag] = {
    dict: NodeTag.DICT,
    Counter: NodeTag.COUNTER,
    OrderedDict: NodeTag.ORDERED_DICT,
}
_PRIMITIVES = (type(None), bool, int, float, complex, str, bytes)
_KEYS = frozenset({str, int, bool})
Buffer = bytes | bytearray | memoryview
LeafReader = Callable[[int], Any]
BlobReader = Callable[[ObjectId, int], Buffer]

_TORCH_CONSTANTS = (NodeTag.TORCH_DTYPE, NodeTag.TORCH_DEVICE, NodeTag.TORCH_SIZE)


def capture_state(state: object) -> Captured:
    """Take a nested state apart.

    Supported, by exact type: None, bool, int, float, complex, str, bytes, bytearray, list, tuple, dict,
    OrderedDict, Counter, set and frozenset of primitives, numpy arrays and scalars, torch tensors and
    parameters, torch dtypes, devices and sizes, and objects of the kinds in `docs/format/files.md`. Tensors
    that are the same memory become one leaf.

    Args:
        state: what a run hands over. It is not copied; leaves read it when they are read. What devices are
            computing is waited for.

    Raises:
        StateError: something else is in it, or it contains itself; the message names the path.
    """
    capture = StateCapture(Collector())
    root = capture.node(state, ())
    if capture.torch:
        capture.torch.wait_for_devices(leaf.source for leaf in capture.collector.leaves)
    return Captured(tuple(capture.collector.leaves), root=root, blobs=capture.collector.blobs)


def check_state(state: object) -> None:
    """Find out whether a state can be stored; no tensor is read.

    Raises:
        StateError: something in it cannot; the message names the path.
    """
    StateCapture(Collector()).node(state, ())


class StateCapture:
    """Walks a state once, in order, and hands leaves and blobs to a collector."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self._open: set[int] = set()
        # A state cannot hold torch objects in a process that has not imported torch.
        self.torch = import_module("mvcs.checkpoint.state.torch_values") if "torch" in sys.modules else None

    def node(self, value: object, path: Path, depth: int = MAX_NESTING) -> Value:
        """Return the structure of `value`.

        Raises:
            StateError: something in it cannot be stored; the message names its path.
        """
        kind = type(value)
        if kind in _SEQUENCES or kind in _MAPPINGS or kind in _SETS:
            return self._container(value, path, depth)
        if kind in _PRIMITIVES or kind is bytearray:
            return self._primitive(value, path)
        found = self.torch.find_tensor(value, path) if self.torch else None
        if found is not None:
            return self.collector.tensor(found, path)
        node = self._object(value, path, depth)
        if node is not None:
            return node
        if kind is np.ndarray:
            return self.collector.tensor(find_array(value, path), path)  # type: ignore[arg-type]  # by its kind
        if isinstance(value, np.generic):
            return scalar_node(value, path)
        return self._torch(value, path)

    def _object(self, value: object, path: Path, depth: int) -> Value:
        try:
            parts = object_parts(value)
        except ValueError as error:
            raise refuse(path, str(error)) from None
        if parts is None:
            return None
        node = self._container(parts, path, depth)
        return [int(NodeTag.OBJECT), *node[1:]]  # type: ignore[index]  # a tuple's

    def _primitive(self, value: object, path: Path) -> Value:
        if isinstance(value, str):
            return self.collector.text_node(value)
        if isinstance(value, bytes):
            return self.collector.bytes_node(value)
        if isinstance(value, bytearray):
            return [int(NodeTag.BYTEARRAY), self.collector.bytes_node(bytes(value))]
        if isinstance(value, complex):
            return [int(NodeTag.COMPLEX), value.real, value.imag]
        if isinstance(value, int) and value.bit_length() > 8 * MAX_INTEGER_BYTES:
            raise refuse(path, f"an integer of {value.bit_length()} bits")
        return value  # type: ignore[return-value]  # None, bool, int or float are values

    def _torch(self, value: object, path: Path) -> Value:
        constant: Value = self.torch.constant_node(value, path) if self.torch else None
        if constant is not None:
            return constant
        if callable(getattr(value, "state_dict", None)):
            raise refuse(path, f"a '{type(value).__name__}'", f"pass {_called(value, path)}.state_dict()")
        raise refuse(path, f"a '{type(value).__name__}'")

    def _container(self, value: object, path: Path, depth: int) -> Value:
        if depth == 0:
            raise refuse(path, f"a container inside {MAX_NESTING} others")
        if id(value) in self._open:
            raise refuse(path, "a container that contains itself")
        self._open.add(id(value))
        try:
            return self._opened(value, path, depth)
        finally:
            self._open.discard(id(value))

    def _opened(self, value: object, path: Path, depth: int) -> Value:
        kind = type(value)
        if isinstance(value, list | tuple):
            items = [self.node(item, (*path, index), depth - 1) for index, item in enumerate(value)]
            return [int(_SEQUENCES[kind]), *items]
        if isinstance(value, set | frozenset):
            return [int(_SETS[kind]), *self._members(value, path)]
        if isinstance(value, dict):
            return self._mapping(value, path, depth)
        raise refuse(path, f"a '{kind.__name__}'")

    def _members(self, members: Iterable[object], path: Path) -> list[Value]:
        for member in members:
            if type(member) not in _PRIMITIVES:
                raise refuse(path, f"a set with a '{type(member).__name__}' in it")
        # A set has no order of its own, so the encoding gives it one: equal sets are equal bytes.
        return sorted((self._primitive(member, path) for member in members), key=cbor.dumps)

    def _mapping(self, value: Mapping[object, object], path: Path, depth: int) -> Value:
        pairs: list[Value] = []
        if not {*map(type, value)} <= _KEYS:
            return self._object(value, path, depth)
        for key, item in cast("Mapping[str | int, object]", value).items():
            if isinstance(key, int) and key.bit_length() > MAX_KEY_BITS:
                raise refuse(path, f"a key of {key.bit_length()} bits")
            pairs.append([key, self.node(item, (*path, key), depth - 1)])
        tag = _MAPPINGS[type(value)]
        metadata = self._attributes(value, path, depth)
        return [int(tag), pairs, metadata] if tag is NodeTag.ORDERED_DICT else [int(tag), pairs]

    def _attributes(self, value: object, path: Path, depth: int) -> Value:
        attributes = getattr(value, "__dict__", {})
        for name in attributes:
            if name != "_metadata" or type(value) is not OrderedDict:
                raise refuse(path, f"the attribute '{name}' of a '{type(value).__name__}'")
        if "_metadata" not in attributes:
            return None
        return self.node(attributes["_metadata"], (*path, "_metadata"), depth - 1)


def _called(value: object, path: Path) -> str:
    """Return what the caller will call something: its name in the state, or else what it is."""
    last = path[-1] if path else None
    if isinstance(last, str) and last.isidentifier():
        return last
    return "model" if hasattr(value, "parameters") else type(value).__name__.lower()


@dataclass(frozen=True)
class ContentReader:
    """Reads the content of one tree.

    Attributes:
        tree: whose leaves and blobs are read.
        leaves: yields the bytes of leaves, by their indices, in that order; it may read ahead.
        blobs: gives the bytes of a blob by id and length.
        pieces: gives the same piece by piece, for what need not fit into memory.
        restored: the commit, in hexadecimal, whose value layer the leaves are of; None for an exact layer.
    """

    tree: Tree
    leaves: Callable[[Sequence[int]], Iterator[Buffer]]
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
        return next(self.each([index]))

    def each(self, indices: Sequence[int]) -> Iterator[memoryview]:
        """Yield the bytes of leaves in this order, one held at a time; the next may be read meanwhile.

        Raises:
            CorruptionError: their number is not that of a leaf's shape.
        """
        found = self.leaves(indices)
        for index in indices:
            yield self._checked(index, next(found))

    def _checked(self, index: int, content: Buffer) -> memoryview:
        data = memoryview(content).cast("B")
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
        if not all(type(member) in _PRIMITIVES for member in members):
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
        found = self._tensors.get((index, flags))
        if found is None:
            if index not in self._leaves:
                self._leaves[index] = self._leaf(index)
            found = self._tensors[index, flags] = _handed_back(self._leaves[index], flags)
        return found


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
